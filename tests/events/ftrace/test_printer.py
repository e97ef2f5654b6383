import random
import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.errors import EventError
from pybpf.events.ftrace.cexpr import Unprintable, parse_print_fmt
from pybpf.events.ftrace.printer import Printer
from pybpf.tracefs.format import EventField, EventFormat, parse_format
from pybpf.types import CHAR, S32, U8, U16, U32, U64, VOID, Array, DataLoc, Ptr

FIELDS = (
    ("a", S32, 8),
    ("b", U64, 16),
    ("name", Array(CHAR, 8), 24),
    ("where", DataLoc(CHAR), 32),
    ("list", DataLoc(U16), 36),
    ("mac", Array(U8, 6), 40),
    ("addr", Array(U8, 4), 46),
    ("six", Array(U8, 16), 50),
    ("small", U8, 66),
    ("half", U16, 67),
    ("ptr", Ptr(VOID), 69),
    ("word", U32, 77),
)
PAYLOAD = (
    bytes(8)
    + (-5).to_bytes(4, "little", signed=True)
    + bytes(4)
    + (0xFFFFFFFF81000010).to_bytes(8, "little")
    + b"bash\0xyz"
    + (81 | 6 << 16).to_bytes(4, "little")
    + (87 | 6 << 16).to_bytes(4, "little")
    + bytes([2, 0, 0, 0xAB, 0xCD, 0xEF])
    + bytes([127, 0, 0, 1])
    + bytes(15)
    + b"\1"
    + bytes([200])
    + (0xBEEF).to_bytes(2, "little")
    + (0xDEAD).to_bytes(8, "little")
    + (0x80000001).to_bytes(4, "little")
    + b"/tmp/\0"
    + b"\1\0\2\0\3\0"
)


def printer(print_fmt, symbols=None, constants=None):
    fields = [EventField(name, "", t, at, 0, common=False) for name, t, at in FIELDS]
    return Printer(EventFormat("test", 1, tuple(fields), print_fmt), "little", symbols, constants)


def symbols(address):
    return "do_it+0x10/0x40 [mod]" if address == 0xFFFFFFFF81000010 else None


@pytest.mark.parametrize(
    ("print_fmt", "text"),
    [
        ('"plain 100%%"', "plain 100%"),
        ('"%d|%u|%x|%o|%c", REC->a, REC->a, REC->a, 8, 65', "-5|4294967291|fffffffb|10|A"),
        ('"%lu|%ld|%lld|%Lu", REC->a, REC->a, REC->b, REC->b',
         "18446744073709551611|-5|-2130706416|18446744071578845200"),
        ('"%hhu|%hd|%hu|%hhd", REC->a, REC->half, REC->half, REC->small', "251|-16657|48879|-56"),
        ('"%08x|%#x|%-6d|%+d|%5d|% d", 255, 255, 7, 7, 7, 7', "000000ff|0xff|7     |+7|    7| 7"),
        ('"%*d|%.*s|%.2s", 5, 1, 3, REC->name, REC->name', "    1|bas|ba"),
        ('"%s %s" " %s", REC->name, __get_str(where), "lit\\t\\x41"', "bash /tmp/ lit\tA"),
        ('"%s", REC->ptr', "(0xdead)"),
        ('"%p %px", REC->ptr, REC->ptr', "000000000000dead dead"),
        ('"%pS %ps %pS", (void *)REC->b, (void *)REC->b, REC->ptr',
         "do_it+0x10/0x40 [mod] do_it [mod] 0xdead"),
        ('"%pI4 %pM %pI6c %pI6", REC->addr, REC->mac, REC->six, REC->six',
         "127.0.0.1 02:00:00:ab:cd:ef ::1 0000:0000:0000:0000:0000:0000:0000:0001"),
        ('"%*ph|%*phC|%*phN", 3, REC->mac, 6, REC->mac, 2, REC->addr',
         "02 00 00|02:00:00:ab:cd:ef|7f00"),
        ('"%*pbl", 16, REC->mac', "1"),
        ('"%s", __print_flags(REC->small, "|", { 8, "E" }, { 0x40, "A" }, { 0x80, "B" })', "E|A|B"),
        ('"%s", __print_flags(REC->small, "|", { 0x40, "A" })', "A|0x88"),
        ('"%s", __print_flags(0, "|", { 1, "A" })', ""),
        ('"%s", __print_symbolic(REC->small, { 1, "one" }, { 200, "many" })', "many"),
        ('"%s", __print_symbolic(REC->half, { 1, "one" })', "0xbeef"),
        ('"%s", __print_symbolic(REC->a, { -5, "minus five" })', "minus five"),
        ('"%s", __print_hex(REC->mac, 3)', "02 00 00"),
        ('"%s", __print_hex_str(__get_dynamic_array(where), __get_dynamic_array_len(where))',
         "2f746d702f00"),
        ('"%s", __print_array(__get_dynamic_array(list), 3, 2)', "{0x1,0x2,0x3}"),
        ('"%s", __print_dynamic_array(list, sizeof(u16))', None),
        ('"%s", __print_dynamic_array(list, 2)', "{0x1,0x2,0x3}"),
        ('"%d %d", REC->mac[5], ((u16 *)__get_dynamic_array(list))[1]', "239 2"),
        ('"%d", *(u16 *)(REC->mac + 4)', "61389"),
        ('"%d", __builtin_expect(!!(REC->a), 1)', "1"),
        ('"%s%s", REC->a > 0 ? "+" : "-", REC->word & 1 ? "odd" : REC->name', "-odd"),
        ('"%d %d %d", 7 / 2, -7 / 2, -7 % 3', "3 -3 -1"),
        ('"%d %d", 1 << 4 | 3, (6 & 3) == 2 && !0 || 0', "19 1"),
        ('"%llx %x %x", ~0UL, ~0, (u8)~0', "ffffffffffffffff ffffffff ff"),
        ('"%d %d", REC->a < 0, REC->a < 0U', "1 0"),
        ('"%d", REC->word > 0x7fffffff', "1"),
        ("\"%c%d\", 'x', '\\n'", "x10"),
        ('"%d", 0x7fffffff + 1', "-2147483648"),
        ('"%d", ((REC->b) >> 32) & 0xff', "255"),
    ],
)  # fmt: skip
def test_print_fmt(print_fmt, text):
    made = printer(print_fmt, symbols)
    if text is None:
        assert made.reason == "sizeof"
    else:
        assert made.reason is None
        assert made(PAYLOAD) == text


