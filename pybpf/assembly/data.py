"""The directives of a section of data in; its bytes and variables out.

.byte 1, 'a'   .half .short   .word .long   .quad      numbers of 1, 2, 4 and 8 bytes
.ascii "text"   .asciz .string "text"                  without and with a 0 behind
.zero 16   .space 16, 0xff   .align 8                  zeros, or other bytes
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pybpf.assembly.constants import Constants
from pybpf.assembly.unit import Data, Variable
from pybpf.isa.expressions import Tokens, unescape
from pybpf.isa.insn import ByteOrder
from pybpf.isa.lexer import Statement, Token
from pybpf.source import Span
from pybpf.types import CHAR, U8, U16, U32, U64, Array, Int, Type

_SECTION = re.compile(r"\.(data|rodata|bss)(\..+)?")
_NUMBERS: Mapping[str, Int] = {
    ".byte": U8, ".half": U16, ".short": U16, ".word": U32, ".long": U32, ".quad": U64,
}  # fmt: skip
_STRINGS = {".ascii": b"", ".asciz": b"\0", ".string": b"\0"}
_ZEROS = frozenset({".zero", ".space", ".skip"})
DATA = frozenset({*_NUMBERS, *_STRINGS, *_ZEROS, ".align"})
"""The directives that sections of data consist of."""
_LARGEST = 16 << 20


def is_data(word: str) -> bool:
    """Whether a directive begins a section of data."""
    return _SECTION.fullmatch(word) is not None


class Section:
    """A section in the making."""

    def __init__(self, name: str, constants: Constants, byteorder: ByteOrder) -> None:
        self.name = name
        self._sizes: dict[str, int] = constants.known
        self._byteorder: ByteOrder = byteorder
        self._content = bytearray()
        self._places: list[tuple[int, int, Span]] = []
        self._variables: list[Variable] = []
        self._open: list[str] = []
        self._start = 0
        self._made_of: set[Int] = set()

    def label(self, name: str) -> None:
        """Begin a variable; several that begin at one place are one under several names."""
        if len(self._content) > self._start or not self._open:
            self.finish()
        self._open.append(name)

    def finish(self) -> None:
        """End the variable, if one has begun."""
        size = len(self._content) - self._start
        unit = next(iter(self._made_of)) if len(self._made_of) == 1 else U8
        for name in self._open:
            t: Type = unit if size == unit.size else Array(unit, size // unit.size)
            self._variables.append(Variable(name, self._start, size, t))
            self._sizes[f"sizeof({name})"] = size
        self._start = len(self._content)
        self._open.clear()
        self._made_of.clear()

    def data(self) -> Data:
        """Return the section."""
        return Data(self.name, bytes(self._content), tuple(self._variables), tuple(self._places))

    def directive(self, word: Token, at: Tokens, item: Statement) -> None:
        """Append what a directive says, its name already read."""
        start = len(self._content)
        if word.text == ".align":
            self._align(at)
        elif word.text in _ZEROS:
            self._zeros(at)
        elif self.name.startswith(".bss"):
            raise at.error(word, f"{self.name} holds nothing but zeros", "write .zero, or .data")
        elif word.text in _STRINGS:
            self._strings(at, _STRINGS[word.text])
        else:
            self._numbers(at, _NUMBERS[word.text])
        self._places.append((start, len(self._content) - start, item.span))

    # numbers = number {"," number}
    def _numbers(self, at: Tokens, unit: Int) -> None:
        end = 1 << unit.bits
        while True:
            number = at.number()
            if not -(end >> 1) <= number.value < end:
                raise at.error(number.span, f"{number.shown} does not fit {unit.bits} bits")
            self._add(at, (number.value % end).to_bytes(unit.size, self._byteorder), unit)
            if not at.accept(","):
                return

    # strings = string {"," string}
    def _strings(self, at: Tokens, tail: bytes) -> None:
        while True:
            token = at.next()
            if token.kind != "string":
                raise at.expected("a string", token)
            text = unescape(token.text[1:-1])
            if text is None:
                raise at.error(token, "a backslash stands before what is no escape", "write \\\\")
            self._add(at, text + tail, CHAR)
            if not at.accept(","):
                return

    # zeros = number ["," number]
    def _zeros(self, at: Tokens) -> None:
        count = at.number()
        if not 0 <= count.value <= _LARGEST:
            raise at.error(count.span, f"{count.shown} is not from 0 to {_LARGEST} bytes")
        fill = at.unsigned(8) if at.accept(",") else 0
        if fill and self.name.startswith(".bss"):
            raise at.error(count.span, f"{self.name} holds nothing but zeros")
        self._add(at, bytes([fill]) * count.value, U8)

    def _align(self, at: Tokens) -> None:
        number = at.number()
        if number.value not in {1, 2, 4, 8, 16, 32, 64, 4096}:
            raise at.error(number.span, f"{number.shown} is no alignment", "such as 4 or 8")
        padding = bytes(-len(self._content) % number.value)
        if len(self._content) > self._start:
            self.finish()
        self._content += padding
        self._start = len(self._content)

    def _add(self, at: Tokens, data: bytes, unit: Int) -> None:
        if len(self._content) + len(data) > _LARGEST:
            raise at.error(at.peek(), f"{self.name} has more than {_LARGEST} bytes")
        self._content += data
        self._made_of.add(unit)
