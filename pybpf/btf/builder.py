"""Types as values in; the bytes of a BTF with them, and their numbers, out.

Nothing is merged but strings: who wants equal types to be one asks ``add`` once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybpf.btf import blob
from pybpf.btf.types import BtfType, pack
from pybpf.errors import BtfError
from pybpf.isa.insn import ByteOrder

if TYPE_CHECKING:  # a run writes types, and need not read any
    from pybpf.btf.reader import Btf


class Builder:
    """A BTF in the making; on a base, one that goes on where that ends."""

    def __init__(self, byteorder: ByteOrder = "little", base: Btf | None = None) -> None:
        self._byteorder = byteorder
        self._first = 1 if base is None else len(base)
        self._records: list[tuple[int, ...]] = []
        self._strings: dict[str, int] = {"": 0}
        self._texts = [b"\0"] if base is None else []
        self._end = 1 if base is None else len(base.blob.texts)

    def __len__(self) -> int:
        """Return the number that the next type gets."""
        return self._first + len(self._records)

    def add(self, t: BtfType) -> int:
        """Append a type and return its number. Raises BtfError where it says more than fits."""
        self._records.append(pack(t, self.string))
        return len(self) - 1

    def reserve(self) -> int:
        """Return a number for a type that is put later, as others refer to it before."""
        self._records.append(())
        return len(self) - 1

    def put(self, number: int, t: BtfType) -> None:
        """Say what a type is that was reserved, or is to be another; raises as ``add``."""
        if not self._first <= number < len(self):
            raise BtfError(f"type {number} is none of {self._first} to {len(self) - 1}")
        self._records[number - self._first] = pack(t, self.string)

    def string(self, text: str) -> int:
        """Return the offset of a string, which is written once."""
        if text not in self._strings:
            self._strings[text] = self._end
            self._texts.append(text.encode() + b"\0")
            self._end += len(self._texts[-1])
        return self._strings[text]

    def blob(self) -> bytes:
        """Return the bytes of all that was added; raises BtfError for a number without a type."""
        if () in self._records:
            raise BtfError(f"type {self._first + self._records.index(())} was reserved and not put")
        words = (word for record in self._records for word in record)
        return blob.pack(words, b"".join(self._texts), self._byteorder)
