"""The kernel's symbol table: the text of ``/proc/kallsyms`` in, names and addresses out."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from pybpf.errors import TargetError
from pybpf.target.target import Target

_REACH = 1 << 20
"""No function is larger. Beyond the last symbol of the text, or between modules, is no symbol."""


class SymbolTable:
    """Text symbols, sorted by address; symbols that share an address keep the order given.

    A symbol of a module is called ``name [module]``, as in kallsyms.
    """

    __slots__ = ("_addresses", "_by_name", "_names")

    def __init__(self, symbols: Iterable[tuple[int, str]] = ()) -> None:
        rows = sorted(symbols, key=lambda row: row[0])
        self._addresses = [address for address, _ in rows]
        self._names = [name for _, name in rows]
        self._by_name: dict[str, tuple[int, ...]] | None = None

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
        if self._by_name is None:
            self._by_name = self._index()
        return self._by_name.get(name, ())

    def _index(self) -> dict[str, tuple[int, ...]]:
        """Return the addresses by name. There are 100,000 names, few of them of several symbols."""
        index: dict[str, tuple[int, ...]] = dict(
            zip(self._names, zip(self._addresses), strict=True)
        )
        if len(index) < len(self._names):
            several = {name for name, count in Counter(self._names).items() if count > 1}
            index |= dict.fromkeys(several, ())
            for address, name in self:
                if name in several:
                    index[name] += (address,)
        for address, name in self:
            if name.endswith("]"):
                bare = name.partition(" ")[0]
                index[bare] = tuple(sorted((*index.get(bare, ()), address)))
        return index

    def synonyms(self) -> Iterator[tuple[str, ...]]:
        """Yield the names that share an address, for each address that has more than one."""
        shared = dict.fromkeys(a for a, b in pairwise(self._addresses) if a == b)
        for address in shared:
            first, end = (
                bisect_left(self._addresses, address),
                bisect_right(self._addresses, address),
            )
            yield tuple(self._names[first:end])


# line: address ' ' kind ' ' name ['\t[' module ']']; kinds t, T, w and W are in text sections.
_TEXT_SYMBOL = re.compile(r"^([0-9a-f]+) [tTwW] (.+)$", re.MULTILINE)


def parse_kallsyms(text: str) -> SymbolTable:
    """Return the text symbols of kallsyms; all addresses are 0 where the kernel hides them."""
    return SymbolTable(
        (int(address, 16), name.replace("\t", " ")) for address, name in _TEXT_SYMBOL.findall(text)
    )


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
