"""Two made-up tracepoints with fields of every kind, functions, and a target that knows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pybpf.target.features import ALL
from pybpf.target.snapshot import SnapshotTarget

FIRST, SECOND = "tracepoint:test/first", "tracepoint:test/second"
"""They have the same fields, in different order and at different offsets."""
FUNCTION = "work"
"""A function; the target also has one whose name only begins so."""
ENVIRONMENT: Mapping[str, str] = {"target": "100", "1": "-0x10", "word": "a word"}

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


def target(
    arch: str = "x86_64",
    features: Iterable[str] = ALL,
    pid_namespace: tuple[int, int] | None = None,
    environment: Mapping[str, str] = ENVIRONMENT,
) -> SnapshotTarget:
    """Return a target with two CPUs that knows the tracepoints and functions."""
    formats = {
        "test/first": _format("first", 7, _FIELDS),
        "test/second": _format("second", 8, reversed(_FIELDS)),
    }
    functions = (FUNCTION, f"{FUNCTION}_more")
    return SnapshotTarget(
        arch=arch,
        features=features,
        cpus=2,
        pid_namespace=pid_namespace,
        environment=environment,
        formats=formats,
        functions=functions,
        symbols=[(_CODE + 256 * index, name) for index, name in enumerate(functions)],
    )


_CODE = 0xFFFF_FFFF_8100_0000
KERNEL_TEXT, KERNEL_NUMBER, USER_TEXT = 0xFFFF_8880_0000_1000, 0xFFFF_8880_0000_2000, 0x7FFE_0000
"""Addresses of memory that events have; nothing else can be read."""
