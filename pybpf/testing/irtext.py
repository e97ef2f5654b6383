"""The text of an ir.Function -> the function: what ``irdump.dump_function`` prints, read back.

Lets tests of the back end show functions as text. Lines may be indented at will; the header that
names the function may be left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pybpf.compiler import ir

_OPERAND = r"(?:v\d+|ctx|-?\d+)"
_ACCESS = r"\*\((?P<kind>[su]\d+) \*\)\((?P<base>&s\d+|v\d+|ctx) (?P<offset>[+-]\d+)\)"
_BIN = r"(?:\+|-|\*|s/|/|s%|%|\||&|\^|<<|s>>|>>)"
_CMP = r"(?:s<=|s>=|s<|s>|==|!=|<=|>=|<|>|&)"


def parse_function(text: str) -> ir.Function:
    """Return the function that a text shows; raises ValueError for a line that is none of it."""
    reader = _Reader()
    for line in text.splitlines():
        if line.strip():
            reader.line(line.strip())
    return ir.Function(reader.name, tuple(reader.blocks), reader.registers)


class _Reader:
    def __init__(self) -> None:
        self.name = "test"
        self.blocks: list[ir.Block] = []
        self.registers = 1
        self._slots: dict[str, ir.Slot] = {}
        self._label = ir.Label("entry")
        self._instrs: list[ir.Instr] = []

    def line(self, line: str) -> None:
        """Take one line in."""
        for pattern, take in _LINES.items():
            match = pattern.fullmatch(line)
            if match:
                found = take(self, match.groupdict())
                if isinstance(found, ir.Goto | ir.Branch | ir.Exit):
                    self.blocks.append(ir.Block(self._label, tuple(self._instrs), found))
                    self._instrs = []
                elif found is not None:
                    self._instrs.append(ir.Instr(found))
                return
        raise ValueError(line)

    def header(self, name: str) -> None:
        """Take the function's name."""
        self.name = name

    def declare(self, slot: str, size: str, align: str) -> None:
        """Take a slot's size."""
        self._slots[slot] = ir.Slot(int(slot[1:]), int(size), int(align))

    def label(self, name: str) -> None:
        """Begin a block."""
        self._label = ir.Label(name)

    def register(self, text: str) -> ir.VReg:
        """Return the register of a name."""
        number = 0 if text == "ctx" else int(text[1:])
        self.registers = max(self.registers, number + 1)
        return ir.VReg(number)

    def operand(self, text: str) -> ir.Operand:
        """Return a register or a constant."""
        return self.register(text) if text[0] in "vc" else int(text)

    def argument(self, text: str) -> ir.Argument:
        """Return what a helper takes."""
        if text.startswith("map("):
            return ir.MapRef(text[4:-1])
        if text.startswith("&s"):
            slot, _, offset = text[1:-1].partition("[")
            return ir.SlotRef(self._slots[slot], int(offset))
        return self.operand(text)

    def access(self, kind: str, base: str, offset: str) -> tuple[ir.Base, int, int]:
        """Return base, offset and size of an access."""
        size = int(kind[1:]) // 8
        if base.startswith("&"):
            return ir.SlotRef(self._slots[base[1:]], int(offset)), 0, size
        return self.register(base), int(offset), size

    def arguments(self, text: str) -> tuple[ir.Argument, ...]:
        """Return the arguments of a call."""
        return tuple(self.argument(part) for part in text.split(", ") if part)


_Groups = Mapping[str, str]


def _width(groups: _Groups) -> int:
    return 32 if groups["half"] else 64


def _branch(reader: _Reader, g: _Groups) -> ir.Branch:
    return ir.Branch(
        ir.Cmp(g["op"]),
        reader.register(g["left"]),
        reader.operand(g["right"]),
        ir.Label(g["then"]),
        ir.Label(g["otherwise"]),
        _width(g),
    )


def _bin(reader: _Reader, g: _Groups) -> ir.Bin:
    left, right = reader.operand(g["left"]), reader.operand(g["right"])
    return ir.Bin(reader.register(g["dst"]), ir.BinOp(g["op"]), _width(g), left, right)


