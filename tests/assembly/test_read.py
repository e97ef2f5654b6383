"""Texts with directives become units; what is wrong with them is pointed at, all of it."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.assembly.objects import write
from pybpf.assembly.read import read
from pybpf.assembly.unit import Extern, Map
from pybpf.errors import AssemblyError
from pybpf.isa.abi import MapType
from pybpf.isa.assembler import assemble
from pybpf.isa.disassembler import disassemble, format_insn
from pybpf.isa.operands import Outside
from pybpf.types import CHAR, INT, U8, U16, U32, U64, VOID, Array, Func, Ptr, Struct

END = "\nexit"


def only_map(text: str) -> Map:
    """Return the map that the arguments of a directive declare."""
    return read(f".map m, {text}").maps[0]


def lines(unit, name: str) -> list[str]:
    """Return the instructions of a function."""
    found = next(f for f in unit.functions if f.name == name)
    return [format_insn(one) for one in found.program.insns]


def test_a_plain_text_is_what_it_was():
    text = "1: r1 = map_fd:hits ll\ncall pc+1\nexit\nsub: goto sub\ncall sub"
    unit = read(text)

    assert unit.functions[0].program == assemble(text)
    assert unit.plain


def test_programs_and_functions():
    unit = read(
        """
        .prog xdp
        top: call add
             goto top
        .prog ?kprobe/vfs_read, second
        top: exit
        .func add, global, int (u32 a, struct task_struct *)
             r2 = add ll
             exit
        .func unused
             exit
        """
    )

    assert [(f.section, f.name, f.is_global) for f in unit.functions] == [
        ("xdp", "xdp", True), ("?kprobe/vfs_read", "second", True), (".text", "add", True),
        (".text", "unused", False),
    ]  # fmt: skip
    assert lines(unit, "xdp") == ["call add", "goto top"]
    assert lines(unit, "add") == ["r2 = subprog:add ll", "exit"]
    task = Ptr(Struct("task_struct", (), 0, 1))
    assert unit.functions[2].prototype == Func(INT, (("a", U32), ("a2", task)))


@pytest.mark.parametrize(
    ("section", "name"),
    [
        ("tp/syscalls/sys_enter_openat", "sys_enter_openat"),
        ("xdp.frags", "xdp_frags"),
        ("cgroup_skb/egress", "egress"),
        ('"uprobe//usr/bin/a-b:f"', "a_b_f"),
        ("kprobe/9p", "_9p"),
    ],
)
def test_programs_are_named_after_their_sections(section, name):
    assert read(f".prog {section}{END}").functions[0].name == name


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        ("type=hash, key=4, value=u64, entries=2 * 8",
         Map("m", MapType.HASH, 4, U64, 16)),
        ("type=BPF_MAP_TYPE_ARRAY, value=8, entries=1, flags=BPF_F_MMAPABLE | BPF_F_RDONLY_PROG",
         Map("m", MapType.ARRAY, U32, 8, 1, 0x480)),
        ("type=ringbuf, entries=4096, pinning=by_name",
         Map("m", MapType.RINGBUF, None, None, 4096, pinned_by_name=True)),
        ("type=77, key=1, value=2, extra=3, numa_node=1",
         Map("m", 77, 1, 2, extra=3, numa_node=1)),
        ("type=hash, key=struct { u8 a; u16 b[2], }, value=char[3], entries=1",
         Map("m", MapType.HASH, Struct("", (), 0, 1), Array(CHAR, 3), 1)),
        ("type=prog_array, entries=8, values=[a, 4: b, c]",
         Map("m", MapType.PROG_ARRAY, U32, U32, 8, values=((0, "a"), (4, "b"), (5, "c")))),
        ("type=hash_of_maps, key=4, entries=3, inner=(type=array, value=8, entries=1)",
         Map("m", MapType.HASH_OF_MAPS, 4, U32, 3,
             inner=Map("", MapType.ARRAY, U32, 8, 1))),
        ("type=stack, value=long, entries=3", Map("m", MapType.STACK, None, U64, 3)),
    ],
)  # fmt: skip
def test_maps(text, declared):
    programs = "".join(f"\n.prog xdp, {name}{END}" for name in "abc")
    found = read(f".map m, {text}{programs}").maps[0]

    if isinstance(found.key, Struct):
        assert [(f.name, f.type, f.offset) for f in found.key.fields] == [
            ("a", U8, 0), ("b", Array(U16, 2), 2),
        ]  # fmt: skip
        assert found.value == declared.value
    elif declared.map_type == MapType.STACK:
        assert str(found.value) == "long"
    else:
        assert found == declared


@pytest.mark.parametrize(
    ("text", "content", "types"),
    [
        ("a: .byte 1, -1, 'a'", "01ff61", {"a": (0, Array(U8, 3))}),
        ("a: .half 0x1234\nb: .short 1", "3412 0100", {"a": (0, U16), "b": (2, U16)}),
        ("a: .word -2\n.long 7", "feffffff 07000000", {"a": (0, Array(U32, 2))}),
        ("a: .quad 1 << 63", "0000000000000080", {"a": (0, U64)}),
        ('a: .ascii "x\\n"', "780a", {"a": (0, Array(CHAR, 2))}),
        ('a: .asciz "x", "é"', "7800 c3a900", {"a": (0, Array(CHAR, 5))}),
        ('a: .string ""', "00", {"a": (0, CHAR)}),
        ("a: .zero 2\n.space 1, 0xff\n.skip 1", "0000ff00", {"a": (0, Array(U8, 4))}),
        ("a: .byte 1\n.align 4\nb: .word 2", "01000000 02000000", {"a": (0, U8), "b": (4, U32)}),
        ("a: b: .byte 1", "01", {"a": (0, U8), "b": (0, U8)}),
        (".byte 9", "09", {}),
        ("a: .word 1\nb: .byte sizeof(a)", "01000000 04", {"a": (0, U32), "b": (4, U8)}),
        ('a: .ascii " ; no comment // "', "203b206e6f20636f6d6d656e74202f2f20",
         {"a": (0, Array(CHAR, 17))}),
    ],
)  # fmt: skip
def test_data(text, content, types):
    data = read(f".data\n{text}").data[0]

    assert data.content == bytes.fromhex(content)
    assert {v.name: (v.offset, v.type) for v in data.variables} == types


def test_data_of_a_big_endian_machine():
    assert read(".data\n.word 1", byteorder="big").data[0].content == b"\0\0\0\1"


def test_sections_of_data_go_on():
    unit = read(".data\n.byte 1\n.rodata.x\n.byte 2\n.data\n.byte 3\n.bss\n.zero 4")

    assert [(d.section, d.content, d.zeros) for d in unit.data] == [
        (".data", b"\1\3", False), (".rodata.x", b"\2", False), (".bss", bytes(4), True),
    ]  # fmt: skip


def test_names_stand_for_what_they_are():
    unit = read(
        """
        .prog xdp
            r1 = hits ll
            r1 = b ll
            r1 = b + 1 ll
            r1 = add ll
            r1 = jiffies ll
            r1 = CONFIG_HZ ll
            call add
            call bpf_rcu_read_lock
            call kfunc bpf_rcu_read_unlock
            r1 = map_value:b + 2 ll
            exit
        .map hits, type=hash, key=4, value=4
        .data
        a: b: .quad 1
        .func add
            exit
        .extern jiffies, weak
        .extern CONFIG_HZ, int, kconfig
        .extern bpf_rcu_read_lock, void (void)
        """
    )

    assert lines(unit, "xdp") == [
        "r1 = map_fd:hits ll", "r1 = map_value:b ll", "r1 = map_value:b + 1 ll",
        "r1 = subprog:add ll", "r1 = 0x0 ll", "r1 = 0x0 ll", "call add", "call kernel-function#0",
        "call kernel-function#0", "r1 = map_value:b + 2 ll", "exit",
    ]  # fmt: skip
    assert unit.externs == (
        Extern("bpf_rcu_read_unlock", Func(VOID)), Extern("jiffies", VOID, weak=True),
        Extern("CONFIG_HZ", INT, kconfig=True), Extern("bpf_rcu_read_lock", Func(VOID)),
    )  # fmt: skip
    assert unit.symbols["jiffies"] is Outside.KSYM


def test_constants_and_members():
    unit = read(
        """
        .equ A, B << 2 ; .set B, 3
        .struct event { u64 time; u32 pid; char comm[16]; }
        r1 = A + B
        r1 = event.comm
        r1 = sizeof(event) * 2
        r1 = *(u32 *)(r1 + event.pid)
        r2 = *(u32 *)(r1 + __sk_buff.data_end)
        r1 = -sizeof(xdp_md)
        exit
        """.replace(" ; ", "\n")
    )

    assert lines(unit, "") == [
        "r1 = 15", "r1 = 12", "r1 = 64", "r1 = *(u32 *)(r1 + 8)", "r2 = *(u32 *)(r1 + 80)",
        "r1 = -24", "exit",
    ]  # fmt: skip


# A text, and the message about it without what stands in front of the line's number.
ERRORS = (
    """
