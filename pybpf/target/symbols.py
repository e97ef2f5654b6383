"""The kernel's symbol table: the text of ``/proc/kallsyms`` in, names and addresses out."""

from __future__ import annotations

import re
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress, islice, repeat
from operator import eq, itemgetter, ne

from pybpf.errors import TargetError
from pybpf.target.target import Target

_REACH = 1 << 20
"""No function is larger. Beyond the last symbol of the text, or between modules, is no symbol."""


class SymbolTable:
    """Text symbols, sorted by address; symbols that share an address keep the order given.

    A symbol of a module is called ``name [module]``, as in kallsyms. There are 100,000 and more, so
    whatever looks at all of them leaves the loop to C.
    """

    __slots__ = ("_addresses", "_last", "_names", "_several")

    def __init__(self, symbols: Iterable[tuple[int, str]] = ()) -> None:
        rows = sorted(symbols, key=lambda row: row[0])
        self._addresses = [address for address, _ in rows]
        self._names = [name for _, name in rows]
        self._last: dict[str, int] = {}
        self._several: dict[str, tuple[int, ...]] = {}

    @classmethod
    def of_sorted(cls, addresses: list[int], names: list[str]) -> SymbolTable:
        """Return the table of symbols whose addresses are sorted already."""
        table = cls()
        table._addresses, table._names = addresses, names
        return table

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yield (address, name) pairs, sorted by address."""
        return zip(self._addresses, self._names, strict=True)

    def resolve(self, address: int) -> tuple[str, int] | None:
        """Return the (symbol, offset) an address lies in, or None.

        Of symbols that share their address it is the first, the one the kernel prints.
        """
        last = bisect_right(self._addresses, address) - 1
        if last < 0 or address - self._addresses[last] >= _REACH:
            return None
        start = self._addresses[last]
        return self._names[bisect_left(self._addresses, start)], address - start

    def addresses(self, name: str) -> Sequence[int]:
        """Return every address of the symbol called ``name``, with or without its module."""
        if not self._last:
            self._index()
        if name in self._several:
            return self._several[name]
        return (self._last[name],) if name in self._last else ()

    def _index(self) -> None:
        """Note the last address of each name, and all addresses of the few that have several."""
        names, addresses = self._names, self._addresses
        last = dict(zip(names, addresses, strict=True))
        earlier = map(ne, map(last.__getitem__, names), addresses)
        several: dict[str, tuple[int, ...]] = {}
        for address, name in compress(self, earlier):
            several[name] = (*several.get(name, ()), address)
        for name in several:
            several[name] += (last[name],)
        for address, name in compress(self, map(str.endswith, names, repeat("]"))):
            bare = name.partition(" ")[0]
            known = several.get(bare, (last[bare],) if bare in last else ())
            several[bare] = tuple(sorted((*known, address)))
        self._last, self._several = last, several

    def synonyms(self) -> Iterator[tuple[str, ...]]:
        """Yield the names that share an address, for each address that has more than one."""
        all_of = self._addresses
        shared = dict.fromkeys(compress(all_of, map(eq, all_of, islice(all_of, 1, None))))
        for address in shared:
            first, end = (
                bisect_left(self._addresses, address),
                bisect_right(self._addresses, address),
            )
            yield tuple(self._names[first:end])


# line: address ' ' kind ' ' name ['\t[' module ']']; kinds t, T, w and W are in text sections. All
# addresses of a file have as many digits: their order as text is that of the numbers.
def parse_kallsyms(text: str) -> SymbolTable:
    """Return the text symbols of kallsyms; all addresses are 0 where the kernel hides them."""
    digits = max(text.find(" "), 1)
    text = text.replace("\t", " ")
    lines = re.findall(rf"^[0-9a-f]{{{digits}}} [tTwW] .+$", text, re.MULTILINE)
    address = itemgetter(slice(digits))
    lines.sort(key=address)
    name = itemgetter(slice(digits + 3, None))
    return SymbolTable.of_sorted(hex_numbers(map(address, lines)), list(map(name, lines)))


def hex_numbers(numbers: Iterable[str]) -> list[int]:
    """Return the values of hexadecimal numbers of up to 64 bits."""
    values = array("Q", bytes.fromhex("".join(map(str.zfill, numbers, repeat(16)))))
    if sys.byteorder == "little":
        values.byteswap()
    return values.tolist()


class LazySymbols:
    """The symbols of a target, read when the first address is resolved; none where it lacks them.

    ``missing`` is called, once, with the reason why there are none.
    """

    def __init__(
        self, target: Target, missing: Callable[[TargetError], object] = lambda _: None
    ) -> None:
        self._target = target
        self._missing = missing
        self._absent = False

    def resolve(self, address: int) -> tuple[str, int] | None:
        """Return the (symbol, offset) an address lies in, or None."""
        if self._absent:
            return None
        try:
            return self._target.symbols.resolve(address)
        except TargetError as error:
            self._absent = True
            self._missing(error)
            return None

    def addresses(self, name: str) -> Sequence[int]:
        """Return every address of a symbol; raises TargetError where there are no symbols."""
        return self._target.symbols.addresses(name)