def _neg(reader: _Reader, g: _Groups) -> ir.Neg:
    return ir.Neg(reader.register(g["dst"]), _width(g), reader.register(g["src"]))


def _extend(reader: _Reader, g: _Groups) -> ir.Extend:
    bits, signed = int(g["bits"]), g["sign"] == "s"
    return ir.Extend(reader.register(g["dst"]), bits, signed, reader.register(g["src"]))


def _load(reader: _Reader, g: _Groups) -> ir.Load:
    base, offset, size = reader.access(g["kind"], g["base"], g["offset"])
    return ir.Load(reader.register(g["dst"]), base, offset, size, g["kind"][0] == "s")


def _store(reader: _Reader, g: _Groups) -> ir.Store:
    base, offset, size = reader.access(g["kind"], g["base"], g["offset"])
    return ir.Store(base, offset, size, reader.operand(g["src"]))


def _atomic(reader: _Reader, g: _Groups) -> ir.AtomicAdd:
    base, offset, size = reader.access(g["kind"], g["base"], g["offset"])
    return ir.AtomicAdd(base, offset, size, reader.register(g["src"]))


def _value(reader: _Reader, g: _Groups) -> ir.MapValueAddr:
    return ir.MapValueAddr(reader.register(g["dst"]), g["name"], int(g["at"]))


def _call(reader: _Reader, g: _Groups) -> ir.CallHelper:
    dst = reader.register(g["dst"]) if g["dst"] else None
    return ir.CallHelper(dst, g["helper"], reader.arguments(g["args"]))


def _copy(reader: _Reader, g: _Groups) -> ir.Copy:
    return ir.Copy(reader.register(g["dst"]), reader.argument(g["src"]))


_Take = Callable[[_Reader, _Groups], ir.Op | ir.Terminator | None]
_CONDITION = rf"(?P<half>u32 )?(?P<left>v\d+|ctx) (?P<op>{_CMP}) (?P<right>{_OPERAND})"
_DST = r"(?P<dst>v\d+|ctx) = "
_LINES: Mapping[re.Pattern[str], _Take] = {
    re.compile(pattern): take
    for pattern, take in (
        (r"function (?P<name>.*)", lambda r, g: r.header(**g)),
        (
            r"(?P<slot>s\d+): (?P<size>\d+) bytes, aligned to (?P<align>\d+)",
            lambda r, g: r.declare(**g),
        ),
        (r"(?P<name>\S+):", lambda r, g: r.label(**g)),
        (r"# (?P<text>.*)", lambda _, g: ir.Comment(g["text"])),
        (r"goto (?P<target>\S+)", lambda _, g: ir.Goto(ir.Label(g["target"]))),
        (r"exit (?P<value>-?\d+)", lambda _, g: ir.Exit(int(g["value"]))),
        (rf"if {_CONDITION} goto (?P<then>\S+) else (?P<otherwise>\S+)", _branch),
        (rf"lock {_ACCESS} \+= (?P<src>v\d+)", _atomic),
        (rf"{_ACCESS} = (?P<src>{_OPERAND})", _store),
        (rf"{_DST}{_ACCESS}", _load),
        (rf"{_DST}\((?P<sign>[su])(?P<bits>\d+)\) (?P<src>v\d+|ctx)", _extend),
        (rf"{_DST}(?P<half>u32 )?-(?P<src>v\d+)", _neg),
        (
            rf"{_DST}(?P<half>u32 )?(?P<left>{_OPERAND}) (?P<op>{_BIN}) (?P<right>{_OPERAND})",
            _bin,
        ),
        (rf"{_DST}&value\((?P<name>\S+)\)\[(?P<at>\d+)\]", _value),
        (rf"(?:{_DST})?(?P<helper>bpf_\w+)\((?P<args>.*)\)", _call),
        (rf"{_DST}(?P<src>{_OPERAND}|&s\d+\[\d+\]|map\(\S+\))", _copy),
    )
}
