"""Numbers of BTF: kinds of types, linkages, encodings, and how many words a type takes.

Sources: include/uapi/linux/btf.h; Documentation/bpf/btf.rst.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, IntFlag

MAGIC = 0xEB9F
VERSION = 1


class Kind(IntEnum):
    """``BTF_KIND_*``: what a type is."""

    VOID = 0
    INT = 1
    PTR = 2
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    FWD = 7
    TYPEDEF = 8
    VOLATILE = 9
    CONST = 10
    RESTRICT = 11
    FUNC = 12
    FUNC_PROTO = 13
    VAR = 14
    DATASEC = 15
    FLOAT = 16
    DECL_TAG = 17
    TYPE_TAG = 18
    ENUM64 = 19


KINDS: Mapping[int, Kind] = {kind.value: kind for kind in Kind}
"""The same by number: a look-up is quicker than a call of the class."""
MODIFIERS = frozenset({Kind.TYPEDEF, Kind.VOLATILE, Kind.CONST, Kind.RESTRICT, Kind.TYPE_TAG})
"""What says something of another type, without being one of its own."""
COMPOSITES = frozenset({Kind.STRUCT, Kind.UNION})
ENUMS = frozenset({Kind.ENUM, Kind.ENUM64})


class Linkage(IntEnum):
    """Where a variable or a function is known."""

    STATIC = 0
    GLOBAL = 1
    EXTERN = 2


class Encoding(IntFlag):
    """How the bits of an integer are to be read; none of these is an unsigned number."""

    NONE = 0
    SIGNED = 1
    CHAR = 2
    BOOL = 4


HEAD = 3
"""Words of every type: offset of its name; info; size, or another type.

    +------------------- info ------------------+
    |  flag  |   0   |  kind  |   0   |  count   |
    |   31   | 30-29 | 28-24  | 23-16 |  15-0    |
    +--------+-------+--------+-------+----------+
"""
KIND_SHIFT, KIND_MASK, COUNT_MASK, FLAG_SHIFT = 24, 31, 0xFFFF, 31

TAILS: Mapping[Kind, tuple[int, int]] = {
    Kind.INT: (1, 0),
    Kind.ARRAY: (3, 0),
    Kind.STRUCT: (0, 3),
    Kind.UNION: (0, 3),
    Kind.ENUM: (0, 2),
    Kind.FUNC_PROTO: (0, 2),
    Kind.VAR: (1, 0),
    Kind.DATASEC: (0, 3),
    Kind.DECL_TAG: (1, 0),
    Kind.ENUM64: (0, 3),
}
"""Words that follow: so many for the type, so many for each of its ``count`` parts."""

_COLUMN_BITS = 10
_LAST_LINE, _LAST_COLUMN = (1 << 32 - _COLUMN_BITS) - 1, (1 << _COLUMN_BITS) - 1


def line_word(line: int, column: int) -> int:
    """Return the last word of a line_info, each cut down to the greatest that there is room for."""
    return min(line, _LAST_LINE) << _COLUMN_BITS | min(column, _LAST_COLUMN)


def line_column(word: int) -> tuple[int, int]:
    """Return the line and the column of a line_info's last word."""
    return word >> _COLUMN_BITS, word & _LAST_COLUMN