1:1: error: there is no directive .mpa; did you mean '.map'?
    .mpa x
    ^^^^

1:7: error: no program type has a section 'xpd'; did you mean 'xdp'?
    .prog xpd
          ^^^

1:7: error: no program type has a section 'kprobee/x'; did you mean 'kprobe'?
    .prog kprobee/x
          ^^^^^^^^^

1:6: error: expected the name of a section such as xdp or kprobe/vfs_read, found the end of the line
    .prog
         ^

1:1: error: xdp has no instructions
    .prog xdp
    ^^^^^^^^^

1:12: error: expected the name of the program, found 'r1'
    .prog xdp, r1
               ^^

1:11: error: unexpected 'x' after the directive
    .license "GPL" x
                   ^
"""
    """
1:14: error: there is no map type 'hsh'; did you mean 'hash'?
    .map m, type=hsh
                 ^^^

1:9: error: a map has no 'typ'; did you mean 'type'?
    .map m, typ=hash
            ^^^

1:1: error: map m has no type
    .map m
    ^^^^^^
  hint: such as type=hash

1:1: error: map m has no value
    .map m, type=hash, key=4
    ^^^^^^^^^^^^^^^^^^^^^^^^
  hint: such as value=u32

1:24: error: 0 is no size in bytes
    .map m, type=hash, key=0
                           ^

