"""Recordings: what a line means, and what is said about a bad one."""

import pytest

from pybpf.errors import SourceError
from pybpf.source import Source
from pybpf.vm.recording import RecordedEvent, read_events

KPROBE = '{"probe": "kprobe:vfs_read"'


def read(text):
    return list(read_events(Source("events.jsonl", text)))


@pytest.mark.parametrize(
    ("more", "fields"),
    [
        ("", {}),
        (', "time": 5, "cpu": 1, "uid": 3, "gid": 4', {"time": 5, "cpu": 1, "uid": 3, "gid": 4}),
        (', "pid": 7', {"pid": 7, "tid": 7}),
        (', "pid": 7, "tid": 8', {"pid": 7, "tid": 8}),
        (', "comm": "caf\\u00e9"', {"comm": "café".encode()}),
        (', "comm": "a\\udcff"', {"comm": b"a\xff"}),
        (', "args": [1, -1, "0xff"]', {"args": (1, (1 << 64) - 1, 255)}),
        (', "retval": -22', {"retval": -22}),
        (', "retval": null', {"retval": None}),
        (', "regs": {"rax": "0x10", "rdi": -1}', {"regs": {"rax": 16, "rdi": -1}}),
        (', "stack": ["0xffffffff81000000"]', {"stack": (0xFFFFFFFF81000000,)}),
        (', "user_stack": [4096]', {"user_stack": (4096,)}),
        (
            ', "data": {"n": 1, "s": "x", "a": [1, "y", [2]]}',
            {"data": {"n": 1, "s": b"x", "a": (1, b"y", (2,))}},
        ),
        (
            ', "memory": {"0x10": "text", "32": {"hex": "00 ff"}}',
            {"memory": {16: b"text\0", 32: b"\x00\xff"}},
        ),
    ],
)
def test_a_line_is_an_event(more, fields):
    assert read(KPROBE + more + "}") == [RecordedEvent("kprobe:vfs_read", **fields)]


def test_empty_lines_are_skipped_and_spans_point_at_lines():
    events = read(f'\n{KPROBE}}}\r\n\n  \n{KPROBE}, "time": 9}}')

    assert [(e.time, e.span.line) for e in events] == [(0, 2), (9, 5)]


def test_nothing_is_recorded_in_an_empty_file():
    assert read("") == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"probe": }',
            """events.jsonl:2:11: error: no JSON: Expecting value
    {"probe": }
              ^""",
        ),
        (
            "[1]",
            """events.jsonl:2:1: error: an event is a JSON object, not a list
    [1]
    ^^^""",
        ),
        (
            '{"time": 1}',
            """events.jsonl:2:1: error: an event must name its 'probe'
    {"time": 1}
    ^^^^^^^^^^^""",
        ),
        (
            '{"probe": "kprobe:f", "tiem": 1}',
            """events.jsonl:2:23: error: unknown field 'tiem'; did you mean 'time'?
    {"probe": "kprobe:f", "tiem": 1}
                          ^^^^^^""",
        ),
        (
            '{"probe": "k:vfs_read"}',
            """events.jsonl:2:2: error: 'k:vfs_read' names no event that can be recorded
    {"probe": "k:vfs_read"}
     ^^^^^^^
  hint: here the provider has its full name: kprobe:vfs_read""",
        ),
        (
            '{"probe": "krpobe:f"}',
            """events.jsonl:2:2: error: 'krpobe:f' names no event that can be recorded; \
did you mean 'kprobe'?
    {"probe": "krpobe:f"}
     ^^^^^^^""",
        ),
        (
            '{"probe": "kprobe:f", "cpu": 1.5}',
            """events.jsonl:2:23: error: 'cpu' must be an integer, not a fraction
    {"probe": "kprobe:f", "cpu": 1.5}
                          ^^^^^""",
        ),
        (
            '{"probe": "kprobe:f", "pid": -1}',
            """events.jsonl:2:23: error: 'pid' must be from 0 to 4294967295 but is -1
    {"probe": "kprobe:f", "pid": -1}
                          ^^^^^""",
        ),
    ],
)
def test_a_bad_line_is_shown_with_what_is_wrong(line, message):
    with pytest.raises(SourceError) as caught:
        read(f"{KPROBE}}}\n{line}\n")

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('"time": true', "'time' must be an integer, not a boolean"),
        ('"time": "soon"', "'time' must be an integer, not a string"),
        ('"time": 18446744073709551616', "'time' must be from 0 to 18446744073709551615"),
        ('"comm": 3', "'comm' must be a string, not an integer"),
        ('"comm": "\\ud800"', "'comm' holds a surrogate that is no byte"),
        ('"args": 3', "'args' must be a list of integers, not an integer"),
        ('"args": [null]', "'args' must be an integer, not null"),
        ('"data": []', "'data' must be an object, not a list"),
        ('"data": {"x": {}}', "'x' must be an integer, not an object"),
        ('"regs": {"rax": []}', "'rax' must be an integer, not a list"),
        ('"memory": {"there": "x"}', "'there' must be an integer, not a string"),
        ('"memory": {"1": 3}', '\'1\' must be a string or {"hex": "…"}, not an integer'),
        ('"memory": {"1": {"hex": "0"}}', "'1' is no hexadecimal bytes"),
        ('"memory": {"1": {"hex": 0}}', '\'1\' must be a string or {"hex": "…"}, not an object'),
        ('"time": 1e999', "'time' must be an integer, not a fraction"),
        (f'"data": {{"x": {"[" * 900}{"]" * 900}}}', "'x' holds lists more than 8 deep"),
        (f'"time": {"9" * 5000}', "no JSON: Exceeds the limit"),
        (f'"data": {{"x": {"[" * 100_000}', "no JSON: "),
    ],
)
def test_wrong_types_and_values_are_refused(more, message):
    with pytest.raises(SourceError) as caught:
        read(f"{KPROBE}, {more}}}")

    assert message in str(caught.value).splitlines()[0]


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        ("1", "'probe' must be a string, not an integer"),
        ('"BEGIN"', "'BEGIN' names no event that can be recorded"),
        ('"kprobe"', "'kprobe' names no event that can be recorded"),
    ],
)
def test_a_probe_must_name_an_event(probe, message):
    with pytest.raises(SourceError, match=message):
        read(f'{{"probe": {probe}}}')
