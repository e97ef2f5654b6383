"""Print rows, or blocks: to standard output as text or JSON lines; losses to standard error."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from pybpf.rows import Block, LostRow, Row
from pybpf.target.symbols import LazySymbols

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pybpf.script import EventSchema
    from pybpf.target.target import Target


class Printer:
    """Call it with a row, or a block of rows of the script that has ``events``."""

    def __init__(
        self,
        target: Target,
        *,
        json: bool,
        unbuffered: bool,
        events: Sequence[EventSchema] = (),
    ) -> None:
        symbols = LazySymbols(target, lambda error: print(f"warning: {error}", file=sys.stderr))
        # What the kernel's monotonic clock is behind the time of day.
        offset = time.time_ns() - time.monotonic_ns()
        self._encoding = sys.stdout.encoding or "ascii"
        self._unicode = self._encoding.lower().startswith("utf")
        self._json = json
        self._unbuffered = unbuffered
        self._events = events
        self._symbols, self._offset = symbols, offset
        self._render_block: Callable[[Block], str] | None = None
        self._render: Callable[[Row], str]
        if json:
            from pybpf.output import jsonl

            self._render = partial(jsonl.render, symbols=symbols, walltime_offset=offset)
        else:
            from pybpf.output import text

            self._render = partial(
                text.render, symbols=symbols, walltime_offset=offset, unicode=self._unicode
            )

    def __call__(self, row: Row | Block) -> None:
        """Print the row, or all rows of the block at once."""
        text = self._block(row) if isinstance(row, Block) else self._render(row)
        if not self._unicode:
            text = text.encode(self._encoding, "backslashreplace").decode(self._encoding)
        if isinstance(row, LostRow) and not self._json:
            sys.stdout.flush()
            sys.stderr.write(text)
            return
        sys.stdout.write(text)
        if self._unbuffered:
            sys.stdout.flush()

    def _block(self, block: Block) -> str:
        if self._render_block is None:
            from pybpf.output.columns import BlockRenderer, text_form
            from pybpf.output.values import Style

            form = text_form
            if self._json:
                from pybpf.output.jsonl import form
            style = Style(self._symbols, self._offset, self._unicode)
            self._render_block = BlockRenderer(self._events, partial(form, style=style))
        return self._render_block(block)
