"""Text of records as the kernel prints them: a format's ``print fmt`` in, a function of bytes out.

Where a ``print fmt`` needs what its text does not tell (a macro, a name of an enum), the fields are
printed as ``name=value`` pairs, and ``Printer.reason`` says why.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pybpf.errors import EventError
from pybpf.events.ftrace.cexpr import Call, Expr, Unprintable, parse_print_fmt
from pybpf.events.ftrace.compiled import Address, Compiled, Inside, Integer, Run, Text
from pybpf.events.ftrace.expressions import Compiler, Constants
from pybpf.events.ftrace.pointers import bitmap_list, hexadecimal, shown
from pybpf.events.ftrace.record import Decoder, letter_of
from pybpf.isa.insn import ByteOrder
from pybpf.tracefs.format import EventFormat
from pybpf.types import ULONG, Int

Symbols = Callable[[int], str | None]
"""The text of a kernel address as ``%pS`` shows it, ``name+0x2/0x10 [module]``; None if none."""

_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?"
    r"(?P<length>hh|h|ll|l|L|z|Z|j|t)?(?:(?P<letter>[diouxXcs%])|p(?P<pointer>[A-Za-z0-9]*))"
)
_QUOTED = ('="', '{"', ',"')
_WIDEST = 4096
"""The widest that a record may ask to be printed."""
_SIZES = {"hh": 1, "h": 2, None: 4}
_OFFSET = re.compile(r"\+0x[0-9a-f]+(/0x[0-9a-f]+)?")


class Printer:
    """Prints the payloads of one event; ``reason`` says why not as the kernel does, else None.

    A pointer shown by ``%p`` is a hash in the kernel's own text: here it is what was recorded, as
    with the option ``nohash-ptr``. A symbol without ``symbols`` is its address.
    """

    __slots__ = ("_arguments", "_decoder", "_template", "format", "reason")

    def __init__(
        self,
        format_: EventFormat,
        byteorder: ByteOrder = "little",
        symbols: Symbols | None = None,
        constants: Constants | None = None,
    ) -> None:
        self.format = format_
        self.reason: str | None = None
        self._decoder = Decoder(format_, byteorder)
        try:
            maker = _Template(Compiler(format_, byteorder, constants), symbols)
            self._template, arguments = maker.make(
                *parse_print_fmt(_with_symbols(format_.print_fmt))
            )
            self._arguments = _together(arguments, "<" if byteorder == "little" else ">")
        except Unprintable as error:
            self.reason = str(error)

    def __call__(self, payload: bytes) -> str:
        """Return the text, without the event's name. Raises EventError for a cut off payload."""
        if len(payload) < self._decoder.size:
            raise EventError(
                f"{self.format.name}: {len(payload)} bytes where {self._decoder.size} are expected"
            )
        if self.reason is None:
            try:
                return self._template % self._arguments(payload)
            except Unprintable:
                pass
            except (struct.error, IndexError, ValueError, OverflowError):
                raise EventError(f"{self.format.name}: the record does not hold its data") from None
        return self.pairs(payload)

    def pairs(self, payload: bytes) -> str:
        """Return ``name=value`` of each field of its own."""
        record = self._decoder(0, 0, payload, 0, len(payload))
        common = {field.name for field in self.format.fields if field.common}
        return " ".join(
            f"{name}={_plain(value)}"
            for name, value in record.fields().items()
            if name not in common
        )


def _with_symbols(print_fmt: str) -> str:
    """Return the print format of a probe with the symbols that the kernel prints for addresses.

    It tells return addresses in the other order than it says.
    """
    if print_fmt.startswith(('"(%lx) ', '"(%lx)"')):
        return print_fmt.replace("%lx", "%pS", 1)
    if print_fmt.startswith('"(%lx <- %lx)'):
        both = "REC->__probe_func, REC->__probe_ret_ip"
        swapped = print_fmt.replace(both, "REC->__probe_ret_ip, REC->__probe_func", 1)
        return swapped.replace("(%lx <- %lx)", "(%pS <- %ps)", 1)
    return print_fmt


