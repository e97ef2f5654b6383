"""Texts of dynamic events are values or DynEventErrors; values have one text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybpf.errors import DynEventError
from pybpf.tracefs.dynevent import Eprobe, Kprobe, Removal, Synthetic, SyntheticField, Uprobe
from pybpf.tracefs.dynevents.explain import explain
from pybpf.tracefs.dynevents.judge import judge
from pybpf.tracefs.dynevents.parse import parse
from pybpf.tracefs.fetch import (
    Access,
    Bits,
    Builtin,
    Cast,
    Deref,
    FetchArg,
    FetchType,
    Field,
    Immediate,
    Path,
    SymbolMemory,
    Text,
    Variable,
)

KERNELS = ("6.1", "6.12", "7.3")


def prev(fetch, type_=None, name="a"):
    return Eprobe("s.e", (FetchArg(fetch, name, type_),), "t", "x")


@pytest.mark.parametrize(
    ("text", "value", "canonical"),
    [
        ("e:t/x s.e a=$f", prev(Field("f")), None),
        ("e:t/x s/e a=f", prev(Field("f", bare=True)), "e:t/x s.e a=f"),
        ("e:t.x  s.e\ta=$f # c", prev(Field("f")), "e:t/x s.e a=$f"),
        ("e s.e", Eprobe("s.e"), None),
        ("e:t/ s.e", Eprobe("s.e", group="t"), None),
        ("e:x s.e $f", Eprobe("s.e", (FetchArg(Field("f")),), event="x"), None),
        ("e:t/x s.e a=+u8(-0x10($f)):ustring",
         prev(Deref(8, Deref(-16, Field("f")), user=True), FetchType("ustring")),
         "e:t/x s.e a=+u8(-16($f)):ustring"),
        ("e:t/x s.e a=+0($f):b1@0x2/010[4]",
         prev(Deref(0, Field("f")), FetchType(Bits(1, 2, 8), 4)),
         "e:t/x s.e a=+0($f):b1@2/8[4]"),
        ("e:t/x s.e a=\\0x10", prev(Immediate(16)), "e:t/x s.e a=\\16"),
        ("e:t/x s.e a=\\18446744073709551615", prev(Immediate(2**64 - 1)),
         "e:t/x s.e a=\\0xffffffffffffffff"),
        ('e:t/x s.e a=\\"x"y"', prev(Text('x"y')), None),
        ("e:t/x s.e a=@jiffies-0x8:u64", prev(SymbolMemory("jiffies", -8), FetchType("u64")),
         "e:t/x s.e a=@jiffies-8:u64"),
        ("e:t/x s.e a=(sk_buff,next)$f->dev->name.x",
         prev(Path(Cast("sk_buff", Field("f"), "next"),
                   (Access("->", "dev"), Access("->", "name"), Access(".", "x")))), None),
        ("e:t/x s.e a=$COMM", prev(Builtin("comm")), "e:t/x s.e a=$comm"),
        ("e:t/x s.e if a == 1  &&  b", Eprobe("s.e", (), "t", "x", "a == 1 && b"),
         "e:t/x s.e if a == 1 && b"),
        ("p vfs_read+0x4 file:%pd",
         Kprobe("vfs_read+0x4", (FetchArg(Variable("file"), None, FetchType("%pd")),)), None),
        ("r5:x vfs_read%return $arg*",
         Kprobe("vfs_read", (FetchArg(Builtin("arg*")),), None, "x", returns=True, maxactive=5),
         "r5:x vfs_read $arg*"),
        ("p /bin/true:4096(0x10)", Uprobe("/bin/true", 4096, ref_ctr_offset=16),
         "p /bin/true:0x0000000000001000(0x10)"),
        ("s:sy u64 a unsigned int b; char c[16]; char d[]",
         Synthetic("sy", (SyntheticField("u64", "a"), SyntheticField("unsigned int", "b"),
                          SyntheticField("char[16]", "c"), SyntheticField("char[]", "d"))),
         "s:synthetic/sy\tu64 a; unsigned int b; char[16] c; char[] d"),
        ("-:x", Removal(None, "x"), None),
        ("-:t/", Removal("t"), None),
        ("!e:t/x  s.e", Removal("t", "x", "s.e"), "-:t/x s.e"),
    ],
)  # fmt: skip
def test_texts_are_values(text, value, canonical):
    assert parse(text) == value
    assert str(value) == (canonical or text)
    assert parse(str(value)) == value


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_a_kernel_accepted_has_one_text(kernel, record):
    count = 0
    for row in record.rows(kernel):
        text = row["definition"]
        made = row["accepted"] and row["file"] == "dynamic_events" and "\n" not in text
        if made and row["listing"]:
            value = parse(text, kernel)
            assert parse(str(value), kernel) == value
            count += 1
    assert count > 250


ERRORS = r"""
e:t/x  sched.sched_switch   a=$prev_pid:u33
<definition>:1:41: error: Unknown type is specified
    e:t/x  sched.sched_switch   a=$prev_pid:u33
                                            ^
  hint: did you mean u32?

