"""Where a piece of input came from: source texts and spans within them."""

from __future__ import annotations

from bisect import bisect_right

from pybpf.dataclass import dataclass, field


@dataclass(frozen=True, slots=True)
class Source:
    """A named text. ``name`` is a file name, or ``<script>`` for text given on a command line."""

    name: str
    text: str = field(repr=False)
    _starts: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts = [0]
        starts.extend(i + 1 for i, ch in enumerate(self.text) if ch == "\n")
        object.__setattr__(self, "_starts", tuple(starts))

    def position(self, offset: int) -> tuple[int, int]:
        """Return the (line, column) of a character offset; both count from 1."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Return line ``number`` (from 1) without its line end."""
        start = self._starts[number - 1]
        end = self._starts[number] - 1 if number < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r")


@dataclass(frozen=True, slots=True)
class Span:
    """The characters ``start`` (included) to ``end`` (excluded) of a source."""

    source: Source
    start: int
    end: int

    @property
    def text(self) -> str:
        """The characters the span covers."""
        return self.source.text[self.start : self.end]

    @property
    def line(self) -> int:
        """The line the span starts in, from 1."""
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        """The column the span starts in, from 1."""
        return self.source.position(self.start)[1]

    def to(self, other: Span) -> Span:
        """Return the span from the start of this one to the end of ``other``."""
        return Span(self.source, self.start, max(self.end, other.end))