def _plain(value: object) -> str:
    match value:
        case str():
            return value
        case bytes():
            return value.hex()
        case tuple():
            return "{" + ",".join(map(_plain, value)) + "}"
        case _:
            return str(value)


class Argument(NamedTuple):
    """What gives one argument of the template; an integer of a type at a fixed place, if ``at``."""

    run: Run
    type: Int = ULONG
    at: int | None = None


class _Template:
    """Turns a format of C into one of Python, and its arguments into functions."""

    def __init__(self, compiler: Compiler, symbols: Symbols | None) -> None:
        self._compiler = compiler
        self._symbols = symbols
        self._arguments: list[Argument] = []

    def make(self, text: str, args: tuple[Expr, ...]) -> tuple[str, list[Argument]]:
        rest, template, at = iter(args), "", 0
        while (place := text.find("%", at)) >= 0:
            template += text[at:place]
            match = _CONVERSION.match(text, place)
            if match is None:
                raise Unprintable(f"the conversion {text[place : place + 6]!r}")
            at = match.end()
            if match["letter"] == "%":
                template += "%%"
                continue
            # What probes print of a string is in quotes, but for one that they could not read.
            quoted = template.endswith(_QUOTED) and text.startswith('"', at)
            spec, removed = self._conversion(match, rest, quoted=quoted)
            if removed:
                template, at = template[:-1], at + 1
            template += spec
        if next(rest, None) is not None:
            raise Unprintable("an argument too many")
        return template + text[at:], self._arguments

    def _conversion(
        self, match: re.Match[str], rest: Iterator[Expr], *, quoted: bool
    ) -> tuple[str, bool]:
        """Return a conversion of Python's; whether it makes the quotes around it itself."""
        spec = "%" + match["flags"]
        width: Run | None = None
        if match["width"] == "*" and match["pointer"] is not None:
            width = self._compiler.integer(_next(rest)).run
        elif match["width"] == "*":
            spec += self._star(rest)
        else:
            spec += _bounded(match["width"] or "")
        if match["precision"] is not None:
            precision = match["precision"]
            spec += "." + (self._star(rest) if precision == "*" else _bounded(precision))
        expr = _next(rest)
        if match["pointer"] is not None:
            self._arguments.append(Argument(self._pointer(match["pointer"], width, expr)))
            return "%s" if width else f"{spec.replace('0', '')}s", False
        letter = match["letter"]
        value = self._compiler.compile(expr)
        if letter == "s":
            located = isinstance(expr, Call) and expr.name == "__get_str"
            if quoted and located and spec == "%":
                self._arguments.append(Argument(_faulty(value, self._compiler)))
                return "%s", True
            self._arguments.append(Argument(self._compiler.text(value)))
            return f"{spec}s", False
        self._arguments.append(_integer(value, letter, match["length"]))
        return spec + ("s" if letter == "c" else "d" if letter in "iu" else letter), False

    def _star(self, rest: Iterator[Expr]) -> str:
        run = self._compiler.integer(_next(rest)).run
        self._arguments.append(Argument(lambda p: max(-_WIDEST, min(run(p), _WIDEST))))
        return "*"

    def _pointer(self, extension: str, width: Run | None, expr: Expr) -> Run:
        value = self._compiler.compile(expr)
        if extension[:1] in {"S", "s", "B", "F", "f"}:
            return self._symbol(extension, value)
        if not isinstance(value, Inside):
            if extension in {"", "x", "K"} and isinstance(value, Address | Integer):
                run, digits = value.run, "x" if extension == "x" else "016x"
                return lambda payload: format(run(payload), digits)
            raise Unprintable(f"%p{extension} of memory that is not in the record")
        start, stop = value.run, value.end
        if width is not None and extension in {"bl", "b"}:
            bits = width
            return lambda p: bitmap_list(p[start(p) : start(p) + (bits(p) + 7) // 8], bits(p))
        if width is not None and (show := hexadecimal(extension)) is not None:
            count, dump = width, show
            return lambda p: dump(p[start(p) : start(p) + count(p)])
        formatted, size = shown(extension)
        if stop is None:
            return lambda p: formatted(p[start(p) : start(p) + size])
        end = stop
        return lambda p: formatted(p[start(p) : min(start(p) + size, end(p))])

    def _symbol(self, extension: str, value: Compiled) -> Run:
        if isinstance(value, Inside | Text):
            raise Unprintable("a symbol of no address")
        run, symbols = value.run, self._symbols
        bare = extension[0] in "sf"

        def name(payload: bytes) -> str:
            address = run(payload) & ((1 << 64) - 1)
            found = symbols(address) if symbols is not None else None
            if found is None:
                return f"0x{address:x}"
            return _OFFSET.sub("", found, count=1) if bare else found

        return name


def _bounded(digits: str) -> str:
    """Return a width or a precision. Raises Unprintable for one that no record has room for."""
    if len(digits) > len(str(_WIDEST)) or int(digits or "0") > _WIDEST:
        raise Unprintable(f"a width of {digits[:20]}")
    return digits


def _next(rest: Iterator[Expr]) -> Expr:
    found = next(rest, None)
    if found is None:
        raise Unprintable("too few arguments")
    return found


def _faulty(value: Compiled, compiler: Compiler) -> Run:
    """Return what gives a located string in quotes, or what probes print where they got none."""
    text = compiler.text(value)
    if not isinstance(value, Inside) or value.end is None:
        return text
    start, end = value.run, value.end
    return lambda p: f'"{text(p)}"' if end(p) > start(p) else "(fault)"


def _integer(value: Compiled, letter: str, length: str | None) -> Argument:
    """Return what gives the integer that a conversion shows."""
    if isinstance(value, Address):
        value = Integer(value.run, ULONG, value.at)
    if not isinstance(value, Integer):
        raise Unprintable(f"a pointer as %{letter}")
    run = value.run
    if letter == "c":
        return Argument(lambda p: bytes([run(p) & 0xFF]).decode("utf-8", "surrogateescape"))
    wanted = Int(_SIZES.get(length, 8), signed=letter in "di")
    have = value.type
    if have.size == wanted.size:
        # Read from the record, it is wrapped by being read as what is wanted.
        wrap = wanted.wrap
        return Argument(run if have == wanted else lambda p: wrap(run(p)), wanted, value.at)
    if have.size < wanted.size and (wanted.signed or not have.signed):
        return Argument(run, have, value.at)
    wrap = wanted.wrap
    return Argument(lambda p: wrap(run(p)))


def _together(arguments: list[Argument], order: str) -> Callable[[bytes], tuple[Any, ...]]:
    """Return what gives all arguments: those that lie in the record at a fixed place, at once."""
    direct: dict[tuple[int, Int], int] = {}
    end, code = 0, order
    for at, t in sorted({(a.at, a.type) for a in arguments if a.at is not None}, key=_place):
        if at >= end:
            direct[at, t] = len(direct)
            code += "x" * (at - end) + letter_of(t)
            end = at + t.size
    others: list[Run] = []
    indices = []
    for argument in arguments:
        place = None if argument.at is None else direct.get((argument.at, argument.type))
        if place is None:
            place = len(direct) + len(others)
            others.append(argument.run)
        indices.append(place)
    unpack = struct.Struct(code).unpack_from
    in_order = indices == list(range(len(indices)))
    if not others and in_order:
        return unpack
    if in_order:
        return lambda p: (*unpack(p), *[run(p) for run in others])
    if not direct:
        return lambda p: tuple([run(p) for run in others])

    def gather(payload: bytes) -> tuple[Any, ...]:
        found = (*unpack(payload), *[run(payload) for run in others])
        return tuple([found[index] for index in indices])

    return gather


def _place(item: tuple[int, Int]) -> tuple[int, int, bool]:
    at, t = item
    return at, t.size, t.signed
