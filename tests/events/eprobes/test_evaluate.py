"""The offline evaluator against what kernels recorded, and by tables of single values."""

import json
import lzma
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.errors import DynEventError, EventError
from pybpf.events.eprobes.evaluate import Evaluator
from pybpf.events.eprobes.memory import FAULT, UNKNOWN, Known, memory_of
from pybpf.events.ftrace.lines import line_of
from pybpf.events.ftrace.printer import Printer
from pybpf.events.ftrace.reader import RawRecord
from pybpf.events.ftrace.record import Decoder
from pybpf.tracefs.dynevents.profiles import profile
from pybpf.tracefs.dynevents.world import read_formats
from pybpf.tracefs.format import parse_format

DATA = Path(__file__).parents[2] / "data/dynevents"
KERNELS = ("6.1", "6.12", "7.3")


def golden(kernel):
    text = lzma.decompress((DATA / f"records-{kernel}.jsonl.xz").read_bytes())
    return [json.loads(line) for line in text.splitlines()]


def known_of(record):
    """Return what the other texts of a hit tell: the process's name, and the address's symbol."""
    comm = record["text"][:16].strip().encode()
    site = re.search(r"call_site=(\S+(?: \[\w+\])?)", record["parent_text"])
    symbols = (lambda _: site[1]) if site else None
    return Known(comm=b"swapper/0" if comm == b"<idle>" else comm, symbols=symbols)


def evaluator(row, kernel):
    parent = parse_format(row["parent_format"])
    types = profile(kernel).types if "->" in row["definition"] else None
    number = row["eprobe_id"]
    return Evaluator(row["definition"], parent, kernel, types=types, number=number)


# What depends on memory, on the address of the record or on symbols that we do not have.
FOREIGN = {
    "r2": {"6.1": "ptr", "6.12": "ptr"},
    "r4": {"6.1": "a", "6.12": "a"},
    "r7": {"6.1": "b6", "6.12": "b6"},
    "r8": "c s",
    "r10": "d0 d1 d4 w",
    "r17": "pc",
    "r24": "f",
    "r25": "g h",
    "r26": "pc cc",
    "r27": "c",
    "r29": "a b",
    "r37": "c",
    "r39": "n d",
    "r41": "a b c d e f g",
    "r42": "a b c d",
    "r43": {"7.3": "b"},
    "q1": {"6.1": "c h", "6.12": "c h", "7.3": "c g"},
    "q7": "cx",
    "q12": "x1 x2 x3 x4 x5 x6",
    "q14": {"7.3": "args"},
}


def foreign(name, kernel):
    found = FOREIGN.get(name, "")
    return set((found.get(kernel, "") if isinstance(found, dict) else found).split())


def unknown(value):
    return any(map(unknown, value)) if isinstance(value, tuple) else value is UNKNOWN


@pytest.mark.parametrize("kernel", KERNELS)
def test_records_of_kernels(kernel):
    hits = 0
    for row in golden(kernel):
        evaluate = evaluator(row, kernel)
        decode = Decoder(parse_format(row["format"]))
        for record in row["records"]:
            found = evaluate(bytes.fromhex(record["parent_raw"]), known_of(record))
            raw = bytes.fromhex(record["raw"])
            assert found.fires
            assert found.agrees(raw)
            _same_text(found.text, record["text"], evaluate.event)
            values = decode(0, 0, raw, 0, len(raw)).fields()
            unknowns = {name for name, value in found.values.items() if unknown(value)}
            assert unknowns == foreign(evaluate.event, kernel)
            for name in set(found.values) - unknowns:
                if found.values[name] is not FAULT:
                    assert found.values[name] == values[name]
            hits += 1
    assert hits > 150


