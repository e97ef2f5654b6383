"""The bytes of a BTF in, split or whole; its words, the places of its types and its names out.

    +--------------+---------+----------+---------------------------------------------+
    | magic 0xeb9f | version |  flags   | header size, then offset and size of the    |
    | 16 bits      | 8 bits  |  8 bits  | types and of the strings, 32 bits each      |
    +--------------+---------+----------+---------------------------------------------+
    | types: each some words of 32 bits (see abi.py); they are numbered from 1        |
    +---------------------------------------------------------------------------------+
    | strings: each ends in NUL, the first is empty                                   |
    +---------------------------------------------------------------------------------+

A split BTF, such as a kernel module's, goes on where its base ends: with the numbers of types, and
with the offsets of strings. Source: Documentation/bpf/btf.rst; btf_parse_hdr of kernel/bpf/btf.c.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable

from pybpf.btf.abi import (
    COUNT_MASK,
    HEAD,
    KIND_MASK,
    KIND_SHIFT,
    KINDS,
    MAGIC,
    TAILS,
    VERSION,
    Kind,
)
from pybpf.dataclass import dataclass, field
from pybpf.errors import BtfError
from pybpf.isa.insn import ByteOrder

_HEADER = "HBB5I"
_HEADER_SIZE = 24
_WORD = 4


@dataclass(frozen=True, slots=True)
class Blob:
    """What is in a BTF, its base's first.

    Type ``n`` begins at word ``places[n]``; type 0, which no file holds, is three words of 0. The
    types of the BTF's own are numbered from ``first`` on, and lie in its bytes from ``start`` on.
    """

    byteorder: ByteOrder
    words: array[int] = field(repr=False)
    places: array[int] = field(repr=False)
    texts: bytes = field(repr=False)
    first: int
    start: int

    def offset(self, place: int) -> int:
        """Return where a word of the BTF's own types is in its bytes."""
        own = self.places[self.first] if self.first < len(self.places) else len(self.words)
        return self.start + _WORD * (place - own)


_VOID = Blob("little", array("I", [0] * HEAD), array("I", [0]), b"", 1, 0)


def byteorder_of(data: bytes) -> ByteOrder | None:
    """Return the byte order that a BTF's first two bytes tell, None for those of no BTF."""
    orders: dict[bytes, ByteOrder] = {b"\x9f\xeb": "little", b"\xeb\x9f": "big"}
    return orders.get(data[:2])


def parse(data: bytes, base: Blob | None = None) -> Blob:
    """Take a BTF apart. Raises BtfError for bytes that are none, or end before its parts do."""
    byteorder = byteorder_of(data)
    if byteorder is None:
        raise BtfError("its first two bytes are not 0xeb9f", 0)
    if len(data) < _HEADER_SIZE:
        raise BtfError(f"a header has {_HEADER_SIZE} bytes, and there are {len(data)}", 0)
    mark = "<" if byteorder == "little" else ">"
    _, version, _, size, type_at, type_size, text_at, text_size = struct.unpack_from(
        mark + _HEADER, data
    )
    if version != VERSION:
        raise BtfError(f"its version is {version}, not {VERSION}", 2)
    for what, at, length in (("types", type_at, type_size), ("names", text_at, text_size)):
        if size + at + length > len(data):
            reason = f"its {length} bytes of {what} end behind all {len(data)} of it"
            raise BtfError(reason, size + at)
    texts = data[size + text_at :][:text_size]
    if (base is None or texts) and not texts.endswith(b"\0"):
        raise BtfError("its last name has no end", size + text_at + text_size)
    before = base or _VOID
    start = size + type_at
    own = _words(data[start : start + type_size], byteorder, start)
    words = before.words + own
    places = before.places + _places(words, len(before.words), start)
    return Blob(byteorder, words, places, before.texts + texts, len(before.places), start)


def _words(data: bytes, byteorder: ByteOrder, start: int) -> array[int]:
    if rest := len(data) % _WORD:
        raise BtfError("its last type is cut off", start + len(data) - rest)
    words = array("I", data)
    if byteorder != sys.byteorder:
        words.byteswap()
    return words


class _Lengths(dict[int, int]):
    """The number of words that a type takes, by its info word; KeyError for an unknown kind."""

    def __missing__(self, info: int) -> int:
        kind = info >> KIND_SHIFT & KIND_MASK
        if not kind or kind not in KINDS:
            raise KeyError(kind)
        fixed, each = TAILS.get(Kind(kind), (0, 0))
        length = self[info] = HEAD + fixed + each * (info & COUNT_MASK)
        return length


def _places(words: array[int], at: int, start: int) -> array[int]:
    """Return where the types begin of which the first does at a word.

    A kernel has 130,000 types, and none can be found without this: so it does next to nothing.
    """
    first, end = at, len(words)
    lengths = _Lengths()
    found: list[int] = []
    append = found.append
    try:
        while at < end:
            append(at)
            at += lengths[words[at + 1]]
    except KeyError as unknown:
        reason = f"a type is of kind {unknown.args[0]}, which is not known"
        raise BtfError(reason, start + _WORD * (at - first)) from None
    except IndexError:
        at = end + 1
    if at != end:
        raise BtfError("its last type is cut off", start + _WORD * (found[-1] - first))
    return array("I", found)


def pack(types: Iterable[int], texts: bytes, byteorder: ByteOrder) -> bytes:
    """Return a BTF of all words of its types, and its strings."""
    words = array("I", types)
    if byteorder != sys.byteorder:
        words.byteswap()
    size = len(words) * _WORD
    mark = "<" if byteorder == "little" else ">"
    parts = (0, size, size, len(texts))
    header = struct.pack(mark + _HEADER, MAGIC, VERSION, 0, _HEADER_SIZE, *parts)
    return header + words.tobytes() + texts