1:24: error: the size of struct x is not known
    .map m, type=hash, key=struct x
                           ^^^^^^^^

1:1: error: map m lacks an inner map
    .map m, type=array_of_maps
    ^^^^^^^^^^^^^^^^^^^^^^^^^^

1:33: error: there is no map 'x' before this one
    .map m, type=array_of_maps, inner=x
                                      ^

1:1: error: there is no program 'x'
    .map m, type=prog_array, entries=1, values=[x]
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

1:1: error: map m has 1 entries, too few for its values
    .map m, type=prog_array, entries=1, values=[3: x]
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

1:13: error: expected 'by_name' or 'none', found 'x'
    .map m, pinning=x
                    ^

1:6: error: A is defined by itself: A -> A
    .equ A, A + 1
         ^

1:14: error: a division by 0
    .equ A, 3 / 0
                ^

1:1: error: .byte belongs into a section of data
    .byte 1
    ^^^^^
  hint: begin one with .data, .rodata or .bss

1:14: error: 256 does not fit 8 bits
    .data; .byte 256
                 ^^^

1:8: error: .bss holds nothing but zeros
    .bss;  .byte 0
           ^^^^^
  hint: write .zero, or .data

1:14: error: 3 is no alignment
    .data; .align 3
                  ^
  hint: such as 4 or 8

1:8: error: .data holds data, and no instructions
    .data; exit
           ^^^^
  hint: begin a program with .prog, a function with .func

1:15: error: expected a string, found 'x'
    .data; .ascii x
                  ^

1:15: error: a backslash stands before what is no escape
    .data; .ascii "\\q"
                  ^^^^
  hint: write \\\\

1:14: error: 1 << 40 (1099511627776) is not from 0 to 16777216 bytes
    .data; .zero 1 << 40
                 ^^^^^^^

1:9: error: an option of the kernel needs a type
    .extern a, kconfig
            ^
  hint: .extern a, int, kconfig

1:15: error: there is no type 'foo'
    .struct s { foo x }
                ^^^

1:19: error: two fields are 'x'
    .struct s { u8 x; u8 x }
                         ^

