import io
import re

import pytest

from pybpf.dataclass import replace
from pybpf.errors import EventError
from pybpf.events.ftrace.lines import (
    TraceLine,
    flag_columns,
    line_of,
    parse_cmdlines,
    parse_lines,
)
from pybpf.events.ftrace.reader import (
    Lost,
    PageReader,
    RawRecord,
    RecordFormats,
    merge,
    pages_of,
)
from pybpf.tracefs.format import parse_format

PLAIN = b"         python3-122     [000] ...1.    21.768038: r2: (raw_syscalls.sys_enter) nr=3"


def line(comm=b"python3", pid=b"122    ", rest=b" [000] ...1.    21.768038: e: x=1"):
    return comm.rjust(16) + b"-" + pid + rest


FIRST = TraceLine(b"python3", 122, 0, "...1.", 21_768_038_000, "e", b"x=1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PLAIN, TraceLine(b"python3", 122, 0, "...1.", 21_768_038_000, "r2",
                          b"(raw_syscalls.sys_enter) nr=3")),
        (line(b"a b-7 [001]:"), replace(FIRST, comm=b"a b-7 [001]:")),
        (line(b"-1 [000] 1.0: y"), replace(FIRST, comm=b"-1 [000] 1.0: y")),
        (line(b"\xff\xfe"), replace(FIRST, comm=b"\xff\xfe")),
        (line(b"<...>"), replace(FIRST, comm=b"<...>")),
        (line(rest=b" (    120) [011] d.h3. 9.000001: e: x=1"),
         TraceLine(b"python3", 122, 11, "d.h3.", 9_000_001_000, "e", b"x=1", 120)),
        (line(rest=b" (-------) [011] d.h3. 9.000001: e: x=1"),
         TraceLine(b"python3", 122, 11, "d.h3.", 9_000_001_000, "e", b"x=1")),
        (line(rest=b" [000] 15880.035386: sys_enter: NR 3"),
         TraceLine(b"python3", 122, 0, "", 15_880_035_386_000, "sys_enter", b"NR 3")),
        (line(rest=b" [000] ..... 77: e: x=1"), replace(FIRST, flags=".....", time=77)),
        (line(rest=b" [000] ..... 1.000000: sys_openat(dfd: ffffff9c)"),
         TraceLine(b"python3", 122, 0, ".....", 10**9, "", b"sys_openat(dfd: ffffff9c)")),
        (line(rest=b" [000] ..... 1.000000: r22:"),
         TraceLine(b"python3", 122, 0, ".....", 10**9, "r22", b"")),
        (line(pid=b"1234567"), replace(FIRST, pid=1234567)),
    ],
)  # fmt: skip
def test_lines(text, expected):
    assert list(parse_lines([text + b"\n"])) == [expected]


def test_losses_notes_and_text_over_several_lines():
    text = [
        b"# tracer: nop\n",
        b"#\n",
        line(rest=b" [000] ..... 1.000000: e: Linux\n"),
        b" version\n",
        b"# not a comment\n",
        b"\n",
        b"##### CPU 1 buffer started ####\n",
        b"CPU:1 [LOST 12 EVENTS]\n",
        b"CPU:0 [LOST EVENTS]\n",
        line(rest=b" [001] ..... 2.000000: e: x\n"),
        b"CPU:1 [LOST 3 EVENTS]\n",
    ]
    first, lost, some, second, last = parse_lines(text)
    assert first.text == b"Linux\n version\n# not a comment\n"
    assert lost == Lost(2 * 10**9, 1, 12)
    assert some == Lost(2 * 10**9, 0, None)
    assert (second.cpu, second.text) == (1, b"x")
    assert last == Lost(0, 1, 3)


def test_a_text_that_is_none():
    with pytest.raises(EventError) as error:
        list(parse_lines([b"# tracer: nop\n", b"hello\n"]))
    assert str(error.value) == "trace: line 2: no record: b'hello'"
    assert list(parse_lines([])) == []


