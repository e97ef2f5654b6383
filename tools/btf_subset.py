"""Cut a kernel's BTF down to the structures and functions that definitions of probes name most.

    python tools/btf_subset.py vmlinux.btf OUT.xz STRUCT... -- FUNCTION...

Needed are the named structures and functions with all that they hold; what a pointer leads to is
needed if it is named too, or is no structure. Other structures become forward declarations of
their names; the rest becomes one without a name.
The first types keep their numbers, as kernels take the size of a type for a number of one in
places. pybpf/tracefs/dynevents/data/btf.xz has those of all kernels, each behind its length.
"""

from __future__ import annotations

import lzma
import struct
import sys
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, FUNC, PROTO, ENUM64 = 1, 2, 3, 4, 5, 6, 7, 12, 13, 19
TAILS = {1: (4, 0), 3: (12, 0), 4: (0, 12), 5: (0, 12), 6: (0, 8), 13: (0, 8), 14: (4, 0)}
TAILS |= {15: (0, 12), 17: (4, 0), 19: (0, 12)}
REFERRING = frozenset({2, 8, 9, 10, 11, 12, 18})
KEPT = 256
NOTHING = struct.pack("<III", 0, FWD << 24, 0)


class Blob:
    """The types and strings of a BTF, each type as its bytes."""

    def __init__(self, data: bytes) -> None:
        _, _, _, size, at, length, text_at, text_length = struct.unpack_from("<HBBIIIII", data)
        self.texts = data[size + text_at : size + text_at + text_length]
        self.types = [NOTHING]
        place, end = size + at, size + at + length
        while place < end:
            info = struct.unpack_from("<I", data, place + 4)[0]
            fixed, each = TAILS.get(info >> 24 & 31, (0, 0))
            size_here = 12 + fixed + each * (info & 0xFFFF)
            self.types.append(data[place : place + size_here])
            place += size_here

    def name(self, offset: int) -> bytes:
        """Return the name at an offset of the strings."""
        return self.texts[offset : self.texts.index(b"\0", offset)]

    def head(self, number: int) -> tuple[bytes, int, int]:
        """Return a type's name, kind, and size or other type."""
        name, info, other = struct.unpack_from("<III", self.types[number])
        return self.name(name), info >> 24 & 31, other

    def parts(self, number: int, layout: str) -> list[tuple[int, ...]]:
        """Return what follows the head of a type."""
        return list(struct.iter_unpack(layout, self.types[number][12:]))

    def followed(self, number: int, structs: AbstractSet[bytes]) -> list[int]:
        """Return the types that a type needs."""
        _, kind, other = self.head(number)
        if kind in {STRUCT, UNION}:
            return [inner for _, inner, _ in self.parts(number, "<III")]
        if kind == ARRAY:
            return list(self.parts(number, "<III")[0][:2])
        if kind == PROTO:
            return [other, *(inner for _, inner in self.parts(number, "<II"))]
        if kind == PTR:
            return [other] if self.leads_on(other, structs) else []
        return [other] if kind in REFERRING else []

    def leads_on(self, number: int, structs: AbstractSet[bytes]) -> bool:
        """Say whether what a pointer leads to is kept."""
        while number and self.head(number)[1] in REFERRING - {PTR}:
            number = self.head(number)[2]
        if not number:
            return True
        name, kind, _ = self.head(number)
        return kind not in {STRUCT, UNION, PROTO} or name in structs


def subset(data: bytes, structs: AbstractSet[bytes], functions: AbstractSet[bytes]) -> bytes:
    """Return the bytes of the smaller BTF."""
    blob = Blob(data)
    waiting = []
    for number in range(1, len(blob.types)):
        name, kind, _ = blob.head(number)
        wanted = (kind == STRUCT and name in structs) or (kind == FUNC and name in functions)
        if wanted or (number <= KEPT and kind == INT):
            waiting.append(number)
    needed: set[int] = set()
    while waiting:
        number = waiting.pop()
        if number and number not in needed:
            needed.add(number)
            waiting += blob.followed(number, structs)
    declared = [n for n in range(1, len(blob.types)) if is_declared(blob, n) and n not in needed]
    kept = {n for n in (*needed, *declared) if n > KEPT}
    order = [*range(1, KEPT + 1), *sorted(kept)]
    numbers = {old: new for new, old in enumerate(order, start=1)} | {0: 0}
    # What a pointer leads to without being kept is the last type.
    lost = len(order) + 1
    texts, places = bytearray(b"\0"), {b"": 0}

    def place(offset: int) -> int:
        name = blob.name(offset)
        if name not in places:
            places[name] = len(texts)
            texts.extend(name + b"\0")
        return places[name]

    def renumber(old: int) -> int:
        return numbers[old] if old in needed or not old else lost

    types = b""
    for old in order:
        if old in needed:
            types += written(blob, old, place, renumber)
        else:
            name = struct.unpack_from("<I", blob.types[old])[0]
            declares = is_declared(blob, old)
            types += struct.pack("<III", place(name) if declares else 0, FWD << 24, 0)
    types += NOTHING
    head = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(texts))
    return head + types + texts


def is_declared(blob: Blob, number: int) -> bool:
    """Say whether a type is a structure with a name."""
    name, kind, _ = blob.head(number)
    return kind == STRUCT and bool(name)


def written(
    blob: Blob, number: int, place: Callable[[int], int], renumber: Callable[[int], int]
) -> bytes:
    """Return a type with names and types where they are now; enums lose their members."""
    name, info, other = struct.unpack_from("<III", blob.types[number])
    kind, body = info >> 24 & 31, blob.types[number][12:]
    if kind in REFERRING or kind == PROTO:
        other = renumber(other)
    if kind in {ENUM, ENUM64}:
        info, body = info & ~0xFFFF, b""
    elif kind in {STRUCT, UNION}:
        parts = blob.parts(number, "<III")
        body = b"".join(struct.pack("<III", place(t), renumber(n), at) for t, n, at in parts)
    elif kind == PROTO:
        parts = blob.parts(number, "<II")
        body = b"".join(struct.pack("<II", place(t), renumber(n)) for t, n in parts)
    elif kind == ARRAY:
        ((element, index, count),) = blob.parts(number, "<III")
        body = struct.pack("<III", renumber(element), renumber(index), count)
    return struct.pack("<III", place(name), info, other) + body


def main(argv: Sequence[str]) -> None:
    """Write the subset that the command line asks for."""
    source, target, *names = argv
    cut = names.index("--")
    structs = frozenset(name.encode() for name in names[:cut])
    functions = frozenset(name.encode() for name in names[cut + 1 :])
    small = subset(Path(source).read_bytes(), structs, functions)
    Path(target).write_bytes(lzma.compress(small, preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main(sys.argv[1:])
