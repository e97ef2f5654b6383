"""The tokens of one statement to operands: registers, numbers, addresses, the targets of jumps."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from pybpf.dataclass import dataclass
from pybpf.isa.expressions import REGISTER, Number, Tokens
from pybpf.isa.lexer import Statement
from pybpf.source import Span
from pybpf.suggest import did_you_mean

_TYPE = re.compile(r"([us])(8|16|32|64)")
_NUMBERED = re.compile(r"([0-9]{1,9})([fb])")


class Register(NamedTuple):
    """A register: ``letter`` is ``r``, or ``w`` for its low half."""

    letter: str
    number: int
    span: Span

    @property
    def width(self) -> int:
        """How many bits of it are meant."""
        return 32 if self.letter == "w" else 64


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


class Outside(Enum):
    """What a name outside of a program can stand for: how it is loaded, or called."""

    MAP = "lddw_map_fd"
    DATA = "lddw_map_value"
    FUNCTION = "lddw_func"
    KSYM = "lddw"
    TYPED_KSYM = "lddw_btf_id"
    KFUNC = "call_kfunc"


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that the instructions of a program may use.

    ``labels`` and ``numbered`` (labels such as ``1:``, of which there may be many) are places in
    the program, counted in instructions; ``constants`` are numbers; ``outside`` is what a linker
    or loader puts in.
    """

    labels: Mapping[str, int]
    numbered: Mapping[str, Sequence[int]]
    constants: Mapping[str, int]
    outside: Mapping[str, Outside]

    def numbered_label(self, number: str, direction: str, index: int) -> tuple[str, int] | None:
        """Return name and place of the next label (``f``) or the last (``b``) of a number."""
        places = self.numbered.get(number, ())
        which = bisect_right(places, index) - (direction == "b")
        if not 0 <= which < len(places):
            return None
        return f".L{number}.{which}", places[which]


class Cursor(Tokens):
    """A place in the tokens of an instruction; ``index`` is which one of its program it is.

    ``place`` is the span to blame if the instruction turns out to go nowhere: its target once that
    was read. ``used`` collects the numbered labels that it refers to.
    """

    def __init__(self, statement: Statement, scope: Scope, index: int) -> None:
        super().__init__(statement, scope.constants)
        self.place = statement.span
        self.opcode = statement.opcode
        self.labels = scope.labels
        self.outside = scope.outside
        self.used: dict[str, int] = {}
        self._scope = scope
        self._index = index

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

    def at_register(self) -> bool:
        """Whether a register comes next."""
        return REGISTER.fullmatch(self.peek().text) is not None

    def imm(self, number: Number, *, patterns: bool = False, hint: str | None = None) -> int:
        """Return a number as a signed ``imm``; ``patterns`` lets 0xffffffff stand for -1."""
        if -0x80000000 <= number.value <= 0x7FFFFFFF:
            return number.value
        if patterns and 0 < number.value <= 0xFFFFFFFF:
            return number.value - (1 << 32)
        raise self.error(
            number.span, f"{number.shown} does not fit the 32 signed bits of imm", hint
        )

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

    # target = (["pc"] ("+" | "-") number | label | number ("f" | "b")) ["<" … ">"]
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
        elif numbered := _NUMBERED.fullmatch(token.text):
            place = Place(0, self._numbered(numbered[1], numbered[2]))
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

    def _numbered(self, number: str, direction: str) -> str:
        """Return the name of a label such as ``1:``, the next or the last one."""
        token = self.next()
        found = self._scope.numbered_label(number, direction, self._index)
        if found is None:
            where = "behind" if direction == "f" else "before"
            raise self.error(token, f"there is no label '{number}' {where} this instruction")
        name, place = found
        self.used[name] = place
        return name

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
