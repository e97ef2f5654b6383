"""A BTF's words in; the numbers of its types, and the values of its enums, by name out.

Both are made when they are first asked for, of one kind of types each: what a look-up costs is a
walk over the heads of all types, 10 ms for a kernel's.
"""

from __future__ import annotations

from collections.abc import Iterator

from pybpf.btf.abi import ENUMS, FLAG_SHIFT, HEAD, KIND_MASK, KIND_SHIFT, KINDS, Kind
from pybpf.btf.blob import Blob
from pybpf.btf.types import enumerators


class Index:
    """Finds types by kind and name; ``base`` is that of what the BTF goes on from."""

    def __init__(self, blob: Blob, base: Index | None) -> None:
        self._blob = blob
        self._base = base
        self._numbers: dict[Kind, dict[int, int]] = {}
        self._values: dict[int, int | None] | None = None

    def find(self, kind: Kind, name: str) -> int | None:
        """Return the first type of a kind and name, the base's first; None where there is none."""
        if self._base is not None and (number := self._base.find(kind, name)):
            return number
        if kind not in self._numbers:
            self._numbers[kind] = self._own(kind)
        known = self._numbers[kind]
        numbers = [known[offset] for offset in self._offsets(name) if offset in known]
        return min(numbers, default=None)

    def _own(self, kind: Kind) -> dict[int, int]:
        """Return the first type of a kind by each offset of a name, without the base's."""
        words, places = self._blob.words, self._blob.places
        found = {}
        for number in range(len(places) - 1, self._blob.first - 1, -1):
            at = places[number]
            if words[at + 1] >> KIND_SHIFT & KIND_MASK == kind:
                found[words[at]] = number
        return found

    def _offsets(self, name: str) -> Iterator[int]:
        """Yield all offsets at which a name can be found: as a string, or as the end of one."""
        if not name:
            yield 0
            return
        wanted, texts = name.encode("utf-8", "replace") + b"\0", self._blob.texts
        at = texts.find(wanted)
        while at >= 0:
            yield at
            at = texts.find(wanted, at + 1)

    def value(self, name: str) -> int | None:
        """Return the value of a name of an enum; None where there is none, or several differ."""
        if self._values is None:
            self._values = self._all_values()
        values = self._values
        found = {values[offset] for offset in self._offsets(name) if offset in values}
        return found.pop() if name and len(found) == 1 else None

    def _all_values(self) -> dict[int, int | None]:
        """Return the values of all names of enums, by the offsets of the names."""
        found: dict[int, int | None] = {}
        words, places = self._blob.words, self._blob.places
        ends = [*places[1:], len(words)]
        for at, end in zip(places, ends, strict=True):
            info = words[at + 1]
            kind = KINDS[info >> KIND_SHIFT & KIND_MASK]
            if kind in ENUMS:
                rest = words[at + HEAD : end].tolist()
                for text, value in enumerators(kind, rest, signed=bool(info >> FLAG_SHIFT)):
                    if found.setdefault(text, value) != value:
                        found[text] = None
        return found