def _same_text(text, line, event):
    expected = line[line.index(f" {event}: (") + 1 :]
    pattern = re.escape(text).replace(r"\?", ".*?")
    assert re.fullmatch(pattern, expected, re.DOTALL)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_complete_record_is_the_kernels_line(kernel):
    compared = 0
    for row in golden(kernel):
        evaluate = evaluator(row, kernel)
        for record in row["records"]:
            found = evaluate(bytes.fromhex(record["parent_raw"]), known_of(record))
            if "?" in found.text:
                continue
            raw = bytes.fromhex(record["raw"])
            flags = found.data[:2] + raw[2:3] + found.data[3:]
            comm = {int.from_bytes(raw[4:8], "little"): record["text"][:16].strip().encode()}
            hit = RawRecord(record["ts"], record["cpu"], row["eprobe_id"], flags)
            line = line_of(hit, found.text, comm)
            assert line == record["text"].encode("utf-8", "surrogateescape")
            compared += 1
    assert compared > 60


@pytest.mark.parametrize("kernel", KERNELS)
def test_user_strings_with_the_memory_they_are_in(kernel):
    (row,) = [row for row in golden(kernel) if row["definition"].startswith("e:rec/r29 ")]
    evaluate = evaluator(row, kernel)
    compared = 0
    for record in row["records"]:
        address = int.from_bytes(bytes.fromhex(record["parent_raw"])[24:32], "little")
        name = re.search(r'a="([^"]*)"', record["text"])
        if name is None:
            memory = lambda _at, _size: b""  # noqa: E731
        else:
            memory = memory_of({address: name[1].encode() + b"\0"})
        found = evaluate(bytes.fromhex(record["parent_raw"]), Known(memory=memory))
        assert found.complete
        assert found.text in record["text"]
        raw = bytes.fromhex(record["raw"])
        assert found.agrees(raw)
        assert found.size == len(raw)
        compared += 1
    assert compared > 3


PARENT = parse_format(
    "name: evt\nID: 5\nformat:\n"
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
    "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
    "\tfield:s16 s;\toffset:8;\tsize:2;\tsigned:1;\n"
    "\tfield:u16 u;\toffset:10;\tsize:2;\tsigned:0;\n"
    "\tfield:__u8 four[4];\toffset:12;\tsize:4;\tsigned:0;\n"
    "\tfield:char name[8];\toffset:16;\tsize:8;\tsigned:0;\n"
    "\tfield:const char * p;\toffset:24;\tsize:8;\tsigned:0;\n"
    "\tfield:__data_loc char[] where;\toffset:32;\tsize:4;\tsigned:0;\n"
    "\tfield:__rel_loc char[] near;\toffset:36;\tsize:4;\tsigned:0;\n"
    "\tfield:u64 list[2];\toffset:40;\tsize:16;\tsigned:0;\n"
)
USER, KERNEL = 0x7F0000001000, 0xFFFF888000001000
RECORD = (
    bytes([5, 0, 0, 1, 7, 0, 0, 0])
    + (-500).to_bytes(2, "little", signed=True)
    + (0xFE0C).to_bytes(2, "little")
    + bytes([127, 0, 0, 1])
    + b"bash\0\0\0\0"
    + USER.to_bytes(8, "little")
    + (56 | 5 << 16).to_bytes(4, "little")
    + (21 | 4 << 16).to_bytes(4, "little")
    + KERNEL.to_bytes(8, "little")
    + (9).to_bytes(8, "little")
    + b"/tmp\0abc\0xxx"
)
MEMORY = memory_of(
    {
        USER: b"/etc/passwd\0",
        KERNEL: b"text\0\0\0\0" + (USER).to_bytes(8, "little") + (KERNEL).to_bytes(8, "little"),
    }
)
KNOWN = Known(
    memory=MEMORY,
    comm=b"bash",
    symbols={KERNEL: "do_it+0x0/0x10"}.get,
    address_of={"here": KERNEL}.get,
)


def evaluate(args, known=KNOWN, kernel="7.3", parent=PARENT):
    return Evaluator(f"e:g/e sys.evt {args}", parent, kernel)(RECORD, known)