1:24: error: expected ';' or '}', found the end of the line
    .struct s { u8 x
                    ^

1:14: error: this is no type of a function
    .func f, int
             ^^^
  hint: such as int (u32 value)

1:17: error: x is a label, and no function
    .prog xdp;  x: call x; exit
                   ^^^^^^
  hint: begin it with '.func x'

1:17: error: this calls a distance, not a function
    .prog xdp;  call pc+0; exit
                ^^^^^^^^^
  hint: a linker may put functions in another order: name them by .func

1:17: error: there is no map 'x'
    .prog xdp;  r1 = map_fd:x ll; exit
                ^^^^^^^^^^^^^^^^

1:17: error: 'nomap' is no value
    .prog xdp;  r1 = nomap ll; exit
                     ^^^^^

1:17: error: the address of m has 64 bits
    .map m, type=ringbuf; .prog xdp; r1 = m; exit
                                          ^
  hint: write m ll

1:17: error: m is no function
    .map m, type=ringbuf; .prog xdp; call m; exit
                                          ^

1:6: error: there is no helper and no label 'ad'; did you mean 'add'?
    .func add; exit; .prog xdp; call ad; exit
                                     ^^
"""
)


def _faults() -> list[str]:
    """Return the messages with the columns of their carets: those above need not be counted."""
    found = []
    for message in ERRORS.strip("\n").split("\n\n"):
        head, text, caret, *hint = message.strip("\n").splitlines()
        column = len(caret) - len(caret.lstrip()) - 3
        said = head.partition(": ")[2]
        found.append("\n".join([f"x.s:1:{column}: {said}", text, caret, *hint]))
    return found


@pytest.mark.parametrize("message", _faults(), ids=lambda m: m.splitlines()[1].strip())
def test_errors(message):
    text = message.splitlines()[1].removeprefix("    ")

    with pytest.raises(AssemblyError) as caught:
        read(text, "x.s")

    assert str(caught.value) == message


def test_what_is_defined_twice_is_told_with_the_other_place():
    with pytest.raises(AssemblyError) as caught:
        read(".map f, type=ringbuf\n.func f\nexit", "x.s")

    assert str(caught.value) == (
        "x.s:2:7: error: f is defined twice\n"
        "    .func f\n"
        "          ^\n"
        "  hint: the other one is in line 1"
    )


def test_constants_that_need_each_other():
    with pytest.raises(AssemblyError) as caught:
        read(".equ A, B\n.equ B, A\nr0 = A", "x.s")

    assert str(caught.value) == (
        "x.s:1:6: error: A is defined by itself: A -> B -> A\n    .equ A, B\n         ^"
    )


def test_a_long_chain_of_constants_is_refused():
    chain = "\n".join(f".equ A{i}, A{i + 1}" for i in range(5000))

    with pytest.raises(AssemblyError, match="more than 30 constants need each other"):
        read(chain + "\n.equ A5000, 1\nr0 = A0")


def test_sections_have_an_end():
    text = "".join(f".prog kprobe/f{i}\nexit\n" for i in range(5001))

    with pytest.raises(AssemblyError, match="more than 5000 sections"):
        read(text, "x.s")


def test_faults_of_all_rounds_are_told_in_order():
    with pytest.raises(AssemblyError) as caught:
        read(".prog xdp\nr11 = 0\n.mpa x\n.data\n.byte 300\n.equ A, ?\n", "x.s")

    assert [d.span.line for d in caught.value.diagnostics] == [2, 3, 5, 6]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (".prog xdp\nr0 = 0", 1),
        (".prog xdp\nr0 = 0\nexit\n.func f\nf: r0 = 0", 1),
        ("r0 = 0\nl: goto l", 0),
        ("r0 = 0", 1),
    ],
)
def test_a_program_that_goes_on_is_warned_of(text, count):
    assert len(read(text).warnings) == count


def test_the_warning_says_where():
    (warning,) = read(".prog xdp\nr0 = 0", "x.s").warnings

    assert warning.render() == (
        "x.s:2:1: warning: xdp goes on behind its last instruction\n"
        "    r0 = 0\n"
        "    ^^^^^^\n"
        "  hint: end it with exit or goto"
    )


WORDS = """
.prog xdp , kprobe/x .func static global .map type= hash key= 4 value= u64 entries= inner= ( )
values= [ ] : .data .rodata .bss .byte .word .quad .ascii "a" .asciz .zero .align .equ .set A B
.struct s { } u8 x ; .extern int kconfig weak .license "GPL" 1 0x10 << + - * / % ~ 'c' // # /* */
r0 r1 w2 r11 = += exit call goto if == map_lookup_elem m l: 1: 1b 1f ll XDP_PASS xdp_md.data
sizeof ( u32 *( \\ ? struct kfunc *(u32 *)(r1 + 0) sizeof(s) s.x bpf_rcu_read_lock
""".split()  # noqa: SIM905


@given(st.lists(st.sampled_from([*WORDS, "\n", "\n", "\n"]), max_size=60))
def test_no_text_raises_anything_else(words):
    with suppress(AssemblyError):
        write(read(" ".join(words)))


@given(st.text(max_size=80))
def test_no_characters_raise_anything_else(text):
    with suppress(AssemblyError):
        read(text)


@given(st.sampled_from([".data\n.byte ", ".struct s ", ".map m, ", "r1 = ", ".prog "]), st.text())
def test_no_characters_behind_something_known_do(start, text):
    with suppress(AssemblyError):
        write(read(start + text))


def test_what_is_disassembled_is_read_again():
    text = "r1 = map_fd:hits ll\nL1:\nif r1 == 0 goto L1\ncall bpf_ktime_get_ns\nexit\n"
    program = read(text).functions[0].program

    assert read(disassemble(program)).functions[0].program == program