@pytest.mark.parametrize(
    "text", [b"%d [0] 1.0: e: x", b"1 [%d] 1.0: e: x", b"1 [0] %d.0: e: x", b"1 [0] 1.%d: e: x"]
)
def test_numbers_that_are_too_long(text):
    with pytest.raises(EventError, match="no record"):
        list(parse_lines([b"            bash-" + text.replace(b"%d", b"9" * 5000)]))
    with pytest.raises(EventError, match="no record"):
        list(parse_lines([b"CPU:0 [LOST " + b"9" * 5000 + b" EVENTS]"]))


def test_cmdlines():
    assert parse_cmdlines(b"1 init\n22 a b\n3 <...>\n") == {1: b"init", 22: b"a b", 3: b"<...>"}
    assert parse_cmdlines(b"1 a\rb\n22 c\n\nd\n3 e") == {1: b"a\rb", 22: b"c\n\nd", 3: b"e"}
    assert parse_cmdlines(b"") == {}
    with pytest.raises(EventError, match=r"^saved_cmdlines: line 1: no pid and name: b'init'$"):
        parse_cmdlines(b"init\n")


@pytest.mark.parametrize(
    ("flags", "count", "columns"),
    [
        (0, 0, "....."), (0x01, 2, "d..2."), (0x80, 0, "b...."), (0x81, 0, "D...."),
        (0x24, 0x10, ".N..1"), (0x04, 0, ".n..."), (0x20, 0, ".p..."), (0x02, 0, ".l..."),
        (0x22, 0, ".L..."), (0x06, 0, ".b..."), (0x26, 0, ".B..."), (0x08, 0, "..h.."),
        (0x10, 0, "..s.."), (0x18, 0xAB, "..Hba"), (0x40, 0, "..z.."), (0x48, 0, "..Z.."),
    ],
)  # fmt: skip
def test_flag_columns(flags, count, columns):
    assert flag_columns(flags, count) == columns


def test_lines_of_forgotten_and_idle_processes():
    raw = RawRecord(1_000_000_499, 2, 7, bytes(4) + (9).to_bytes(4, "little"))
    assert line_of(raw, "e: x", {}) == b"           <...>-9       [002] .....     1.000000: e: x"
    idle = RawRecord(1_000_000_500, 2, 7, bytes(8))
    assert line_of(idle, "e: x", {}) == b"          <idle>-0       [002] .....     1.000001: e: x"


# Hashed pointers, and what the kernel prints with code of its own or needs an enum for.
_OTHER = re.compile(rb"ptr=|timer=|sys_openat\(|sys_openat ->")


def test_captured_records_print_as_the_kernel_printed_them(capture):
    lines = [line for line in capture.trace.splitlines() if not line.startswith(b"#")]
    parsed = list(parse_lines(capture.trace.splitlines(keepends=True)))
    assert len(parsed) == len(lines)
    comms = {line.pid: line.comm for line in parsed}
    readers = [PageReader(capture.formats, cpu) for cpu in range(2)]
    streams = [
        [raw for page in pages_of(io.BytesIO(data), reader.layout) for raw in reader.feed_raw(page)]
        for reader, data in zip(readers, capture.cpus, strict=True)
    ]
    compared = 0
    for raw, text in zip(merge(streams), lines, strict=True):
        if not _OTHER.search(text):
            assert line_of(raw, capture.formats.text(raw), comms) == text
            compared += 1
    assert compared > 400


@pytest.mark.parametrize("kernel", ["6.1", "6.12", "7.3"])
def test_lines_of_other_kernels(golden, kernel):
    for row in golden[kernel]:
        name = row["format"].splitlines()[0].removeprefix("name: ")
        parent = row["definition"].split()[1]
        formats = RecordFormats([])
        formats.add(parse_format(row["format"]), head=f"({parent})")
        for record in row["records"]:
            line = record["text"].encode("utf-8", "surrogateescape")
            (parsed,) = parse_lines(line.split(b"\n"))
            assert parsed.event == name
            assert abs(parsed.time - record["ts"]) <= 500
            payload = bytes.fromhex(record["raw"])
            raw = RawRecord(record["ts"], record["cpu"], row["eprobe_id"], payload)
            text = f"{name}: {parsed.text.decode('utf-8', 'surrogateescape')}"
            if ":symbol" not in row["definition"]:
                assert formats.text(raw) == text
            assert line_of(raw, text, {parsed.pid: parsed.comm}) == line
