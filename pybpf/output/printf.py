"""Print what a printf printed: format pieces and cells -> text.

A conversion chooses the form; the type of the value decides its width, from 32 bits on, so that
``%d`` shows an unsigned value's bits as signed and ``%u`` a signed value's as unsigned, as in C.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pybpf.output.escape import escape_text, pad
from pybpf.output.formatter import Formatter, formatter
from pybpf.output.table import table
from pybpf.output.values import Style, show, string
from pybpf.printf import FLOATS, MAX_WIDTH, SIGNED
from pybpf.rows import Cell, MapRow, Stack, Value
from pybpf.script import Conversion, Text
from pybpf.types import Int, Type, strip


def render_printf(
    pieces: Sequence[Text | Conversion], cells: Iterable[Cell | MapRow], style: Style
) -> str:
    """Return the text. A conversion without a cell is printed as it is, a cell too many is not."""
    cells = list(cells)
    made = _formatters.get(id(pieces))
    if made is None or made[0] is not pieces:
        made = pieces, _formatter(pieces, cells)
        if len(_formatters) >= _REMEMBERED:
            _formatters.clear()
        _formatters[id(pieces)] = made
    text = made[1](cells) if made[1] is not None else None
    return _in_full(pieces, cells, style) if text is None else text


# By identity: a script has few formats, each of which prints cells of the same types for ever.
_formatters: dict[int, tuple[Sequence[Text | Conversion], Formatter | None]] = {}
_REMEMBERED = 256


def _formatter(
    pieces: Sequence[Text | Conversion], cells: Sequence[Cell | MapRow]
) -> Formatter | None:
    types = [cell.type for cell in cells if isinstance(cell, Cell)]
    return formatter(pieces, types) if len(types) == len(cells) else None


def _in_full(
    pieces: Sequence[Text | Conversion], cells: Sequence[Cell | MapRow], style: Style
) -> str:
    rest = iter(cells)
    out = []
    for piece in pieces:
        if isinstance(piece, Text):
            out.append(piece.value.decode("utf-8", "backslashreplace"))
        else:
            cell = next(rest, None)
            out.append(spelled(piece) if cell is None else convert(piece, cell, style))
    return "".join(out)


def spelled(conversion: Conversion) -> str:
    """Return a conversion as it is written."""
    width = "" if conversion.width is None else conversion.width
    precision = "" if conversion.precision is None else f".{conversion.precision}"
    return f"%{conversion.flags}{width}{precision}{conversion.letter}"


def convert(conversion: Conversion, cell: Cell | MapRow, style: Style) -> str:
    """Return what a conversion makes of a cell."""
    if isinstance(cell, MapRow):
        return table(cell, style)
    letter = conversion.letter
    if letter == "v":
        return show(cell.value, cell.type, style)
    number = _number(cell.value)
    if letter == "s" or number is None:
        return _padded(_string(conversion, cell, style), conversion)
    if letter == "c":
        return _padded(escape_text(_character(number)), conversion)
    if letter == "p":
        return _padded(f"{number % 2**64:#x}" if number else "(nil)", conversion)
    if letter in FLOATS:
        return _float(number, conversion)
    return _integer(number, cell.type, conversion)


def _number(value: Value) -> int | None:
    match value:
        case int():
            return value
        case Stack(id=stack_id):
            return stack_id
        case _:
            return None


def _string(conversion: Conversion, cell: Cell, style: Style) -> str:
    if isinstance(cell.value, bytes):
        text = string(cell.value).decode("utf-8", "surrogateescape")
        return escape_text(text[: 1 if conversion.letter == "c" else conversion.precision])
    return show(cell.value, cell.type, style).strip(" ")


def _character(code: int) -> str:
    return bytes([code & 0xFF]).decode("utf-8", "surrogateescape")


def _padded(text: str, conversion: Conversion) -> str:
    return pad(text, _width(conversion), left="-" in conversion.flags)


def _width(conversion: Conversion) -> int:
    return min(conversion.width or 0, MAX_WIDTH)


def _precision(conversion: Conversion) -> int | None:
    return None if conversion.precision is None else min(conversion.precision, MAX_WIDTH)


def _integer(value: int, t: Type, conversion: Conversion) -> str:
    base = strip(t)
    size = max(4, base.size) if isinstance(base, Int) else 8
    value = Int(size, signed=conversion.letter in SIGNED).wrap(value)
    kind = conversion.letter if conversion.letter in "oxX" else "d"
    precision = _precision(conversion)
    digits = f"{abs(value):{kind}}" if value or precision != 0 else ""
    digits = digits.rjust(precision or 0, "0")
    prefix = ""
    if conversion.letter in SIGNED:
        prefix = _sign(conversion, negative=value < 0)
    elif "#" in conversion.flags and kind == "o":
        prefix = "" if digits.startswith("0") else "0"
    elif "#" in conversion.flags and kind in "xX" and value:
        prefix = f"0{kind}"
    return _assembled(prefix, digits, conversion, zeros=precision is None)


def _float(value: int, conversion: Conversion) -> str:
    letter, precision = conversion.letter, _precision(conversion)
    if letter in "aA":
        digits = _hex_float(abs(value), precision, point="#" in conversion.flags)
    else:
        alternate = "#" if "#" in conversion.flags else ""
        places = "" if precision is None else f".{precision}"
        digits = f"%{alternate}{places}{letter}" % float(abs(value))
    prefix = _sign(conversion, negative=value < 0) + ("0x" if letter in "aA" else "")
    text = _assembled(prefix, digits, conversion, zeros=True)
    return text.upper() if letter.isupper() else text


def _hex_float(value: int, precision: int | None, *, point: bool) -> str:
    lead, _, rest = float(value).hex().removeprefix("0x").partition(".")
    fraction, _, exponent = rest.partition("p")
    if precision is None:
        fraction = fraction.rstrip("0")
    elif precision >= len(fraction):
        fraction = fraction.ljust(precision, "0")
    else:
        # Round the dropped digits half to even, as the default rounding mode does.
        cut = 4 * (len(fraction) - precision)
        kept, dropped = divmod(int(lead + fraction, 16), 1 << cut)
        kept += dropped + (kept & 1) > 1 << (cut - 1)
        lead = f"{kept >> 4 * precision:x}"
        fraction = f"{kept & ((1 << 4 * precision) - 1):0{precision}x}" if precision else ""
    return f"{lead}{'.' if fraction or point else ''}{fraction}p{exponent}"


def _sign(conversion: Conversion, *, negative: bool) -> str:
    if negative:
        return "-"
    return "+" if "+" in conversion.flags else " " if " " in conversion.flags else ""


def _assembled(prefix: str, digits: str, conversion: Conversion, *, zeros: bool) -> str:
    if zeros and "0" in conversion.flags and "-" not in conversion.flags:
        digits = digits.rjust(_width(conversion) - len(prefix), "0")
    return _padded(prefix + digits, conversion)
