"""Remember texts: a function of values in; a fast function of them out, where they repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybpf.types import size_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybpf.rows import Value
    from pybpf.types import Type

_ROOM = 1 << 16


class _Memo(dict["Value", str]):
    """Texts by value. Looking one up that is known runs no Python code."""

    __slots__ = ("_limit", "_make")

    def __init__(self, make: Callable[[Value], str], limit: int) -> None:
        super().__init__()
        self._make = make
        self._limit = limit

    def __missing__(self, value: Value) -> str:
        text = self._make(value)
        if len(self) >= self._limit:
            self.clear()
        self[value] = text
        return text


def remember(make: Callable[[Value], str], t: Type) -> Callable[[Value], str]:
    """Return a function that does the same for values of a type, and keeps some of the texts.

    What is kept are at most 64 KiB of values: 4096 of the names of commands.
    """
    return _Memo(make, _ROOM // max(16, size_of(t))).__getitem__
