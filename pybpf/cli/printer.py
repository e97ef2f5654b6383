"""Print rows: to standard output as text or JSON lines, what was lost to standard error."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from pybpf.rows import LostRow, Row
from pybpf.target.symbols import LazySymbols

if TYPE_CHECKING:
    from pybpf.target.target import Target


class Printer:
    """Call it with a row."""

    def __init__(self, target: Target, *, json: bool, unbuffered: bool) -> None:
        self._json = json
        self._unbuffered = unbuffered
        self._symbols = LazySymbols(
            target, lambda error: print(f"warning: {error}", file=sys.stderr)
        )
        self._offset = time.time_ns() - time.monotonic_ns()
        self._unicode = (sys.stdout.encoding or "").lower().startswith("utf")

    def __call__(self, row: Row) -> None:
        """Print the row."""
        text = self._rendered(row)
        if isinstance(row, LostRow) and not self._json:
            sys.stdout.flush()
            sys.stderr.write(text)
            return
        sys.stdout.write(text)
        if self._unbuffered:
            sys.stdout.flush()

    def _rendered(self, row: Row) -> str:
        if self._json:
            from pybpf.output import jsonl

            return jsonl.render(row, self._symbols, walltime_offset=self._offset)
        from pybpf.output.text import render

        text = render(row, self._symbols, walltime_offset=self._offset, unicode=self._unicode)
        encoding = sys.stdout.encoding or "ascii"
        return text.encode(encoding, "backslashreplace").decode(encoding)
