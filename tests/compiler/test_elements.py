"""``object[index]``: elements of arrays in records and maps, and of what pointers lead to."""

import pytest

from pybpf.compiler.pipeline import compile_script
from pybpf.errors import SourceError
from pybpf.source import Source
from pybpf.testing.agreement import simulated
from pybpf.testing.tracepoints import FIRST, KERNEL_NUMBER, USER_TEXT, target
from pybpf.vm.recording import RecordedEvent

TARGET = target()
EVENT = RecordedEvent(
    FIRST,
    comm=b"dd",
    pid=7,
    tid=8,
    data={
        "name": b"name",
        "words": (1, 0xFFFFFFFF, 3),
        "mac": b"\1\2\3\4\5\xfe",
        "c": 2,
        "user_text": USER_TEXT,
        "number": KERNEL_NUMBER,
    },
    memory={USER_TEXT: b"/etc\0", KERNEL_NUMBER: bytes([5, *[0] * 7, 6, *[0] * 7])},
)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        # They have the type of the element: the second word is unsigned.
        (
            "data->words[0], data->words[1] + 1 == 0, data->words[1] > 0, data->words[2]",
            (1, 1, 1, 3),
        ),
        ("data->mac[0], data->mac[5], data->mac[4] + data->mac[5]", (1, 254, 259)),
        ("data->name[0] == 'n', data->name[3] == 'e', data->name[4] + 0", (1, 1, 0)),
        ("(*data).words[2], (data->words)[2], (data)->words[0b10]", (3, 3, 3)),
        ("-data->mac[1], data->mac[2] * data->words[2]", (-2, 9)),
        # A pointer's may be any.
        ("data->user_text[0] == '/', data->user_text[data->c] == 't'", (1, 1)),
        ("data->number[0], data->number[1], (data->number + 1)[data->c - 3]", (5, 6, 5)),
    ],
)
def test_elements(text, values):
    script = compile_script(f"{FIRST} {{ print({text}); }}", TARGET)

    assert [row for kind, row in simulated(script, TARGET, [EVENT]).lines if kind != "exit"] == [
        values
    ]


def test_elements_of_what_maps_keep():
    text = f"""{FIRST} / data->mac[5] == 254 / {{
        record[data->mac[0]] = *data;
        words[1] = data->words;
        text[1] = data->user_text;
        print(record[1].words[2], record[1].mac[5], (words[1])[0], (words[2])[0]);
        print((text[1])[1]);
    }}"""
    found = simulated(compile_script(text, TARGET), TARGET, [EVENT])

    assert [row for kind, row in found.lines if kind != "exit"] == [(3, 254, 1, 0), (ord("e"),)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data->mac[6]", "'unsigned char[6]' has no element 6"),
        ("data->mac[-1]", "'unsigned char[6]' has no element -1"),
        ("data->mac[pid]", "an array is indexed by a literal number, such as [1]"),
        ("data->a[0]", "[] wants an array or a pointer to a known type, not 's64'"),
        ("(pid)[0]", "[] wants an array or a pointer to a known type, not 'pid_t'"),
        (
            "data->text[0]",
            "[] wants an array or a pointer to a known type, not '__data_loc char[]'",
        ),
        ("(data)[1]", "the context has no addresses to compute with"),
        ("data->number[comm]", "[] wants numbers, and this is 'char[16]'"),
        ("data->mac[1].x", ". wants a struct, not 'unsigned char'"),
    ],
)
def test_what_has_no_elements(text, message):
    with pytest.raises(SourceError) as caught:
        compile_script(Source("<script>", f"{FIRST} {{ print({text}); }}"), TARGET)

    assert str(caught.value).splitlines()[0].partition("error: ")[2] == message
