"""The tokens of one statement to operands: registers, numbers, addresses, the targets of jumps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from pybpf.errors import AssemblyError, Diagnostic
from pybpf.isa.lexer import Statement, Token
from pybpf.source import Span
from pybpf.suggest import did_you_mean

REGISTER = re.compile(r"([rw])([0-9]+)")
_TYPE = re.compile(r"([us])(8|16|32|64)")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|0|[1-9][0-9]*")


class Register(NamedTuple):
    """A register: ``letter`` is ``r``, or ``w`` for its low half."""

    letter: str
    number: int
    span: Span

    @property
    def width(self) -> int:
        """How many bits of it are meant."""
        return 32 if self.letter == "w" else 64


class Number(NamedTuple):
    """A number of at most 64 bits and how it was written."""

    value: int
    hexadecimal: bool
    span: Span


class MemoryType(NamedTuple):
    """What memory holds: ``sign`` is ``u`` or ``s``, ``width`` counts bits."""

    sign: str
    width: int
    span: Span

    @property
    def letters(self) -> str:
        """How the register that is loaded or stored may begin."""
        return "r" if self.width == 64 or self.sign == "s" else "rw"


class Place(NamedTuple):
    """Where a jump goes: a label, or a distance in slots."""

    distance: int
    symbol: str | None


class Cursor:
    """A place in the tokens of a statement, which every method moves behind what it returns.

    Every method raises AssemblyError where the tokens are something else. ``place`` is the span to
    blame if the instruction turns out to go nowhere: its target once that was read.
    """

    def __init__(self, statement: Statement, labels: Mapping[str, int]) -> None:
        self.place = statement.span
        self.opcode = statement.opcode
        self.labels = labels
        self._source = statement.span.source
        self._tokens = statement.tokens
        self._position = 0

    def peek(self, ahead: int = 0) -> Token:
        """Return a token to come without moving."""
        return self._tokens[min(self._position + ahead, len(self._tokens) - 1)]

    def next(self) -> Token:
        """Return the token at the cursor."""
        token = self.peek()
        self._position += 1
        return token

    def accept(self, text: str) -> bool:
        """Move over a token if it is next; return whether it was."""
        if self.peek().text == text:
            self._position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Move over a token that must be next."""
        if not self.accept(text):
            raise self.expected(f"'{text}'", self.peek())

    def span(self, token: Token) -> Span:
        """Return where a token stands."""
        return Span(self._source, token.start, token.end)

    def error(self, at: Token | Span, message: str, hint: str | None = None) -> AssemblyError:
        """Return the error about a token or a span."""
        span = self.span(at) if isinstance(at, Token) else at
        return AssemblyError(Diagnostic(message, span, (hint,) if hint else ()))

    def expected(self, what: str, token: Token) -> AssemblyError:
        """Return the error about a token that is not what belongs there."""
        found = "the end of the line" if token.kind == "end" else f"'{token.text}'"
        return self.error(token, f"expected {what}, found {found}")

    # register = ("r" | "w") 0…10
    def register(self, letters: str) -> Register:
        """Return a register that may begin with any of ``letters``."""
        token = self.next()
        found = REGISTER.fullmatch(token.text)
        if found is None:
            raise self.expected("a register", token)
        # More digits would be slow to convert, and there is no such register anyway.
        register = Register(found[1], int(found[2][:4]), self.span(token))
        if register.number > 10:
            last = f"{register.letter}10"
            raise self.error(token, f"there is no register {token.text}", f"the last one is {last}")
        self.want_letter(register, letters)
        return register

    def want_letter(self, register: Register, letters: str) -> None:
        """Check that a register is written with one of ``letters``."""
        if register.letter not in letters:
            right = f"{letters}{register.number}"
            raise self.error(
                register.span, f"{register.span.text} does not fit here", f"write {right}"
            )

    def same_register(self, register: Register) -> None:
        """Move over a register that must be the same as an earlier one."""
        other = self.register("rw")
        if other[:2] != register[:2]:
            raise self.error(
                other.span, f"the operand and the result must both be {register.span.text}"
            )

    # number = ["+" | "-"] (decimal | hexadecimal)
    def number(self) -> Number:
        """Return a number from -2**63 to 2**64 - 1."""
        sign = self.next() if self.peek().text in {"+", "-"} else None
        token = self.next()
        if token.kind != "number":
            raise self.expected("a number", token)
        span = Span(self._source, (sign or token).start, token.end)
        if not _NUMBER.fullmatch(token.text):
            raise self.error(token, f"{token.text!r} is no number", "write it as 42 or 0x2a")
        hexadecimal = token.text[:2] in {"0x", "0X"}
        # More digits than 64 bits have would be slow to convert, and are refused anyway.
        value = int(token.text, 0) if len(token.text) <= 20 else 1 << 64
        if sign is not None and sign.text == "-":
            value = -value
        if not -(1 << 63) <= value < 1 << 64:
            raise self.error(span, f"{span.text} does not fit 64 bits")
        return Number(value, hexadecimal, span)

    def imm(self, number: Number, *, patterns: bool = False, hint: str | None = None) -> int:
        """Return a number as a signed ``imm``; ``patterns`` lets 0xffffffff stand for -1."""
        if -0x80000000 <= number.value <= 0x7FFFFFFF:
            return number.value
        if patterns and 0 < number.value <= 0xFFFFFFFF:
            return number.value - (1 << 32)
        raise self.error(
            number.span, f"{number.span.text} does not fit the 32 signed bits of imm", hint
        )

    def unsigned(self, bits: int) -> int:
        """Return a number that is not negative and fits ``bits``."""
        number = self.number()
        if not 0 <= number.value < 1 << bits:
            raise self.error(number.span, f"{number.span.text} is not from 0 to {(1 << bits) - 1}")
        return number.value

    # type = ("u" | "s") ("8" | "16" | "32" | "64")
    def type_name(self) -> MemoryType:
        """Return the type of a load, a store or a sign extension."""
        token = self.next()
        found = _TYPE.fullmatch(token.text)
        if found is None:
            if token.kind != "word":
                raise self.expected("a type", token)
            raise self.error(
                token, f"there is no type {token.text!r}", "types are u8 to u64, s8 to s32"
            )
        return MemoryType(found[1], int(found[2]), self.span(token))

    # pointer = "(" type "*" ")"
    def pointer(self, *, signed: bool = False, smallest: int = 8) -> MemoryType:
        """Return the type that a cast in front of an address names.

        It must be unsigned unless ``signed``, and have at least ``smallest`` bits.
        """
        self.expect("(")
        found = self.type_name()
        if found.sign == "s" and not signed:
            hint = f"write u{max(found.width, smallest)}"
            raise self.error(found.span, f"only loads are of {found.span.text}", hint)
        if found.width < smallest:
            hint = "write u64" if smallest == 64 else "write u32 or u64"
            raise self.error(found.span, f"this atomic operation is not on {found.span.text}", hint)
        self.expect("*")
        self.expect(")")
        return found

    # address = register [("+" | "-") number]
    def address(self) -> tuple[int, int]:
        """Return register and ``off``."""
        base = self.register("r")
        if self.peek().text not in {"+", "-"}:
            return base.number, 0
        number = self.number()
        return base.number, self._fitting(number, 16, "an offset")

    # access = "(" address ")"
    def access(self) -> tuple[int, int]:
        """Return register and ``off`` of an address in parentheses."""
        self.expect("(")
        found = self.address()
        self.expect(")")
        return found

    # target = (["pc"] ("+" | "-") number | label) ["<" … ">"]
    def target(self, bits: int) -> Place:
        """Return where a jump goes whose distance has so many bits."""
        token = self.next() if self.peek().text == "pc" else self.peek()
        self.place = self.span(token)
        if self.peek().text in {"+", "-"}:
            number = self.number()
            self.place = number.span
            place = Place(self._fitting(number, bits, "a distance"), None)
        elif token.kind == "word" and token.text != "pc":
            place = Place(0, self.label())
        elif token.kind == "number":
            hint = f"a distance has a sign: +{token.text}"
            raise self.error(token, f"{token.text} is no target of a jump", hint)
        else:
            raise self.expected("a label or a distance such as +3", self.peek())
        if self.accept("<"):
            while self.peek().kind != "end" and self.next().text != ">":
                pass
        return place

    def label(self) -> str:
        """Return the name of a label that the text defines."""
        token = self.next()
        if token.kind != "word":
            raise self.expected("a label", token)
        self.place = self.span(token)
        if token.text not in self.labels:
            near = did_you_mean(token.text, self.labels)
            raise self.error(token, f"there is no label '{token.text}'{near}")
        return token.text

    def name(self) -> str:
        """Return the name of something that is no part of the text, such as a map."""
        token = self.next()
        if token.kind != "word":
            raise self.expected("a name", token)
        return token.text

    def _fitting(self, number: Number, bits: int, what: str) -> int:
        end = 1 << bits - 1
        if not -end <= number.value < end:
            raise self.error(number.span, f"{what} is from {-end} to {end - 1}")
        return number.value
