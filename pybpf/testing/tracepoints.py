"""Two made-up tracepoints with fields of every kind, a target that knows them, and their events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hypothesis import strategies as st

from pybpf.isa.insn import ByteOrder
from pybpf.target.features import ALL
from pybpf.target.snapshot import SnapshotTarget
from pybpf.vm.recording import Datum, RecordedEvent

FIRST, SECOND = "tracepoint:test/first", "tracepoint:test/second"
"""They have the same fields, in different order and at different offsets."""

INTEGERS: Mapping[str, tuple[int, bool]] = {
    "a": (8, True),
    "b": (8, False),
    "c": (4, True),
    "d": (4, False),
    "e": (2, True),
    "f": (2, False),
    "g": (1, True),
    "h": (1, False),
}
"""The integer fields: size in bytes, and whether it is signed."""

_NAMES = {(1, True): "signed char", (1, False): "unsigned char", (8, True): "s64",
          (8, False): "u64", (4, True): "int", (4, False): "unsigned int", (2, True): "short",
          (2, False): "unsigned short"}  # fmt: skip
_FIELDS: tuple[tuple[str, int, int, bool], ...] = (
    *((f"{_NAMES[kind]} {name}", kind[0], kind[0], kind[1]) for name, kind in INTEGERS.items()),
    ("char name[16]", 16, 1, False),
    ("u32 words[3]", 12, 4, False),
    ("unsigned char mac[6]", 6, 1, False),
    ("__data_loc char[] text", 4, 4, False),
    ("__rel_loc char[] tail", 4, 4, False),
    ("__data_loc u8[] blob", 4, 4, False),
    ("const char * kernel_text", 8, 8, False),
    ("const char __user * user_text", 8, 8, False),
    ("const u64 * number", 8, 8, False),
)
"""Declaration, size, alignment and sign of each field."""


def _format(name: str, number: int, fields: Iterable[tuple[str, int, int, bool]]) -> str:
    lines = [
        f"name: {name}",
        f"ID: {number}",
        "format:",
        "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;",
        "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;",
        "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;",
        "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;",
        "",
    ]
    offset = 8
    for declaration, size, align, signed in fields:
        offset = -(-offset // align) * align
        place = f"offset:{offset};\tsize:{size};\tsigned:{int(signed)};"
        lines.append(f"\tfield:{declaration};\t{place}")
        offset += size
    return "\n".join([*lines, "", 'print fmt: ""', ""])


def target(arch: str = "x86_64", features: Iterable[str] = ALL) -> SnapshotTarget:
    """Return a target with two CPUs that knows the two tracepoints."""
    formats = {
        "test/first": _format("first", 7, _FIELDS),
        "test/second": _format("second", 8, reversed(_FIELDS)),
    }
    return SnapshotTarget(arch=arch, features=features, cpus=2, formats=formats)


KERNEL_TEXT, KERNEL_NUMBER, USER_TEXT = 0xFFFF_8880_0000_1000, 0xFFFF_8880_0000_2000, 0x7FFE_0000
"""Addresses of memory that events have; nothing else can be read."""


def integers(size: int, *, signed: bool) -> st.SearchStrategy[int]:
    """Draw integers of ``size`` bytes, often near the ends of their range."""
    low, high = (-(1 << 8 * size - 1), (1 << 8 * size - 1) - 1) if signed else (0, 1 << 8 * size)
    high -= not signed
    edges = st.sampled_from([low, high, 0, 1, min(high, 100), max(low, -1)])
    return edges | st.integers(low, high)


def _texts(size: int) -> st.SearchStrategy[bytes]:
    """Draw texts that fit ``size`` bytes, some with other bytes behind their NUL."""
    words = [b"", b"dd", b"dash", b"exactly7", b"fifteen_letters", b"not terminated!!", b"a\0junk"]
    return st.sampled_from([word for word in words if len(word) <= size])


@st.composite
def events(draw: st.DrawFn, byteorder: ByteOrder = "little") -> RecordedEvent:
    """Draw an event of one of the two tracepoints."""
    data: dict[str, Datum] = {
        name: draw(integers(size, signed=signed)) for name, (size, signed) in INTEGERS.items()
    }
    addresses = st.sampled_from(
        [KERNEL_TEXT, KERNEL_TEXT + 2, USER_TEXT, USER_TEXT + 1, KERNEL_NUMBER, 0, 0xDEAD, 1 << 63]
    )
    data["b"] = draw(addresses | st.just(data["b"]))
    data["name"] = draw(_texts(16))
    data["words"] = tuple(draw(st.lists(integers(4, signed=False), min_size=3, max_size=3)))
    data["mac"] = draw(st.binary(min_size=6, max_size=6))
    long = [b"/a/path/that/is/long" * 8, b"not terminated!! at all"]
    data["text"] = draw(_texts(16) | st.sampled_from(long))
    # Elements, unlike a text, get no NUL.
    data["tail"] = draw(_texts(16) | st.just(tuple(b"no NUL")) | st.just(()))
    data["blob"] = draw(st.binary(max_size=140))
    data["kernel_text"] = draw(addresses)
    data["user_text"] = draw(addresses)
    data["number"] = draw(addresses)
    ids = integers(4, signed=False)
    return RecordedEvent(
        probe=draw(st.sampled_from([FIRST, SECOND])),
        time=draw(st.integers(0, 2**62)),
        cpu=draw(st.integers(0, 1)),
        pid=draw(ids),
        tid=draw(ids),
        uid=draw(ids),
        gid=draw(ids),
        comm=draw(st.sampled_from([b"a", b"dd", b"dash", b"fifteen_letters"])),
        data=data,
        memory={
            KERNEL_TEXT: draw(_texts(16)) + b"\0",
            KERNEL_NUMBER: draw(integers(8, signed=False)).to_bytes(8, byteorder),
            USER_TEXT: draw(_texts(16)) + b"\0",
        },
    )


def recordings(byteorder: ByteOrder = "little") -> st.SearchStrategy[list[RecordedEvent]]:
    """Draw a few events in the order of their times."""
    return st.lists(events(byteorder), min_size=1, max_size=4).map(
        lambda e: sorted(e, key=lambda x: x.time)
    )