@pytest.mark.parametrize(
    ("arg", "value", "text"),
    [
        ("$s", 0xFFFFFFFFFFFFFE0C, "0xfffffffffffffe0c"),
        ("$s:s16", -500, "-500"),
        ("$s:u8", 12, "12"),
        ("$s:s64", -500, "-500"),
        ("$u", 0xFE0C, "0xfe0c"),
        ("$u:s32", 65036, "65036"),
        ("$s:b4@4/16", 0, "0"),
        ("$s:b4@8/16", 0xE, "14"),
        ("$s:b1@63/64", 1, "1"),
        ("$four", 0x100007F, "0x100007f"),
        ("$name:string", "bash", '"bash"'),
        ("+1($name):string", "ash", '"ash"'),
        ("+0($name):char[2]", (98, 97), "{'b','a'}"),
        ("+0($name):x64", 0x68736162, "0x68736162"),
        ("+0($name):b8@8/32", 0x61, "97"),
        ("-4($name):u8[4]", (127, 0, 0, 1), "{127,0,0,1}"),
        ("$where:string", "/tmp", '"/tmp"'),
        ("+1($where):string", "tmp", '"tmp"'),
        ("$near:string", "tmp", '"tmp"'),
        ("$p", USER, "0x7f0000001000"),
        ("$p:string", "/etc/passwd", '"/etc/passwd"'),
        ("$p:ustring", "/etc/passwd", '"/etc/passwd"'),
        ("+u5($p):string", "passwd", '"passwd"'),
        ("+5($p):u8", 112, "112"),
        ("+8($list):u64", 9, "9"),
        ("+0(+0($list)):string", "text", '"text"'),
        ("+8(+0($list)):x64", USER, "0x7f0000001000"),
        ("+0(+8(+0($list))):string", "/etc/passwd", '"/etc/passwd"'),
        ("@0xffff888000001000:string", "text", '"text"'),
        ("@here:string", "text", '"text"'),
        ("@here+8:x64", USER, "0x7f0000001000"),
        ("+8(+0($list)):string[2]", ("/etc/passwd", "text"), '{"/etc/passwd","text"}'),
        ("+0($list):symbol", KERNEL, "do_it+0x0/0x10"),
        ("+0($list):symstr", "do_it+0x0/0x10", '"do_it+0x0/0x10"'),
        ("$comm:string", "bash", '"bash"'),
        ("\\-5:s32", -5, "-5"),
        ("\\0x1ff:u8", 255, "255"),
        ('\\"lit":string', "lit", '"lit"'),
        ("$p:string[1]", ("/etc/passwd",), '{"/etc/passwd"}'),
        # faults that need no memory to be known
        ("$name:ustring", FAULT, "(fault)"),
        ("+u0($name):string", FAULT, "(fault)"),
        ("+u0($name):u8", UNKNOWN, "?"),
        ("$comm:ustring", FAULT, "(fault)"),
        ("@0x100000000000000:string", FAULT, "(fault)"),
        ("+u0(+0($list)):string", FAULT, "(fault)"),
        ("+0(+u0($list)):string", FAULT, "(fault)"),
        # what nobody told
        ("$name", UNKNOWN, "?"),
        ("$name:u8", UNKNOWN, "?"),
        ("$list", UNKNOWN, "?"),
        ("$comm", UNKNOWN, "?"),
        ("+100($name):u8", UNKNOWN, "?"),
        ("-20($name):u8", UNKNOWN, "?"),
        ("+4096($p):u8", UNKNOWN, "?"),
        ("+4096($p):string", UNKNOWN, "?"),
        ("+0(+4096($p)):u8[2]", (UNKNOWN, UNKNOWN), "{?,?}"),
        ("@nowhere:u8", UNKNOWN, "?"),
        ("$name:string[2]", (FAULT, UNKNOWN), "{(fault),?}"),
        ("$name:symstr", UNKNOWN, "?"),
    ],
)  # fmt: skip
def test_values(arg, value, text):
    found = evaluate(f"v={arg}")
    assert found.values == {"v": value}
    assert found.text == f"e: (sys.evt) v={text}"


@pytest.mark.parametrize(
    ("arg", "old", "new"),
    [
        ("$list", KERNEL, UNKNOWN),
        ("+0($list):string", "text", "\0"),
        ("+0($list):u64", int.from_bytes(b"text\0\0\0\0", "little"), KERNEL),
    ],
)
def test_long_arrays_are_their_address_in_new_kernels_alone(arg, old, new):
    assert evaluate(f"v={arg}", kernel="6.1").values["v"] == old
    assert evaluate(f"v={arg}", kernel="6.12").values["v"] == old
    if new != "\0":
        assert evaluate(f"v={arg}", kernel="7.3").values["v"] == new