e:t/x sched.sched_switch a=$prev_pidd
<definition>:1:28: error: Invalid $-variable specified
    e:t/x sched.sched_switch a=$prev_pidd
                               ^
  hint: did you mean $prev_pid?

e:t/x sched.sched_swich
<definition>:1:7: error: Attached event does not exist
    e:t/x sched.sched_swich
          ^
  hint: did you mean sched/sched_switch?

e:é sched.sched_switch
<definition>:1:3: error: Event name must follow the same rules as C identifiers
    e:é sched.sched_switch
      ^
  hint: a name has letters, digits and _, and does not begin with a digit

e:t/x sched.sched_switch a=\1 if  prev_pod == 1
<definition>:1:44: error: Field not found
    e:t/x sched.sched_switch a=\1 if  prev_pod == 1
                                               ^
  hint: did you mean prev_pid?

e:t/x sched.sched_switch a=@nosuch
<definition>:1:1: error: No such file or directory (ENOENT); the kernel logs no reason
    e:t/x sched.sched_switch a=@nosuch
    ^
  hint: the kernel has no such symbol
""".strip().split("\n\n")


@pytest.mark.parametrize("example", ERRORS)
def test_errors_have_carets_and_advice(example, record):
    text, _, error = example.partition("\n")
    world = record.world("7.3")
    assert str(explain(text, judge(text, world), world)) == error


def test_an_error_names_the_line_that_is_refused(record):
    text = "e:t/y sched.sched_switch\ne:t/x no.such"
    error = explain(text, judge(text, record.world("7.3")), record.world("7.3"))
    assert str(error).startswith("<definition>:2:7: error: Attached event does not exist\n")


def test_parse_raises_with_errno():
    with pytest.raises(DynEventError, match="Argument expression is too long") as caught:
        parse("e:t/x s.e a=" + "x" * 64, "6.12")
    assert caught.value.errno == 7
    with pytest.raises(DynEventError, match="one definition at a time"):
        parse("e s.e\ne s.f")
    with pytest.raises(DynEventError, match="no definition"):
        parse(" # nothing")


WORDS = """
e p r f t s : / . t/x s.e a= $f f + - 8 ( ) -> @ \\ " :u8 :string [2] if ! -: $arg * u64 ; # %pd
b1@0/8 (sk_buff) /bin/x:0x1 this_cpu_ptr( 0x
"""
PIECES = st.sampled_from([" ", " ", "\n", *WORDS.split()])


def check(text, kernel):
    """Parse a text, and what it is as a value."""
    try:
        value = parse(text, kernel)
    except DynEventError as error:
        return error.diagnostics
    return parse(str(value), kernel) == value


@settings(deadline=None)  # the first judgement loads the profiles
@given(st.lists(PIECES, max_size=14).map("".join), st.sampled_from(KERNELS))
def test_no_text_raises_anything_else(record, text, kernel):
    assert check(text, kernel)
    judge(text, record.world(kernel))


@given(st.text(max_size=60) | st.binary(max_size=60), st.sampled_from(KERNELS))
def test_no_bytes_raise_anything_else(text, kernel):
    assert check(text, kernel)