PAIRS = (
    "a=-5 b=18446744071578845200 name=bash where=/tmp/ list={1,2,3} mac={2,0,0,171,205,239} "
    "addr={127,0,0,1} six={0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1} small=200 half=48879 ptr=57005 "
    "word=2147483649"
)


@pytest.mark.parametrize(
    ("print_fmt", "reason"),
    [
        ("", "a string expected, not ''"),
        ('"%d"', "too few arguments"),
        ('"x", REC->a', "an argument too many"),
        ('"%d", REC->nothing', "no field nothing"),
        ('"%d", HZ', "HZ is not known"),
        ('"%d", fancy(REC->a)', "fancy()"),
        ('"%d", ({ 1; })', "statements"),
        ('"%d", REC->mac.x', "a member, .x"),
        ('"%d", sizeof(int)', "sizeof"),
        ('"%y", 1', "the conversion '%y'"),
        ('"%d", REC->name', "a pointer as %d"),
        ('"%s", REC->a', "an integer as a string"),
        ('"%pZ", REC->mac', "%pZ"),
        ('"%pI4", REC->ptr', "%pI4 of memory that is not in the record"),
        ('"%d", 1 2', "'2' follows an argument"),
        ('"%d", @', "no C: ' @'"),
        ('"%d", ' + "(" * 500, "nested too deeply"),
        ('"%d", ' + "!" * 500 + "1", "nested too deeply"),
        ('"%d", ' + "1+" * 500 + "1", "nested too deeply"),
        ('"%d", REC->mac' + "[0]" * 500, "nested too deeply"),
        ('"%d", ' + "(" * 40 + "1" + ("+1" * 30 + ")") * 40, "nested too deeply"),
        ('"%4097d", REC->a', "a width of 4097"),
        ('"%.99999999999d", REC->a', "a width of 99999999999"),
        ('"%' + "9" * 5000 + 'd", REC->a', "a width of 99999999999999999999"),
        ('"%d", REC->mac[999999999]', "an index that is not in the record"),
        ('"%d", REC->mac[18446744073709551615]', "an index that is not in the record"),
        ('"%s", __print_flags(REC->a)', "__print_flags()"),
        ('"%s", __print_flags(REC->a, REC->mac)', "a string expected"),
        ('"%s", __print_symbolic(REC->a, {REC->a, "a"})', "a constant expected"),
        ('"%s", __print_array(REC->mac, 1, REC->a)', "a constant expected"),
        ('"%d", 99999999999999999999999', "too large a number: 99999999999999999999999"),
        ('"%s", __print_hex(REC->ptr, 3)', "bytes that are not in the record"),
        ('"%d", (struct x)1', "the type struct x is not known"),
    ],
)
def test_what_cannot_be_printed_is_pairs_and_says_why(print_fmt, reason):
    made = printer(print_fmt)
    assert made.reason == reason
    assert made(PAYLOAD) == PAIRS


