"""Render blocks: the columns of many prints and printfs in, the text of all of them out.

What an event prints is made ready once, as a template for ``%`` and a converter for each column:
numbers mostly go into the template as they are, and texts that repeat are remembered, so that for
most columns no Python code runs for a single value. All else is converted value by value by the
very functions that render rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from pybpf.dataclass import dataclass
from pybpf.output.formatter import literal, plain_integer, plain_string
from pybpf.output.memo import remember
from pybpf.output.printf import convert, spelled
from pybpf.output.values import Style, show
from pybpf.rows import Block, Cell, Value
from pybpf.script import ConstArg, Conversion, EventKind, EventSchema, FieldArg, Text
from pybpf.types import Int, Ptr, Show, Type, is_string, show_of, strip

Converter = Callable[[Sequence[Value]], Iterable[object]]
"""Makes of a column what goes into the template."""

# As pybpf.output.values prints these numbers.
_NUMBERS = {
    Show.PLAIN: "%d",
    Show.BYTES: "%d",
    Show.PID: "%5d",
    Show.UID: "%4d",
    Show.CPU: "%2d",
}


@dataclass(frozen=True, slots=True)
class Form:
    """How an event is printed. ``finish`` has the last word on the texts of its rows."""

    template: str
    converters: tuple[Converter, ...]
    finish: Callable[[Iterable[str]], Iterable[str]] = iter


class BlockRenderer:
    """Call it with a block of the script's that has these events; it returns the text.

    ``make`` makes the form of an event, when it is first printed.
    """

    def __init__(self, events: Sequence[EventSchema], make: Callable[[EventSchema], Form]) -> None:
        self._events = events
        self._make = make
        self._forms: dict[int, Form] = {}

    def __call__(self, block: Block) -> str:
        """Return the text of all rows, in their order, with their line ends. Never raises."""
        texts = {
            number: self._texts(number, block.events, columns)
            for number, columns in block.columns.items()
        }
        if len(texts) == 1:
            return "".join(*texts.values())
        return "".join(map(next, map(texts.__getitem__, block.events)))

    def _texts(
        self, number: int, events: Sequence[int], columns: tuple[Sequence[Value], ...]
    ) -> Iterator[str]:
        form = self._forms.get(number)
        if form is None:
            form = self._forms[number] = self._make(self._events[number])
        texts: Iterable[str]
        if form.converters:
            converted = [f(column) for f, column in zip(form.converters, columns, strict=False)]
            texts = map(form.template.__mod__, zip(*converted, strict=True))
        else:
            texts = [form.template % ()] * events.count(number)
        return iter(form.finish(texts))


def text_form(schema: EventSchema, style: Style) -> Form:
    """Return how an event is printed in ply's layout."""
    types = argument_types(schema)
    if schema.kind is EventKind.PRINTF:
        return _printf(schema.format, types, style)
    cells = [_shown(t, style) for t in types]
    return Form(", ".join(spec for spec, _ in cells) + "\n", tuple(f for _, f in cells))


def argument_types(schema: EventSchema) -> list[Type]:
    """Return the types of an event's arguments, none of which is a map."""
    fields = {field.name: field.type for field in schema.payload.fields}
    types = []
    for arg in schema.args:
        if isinstance(arg, FieldArg):
            types.append(fields[arg.field])
        elif isinstance(arg, ConstArg):
            types.append(arg.type)
    return types


def same(column: Sequence[Value]) -> Sequence[Value]:
    """Leave a column as it is."""
    return column


def each(make: Callable[[Value], str], t: Type) -> Converter:
    """Return what converts values of a type one by one, and remembers the texts that repeat."""
    return partial(map, remember(make, t) if _repeats(t) else make)


def _repeats(t: Type) -> bool:
    number = isinstance(strip(t), Int | Ptr)
    return is_string(t) or (number and show_of(t) in {Show.SYMBOL, Show.HEX})


def _wrapped(shown: Int) -> Converter:
    lowest = -(1 << (shown.bits - 1)) if shown.signed else 0
    highest = lowest + (1 << shown.bits) - 1

    def wrap(column: Sequence[int]) -> Iterable[int]:
        # Most numbers are small, which min() and max() find out faster than any is wrapped.
        if lowest <= min(column) and max(column) <= highest:
            return column
        return map(shown.wrap, column)

    return wrap  # type: ignore[return-value]


def _shown(t: Type, style: Style) -> tuple[str, Converter]:
    base, kind = strip(t), show_of(t)
    if isinstance(base, Int) and kind in _NUMBERS:
        return _NUMBERS[kind], same
    if isinstance(base, Ptr) and kind in {Show.PLAIN, Show.BYTES}:
        return "<%x>", _wrapped(Int(8, signed=False))
    return "%s", each(partial(show, t=t, style=style), t)


def _printf(pieces: Sequence[Text | Conversion], types: Iterable[Type], style: Style) -> Form:
    template = ""
    converters: list[Converter] = []
    rest = iter(types)
    for piece in pieces:
        if isinstance(piece, Text):
            template += literal(piece)
        elif (t := next(rest, None)) is None:
            template += spelled(piece).replace("%", "%%")
        else:
            spec, converter = _conversion(piece, t, style)
            template += spec
            converters.append(converter)
    return Form(template, tuple(converters))


def _conversion(conversion: Conversion, t: Type, style: Style) -> tuple[str, Converter]:
    if string := plain_string(conversion, t):
        return "%s", partial(map, string)
    if integer := plain_integer(conversion, t):
        spec, shown = integer
        return spec, _wrapped(shown)
    if conversion.letter == "v":
        return _shown(t, style)
    return "%s", each(lambda value: convert(conversion, Cell(value, t), style), t)
