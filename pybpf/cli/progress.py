"""How far attaching has come: numbers in, a bar on the terminal out."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

_CELLS = 30
_MANY = 100
_PAUSE = 0.1


class Bar:
    """A bar on standard error, where that is a terminal; nothing is left of it after the block.

    Call it with how many functions of how many are attached. Fewer than a hundred are attached
    before anybody could read it.
    """

    def __init__(self) -> None:
        self._shown = False
        self._next = 0.0
        self._terminal = sys.stderr.isatty()

    def __call__(self, done: int, count: int) -> None:
        """Draw the bar, if the last time is a moment ago; remove it once all is done."""
        if not self._terminal or count < _MANY:
            return
        now = time.monotonic()
        if done >= count:
            self._remove()
        elif now >= self._next:
            self._next = now + _PAUSE
            self._shown = True
            bar = "#" * (done * _CELLS // count)
            print(
                f"\rattaching [{bar:{_CELLS}}] {done:,} of {count:,} functions",
                end="",
                file=sys.stderr,
                flush=True,
            )

    def _remove(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False
            self._next = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()