def test_data_that_leave_the_record():
    made = printer('"%s", __print_array(__get_dynamic_array(list), 300, 8)')
    with pytest.raises(EventError, match=r"^test: the record does not hold its data$"):
        made(PAYLOAD)
    with pytest.raises(EventError, match=r"^test: 20 bytes where 81 are expected$"):
        made(PAYLOAD[:20])


@pytest.mark.parametrize(
    ("print_fmt", "known", "bare"),
    [
        ('"(%lx) x=%u", REC->b, REC->small', "(do_it+0x10/0x40 [mod]) x=200",
         "(0xffffffff81000010) x=200"),
        ('"(%lx)", REC->ptr', "(0xdead)", "(0xdead)"),
        ('"(%lx <- %lx) x=%u", REC->__probe_func, REC->__probe_ret_ip, REC->small',
         "(0xdead <- do_it [mod]) x=200", "(0xdead <- 0xffffffff81000010) x=200"),
    ],
)  # fmt: skip
def test_probes_print_the_symbols_of_their_addresses(print_fmt, known, bare):
    names = {"b": "__probe_func", "ptr": "__probe_ret_ip"} if "__probe" in print_fmt else {}
    fields = tuple(
        EventField(names.get(name, name), "", t, at, 0, common=False) for name, t, at in FIELDS
    )
    format_ = EventFormat("test", 1, fields, print_fmt)
    assert Printer(format_, symbols=symbols)(PAYLOAD) == known
    assert Printer(format_)(PAYLOAD) == bare


@given(st.text(alphabet="\"%dsp*lu()->{}[],REC a0123&|<>?:!~\\'", max_size=60))
def test_no_text_raises_anything_but_unprintable(text):
    with suppress(Unprintable):
        parse_print_fmt(text)
    with suppress(EventError):
        printer(text)(PAYLOAD)


# What the kernel computed from what it does not record: hashes, symbols; enums that only BTF knows.
_FOREIGN = re.compile(r"\b(ptr|hrtimer|timer|skbaddr|skaddr|call_site|function)=\S+( \[\w+\])?")
_OWN_PRINTERS = re.compile(r"sys_(enter|exit)_")


@pytest.mark.parametrize("kernel", ["6.1", "6.12", "7.3"])
def test_text_of_parents_and_probes_is_the_kernels(golden, kernel):
    compared = 0
    for row in golden[kernel]:
        for which in ("", "parent_"):
            made = Printer(parse_format(row[f"{which}format"]))
            if _OWN_PRINTERS.match(made.format.name) or made.format.name == "hrtimer_start":
                continue
            assert made.reason is None
            for record in row["records"]:
                text = made(bytes.fromhex(record[f"{which}raw"]))
                line = record[f"{which}text"]
                expected = line[line.index(f" {made.format.name}: ") + len(made.format.name) + 3 :]
                if not which:
                    expected = expected.partition(")")[2]
                if ":sym" in row["definition"] and not which:
                    continue
                assert _FOREIGN.sub("", text) == _FOREIGN.sub("", expected)
                compared += 1
    assert compared > 250


def test_names_of_enums_are_what_they_stand_for():
    """As far as somebody knows them; macros are in no type."""
    known = {"SEVEN": 7, "FIRST": -1, "WIDE": 1 << 40}.get
    print_fmt = '"%d %d %lx %s", SEVEN, FIRST, 1 + WIDE, __print_symbolic(3 + 4, {SEVEN, "it"})'
    assert printer(print_fmt).reason == "SEVEN is not known"
    assert printer(print_fmt, constants=known)(PAYLOAD) == "7 -1 10000000001 it"
    assert printer('"%d", HZ', constants=known).reason == "HZ is not known"


@pytest.mark.parametrize(("kernel", "most"), [("6.1", 44), ("6.12", 85), ("7.3", 109)])
def test_nearly_all_events_can_be_printed(formats, kernel, most):
    reasons = [made.reason for made in map(Printer, formats[kernel]) if made.reason]
    assert len(formats[kernel]) > 1300
    assert len(reasons) <= most


@pytest.mark.parametrize("kernel", ["6.1", "6.12", "7.3"])
def test_any_payload_is_printed_or_refused(formats, kernel):
    chance = random.Random(kernel)
    refused = 0
    for format_ in formats[kernel]:
        made = Printer(format_)
        size = max(field.offset + field.size for field in format_.fields)
        for payload in (chance.randbytes(size), chance.randbytes(size + 70), bytes(size)):
            try:
                made(payload)
            except EventError:
                refused += 1
    assert refused
