"""What expressions of a print format are compiled to: functions of a payload, by what they give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pybpf.dataclass import dataclass
from pybpf.types import Int, Type

Run = Callable[[bytes], Any]
"""Takes a payload."""


@dataclass(frozen=True, slots=True)
class Integer:
    """Gives an int of a type; ``at`` is where it lies, if that is the same in every payload."""

    run: Run
    type: Int
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """Gives an address in the kernel; ``at`` as of an Integer."""

    run: Run
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Inside:
    """Gives the offset of a value in the payload, ``element`` being the type it points to.

    ``end`` gives where the data end, where a location says so. ``at`` is the offset, where that is
    the same in every payload.
    """

    run: Run
    element: Type
    end: Run | None = None
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """Gives a str."""

    run: Run


Compiled = Integer | Address | Inside | Text