def test_with_the_address_of_the_record_addresses_are_known():
    known = Known(record_address=0xFFFF888000002000)
    found = evaluate("a=$name b=$list c=$name:u8 d=$where", known)
    assert found.values == {
        "a": 0xFFFF888000002010, "b": 0xFFFF888000002028, "c": 0x10, "d": 0xFFFF888000002038
    }  # fmt: skip


def test_layout_of_a_record():
    found = evaluate("a=$u:u8 s=$name:string b=$s:s16 t=$comm:ustring w=$where:string")
    fixed = 8 + 1 + 4 + 2 + 4 + 4
    places = [fixed | 5 << 16, fixed + 5, fixed + 5 | 5 << 16]
    words = [place.to_bytes(4, "little") for place in places]
    body = b"\x0c" + words[0] + b"\x0c\xfe" + words[1] + words[2] + b"bash\0/tmp\0"
    assert (
        found.data == bytes(4) + RECORD[4:8] + body[:0] + body + bytes(3)
        or found.data[8:-3] == body
    )
    assert found.size == 36
    assert found.mask == b"\0\0\0\1" + b"\1" * (fixed + 6) + b"\0" * 3


def test_what_follows_a_string_of_unknown_length():
    found = evaluate("a=$p:string b=$name:string c=$u", Known())
    assert found.values == {"a": UNKNOWN, "b": "bash", "c": 0xFE0C}
    assert found.size is None
    assert found.mask[8:16] == bytes(8)
    assert found.mask[16:24] == b"\1" * 8
    assert found.agrees(found.data + b"more")


def test_an_address_in_no_symbol_has_no_nul():
    known = Known(symbols=lambda _: None)
    found = evaluate("a=$u:symstr b=$name:string", known)
    assert found.values == {"a": "0xfe0cbash", "b": "bash"}
    assert evaluate("a=$u:symstr", known).values == {"a": UNKNOWN}


def test_the_smallest_record_has_12_bytes():
    assert evaluate("").size == 12


def test_a_record_too_long_for_a_page_is_dropped():
    memory = memory_of({USER: b"x" * 4000 + b"\0"})
    assert not evaluate("a=$p:string", Known(memory=memory)).dropped
    assert evaluate("a=$p:string b=$p:string", Known(memory=memory)).dropped


@pytest.mark.parametrize(
    ("condition", "fires"),
    [
        ("s == -500", True), ("s != -500", False), ("s < 0", True), ("s > -501", True),
        ("s <= -500", True), ("s >= 0", False), ("u & 4", True), ("u & 2", False),
        ("u == 65036 && s == 0", False), ("u == 0 || s == -500", True), ("!(u == 0)", True),
        ('name == "bash"', True), ('name != "bash"', False), ('name ~ "ba*"', True),
        ('name ~ "x*"', False), ('where == "/tmp"', True), ('near ~ "?b?"', True),
        ('p == "/etc/passwd"', False), ('p != "x"', False), ("cpu == 3", None),
        ('comm == "bash"', True),
        ("cpu == 3 && s == 0", False), ("cpu == 3 || s == -500", True), ("!(cpu == 3)", None),
        ('p.ustring == "/etc/passwd"', True),
    ],
)  # fmt: skip
def test_filters(condition, fires):
    assert evaluate(f"a=$u if {condition}").fires is fires


def test_filters_on_what_is_not_known():
    assert evaluate('a=$u if comm == "bash"', Known()).fires is None
    assert evaluate("a=$u if cpu == 3", Known(cpu=3)).fires is True


def test_refusals():
    with pytest.raises(DynEventError, match="Unknown type is specified"):
        evaluate("a=$u:u7")
    with pytest.raises(EventError, match=r"^e: 3 bytes are no record of the parent$"):
        Evaluator("e:g/e sys.evt a=$u", PARENT)(b"abc")
    with pytest.raises(DynEventError, match="Attached event does not exist"):
        Evaluator("e:g/e ftrace.evt a=$u", PARENT)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "this is no eprobe: it begins with e"),
        ("# nothing", "this is no eprobe: it begins with e"),
        ("s:x u64 a", "this is no eprobe: it begins with e"),
        ("e:a/b sub.evt\ne:c/d sub.evt", "these are 2 definitions, where there is to be one"),
    ],
)
def test_a_text_that_is_not_one_eprobe(text, reason):
    with pytest.raises(DynEventError, match=f"^<definition>:1:1: error: {reason}"):
        Evaluator(text, PARENT)


def test_casts_follow_the_kernels_types():
    types = profile("7.3").types
    parent = parse_format(
        "name: evt\nID: 5\nformat:\n\tfield:void * skb;\toffset:8;\tsize:8;\tsigned:0;\n"
    )
    made = Evaluator(
        "e:g/e sys.evt l=(sk_buff)skb->len i=(sk_buff)skb->dev->ifindex t=(sk_buff)skb->pkt_type",
        parent,
        types=types,
    )
    buffer = types.struct("sk_buff")
    length = types.member(buffer, "len").bit_offset // 8
    device = types.member(buffer, "dev").bit_offset // 8
    kind = types.member(buffer, "pkt_type")
    index = types.member(types.struct("net_device"), "ifindex").bit_offset // 8
    skb, dev = 0xFF11000000001000, 0xFF11000000009000
    memory = memory_of(
        {
            skb + length: (43).to_bytes(4, "little"),
            skb + device: dev.to_bytes(8, "little"),
            dev + index: (2).to_bytes(4, "little"),
            skb + kind.bit_offset // 8: (5 << kind.bit_offset % 8).to_bytes(8, "little"),
        }
    )
    record = bytes(8) + skb.to_bytes(8, "little")
    found = made(record, Known(memory=memory))
    assert found.values == {"l": 43, "i": 2, "t": 5}
    assert made(record).values == {"l": UNKNOWN, "i": UNKNOWN, "t": UNKNOWN}


def test_without_types_a_casts_place_is_not_known():
    found = evaluate("a=$u:u8 b=(sk_buff)p->len c=$s:s16")
    assert found.values == {"a": 0x0C, "b": UNKNOWN, "c": -500}
    assert (len(found.data), found.size) == (9, None)


@given(st.binary(max_size=80))
def test_any_record_of_the_parent_is_evaluated(data):
    made = Evaluator(
        "e:g/e sys.evt a=$name:string b=$where:string c=+0($near):u8[4] d=$list", PARENT
    )
    try:
        found = made(data)
    except EventError:
        assert len(data) < 8
        return
    assert found.size is None or found.size == len(found.data) == len(found.mask)


def accepted(kernel):
    """Yield what eprobes the kernel accepted, with the text of the format file it made of each."""
    text = lzma.decompress((DATA / f"{kernel}.jsonl.xz").read_bytes())
    for row in map(json.loads, text.splitlines()):
        words = row["definition"].split()
        if row["accepted"] and words and words[0].startswith("e") and len(row["format"] or ()) == 1:
            (made,) = row["format"].values()
            if len(words) > 1 and made.startswith("name:"):
                yield row["definition"], words[1].replace(".", "/", 1), made


@pytest.mark.parametrize("kernel", KERNELS)
def test_records_are_laid_out_as_the_kernels_format_files_say(kernel):
    text = lzma.decompress((DATA / f"formats-{kernel}.txt.xz").read_bytes()).decode()
    formats = read_formats(text)
    types = profile(kernel).types
    known = Known(
        memory=lambda address, size: (b"ab\0" * size)[address % 3 :][:size],
        comm=b"bash",
        symbols=lambda _: "symbol",
    )
    compared = 0
    for definition, parent, made in accepted(kernel):
        if parent not in formats:
            continue
        print_it = Printer(parse_format(made), symbols=known.symbols)
        size = max(field.offset + field.size for field in formats[parent].fields)
        found = Evaluator(definition, formats[parent], kernel, types=types)(bytes(size), known)
        if found.complete:
            assert print_it(found.data) == found.text.partition(")")[2]
            compared += 1
    assert compared > 130
