"""A Unit in, a table of its bytes beside the text that they come from out.

    xdp: pass
       slot  bytes                    line  text
          0  b7 00 00 00 02 00 00 00     4  r0 = XDP_PASS

Instructions are numbered by slots, as jumps count them; data by bytes. What a linker or loader
fills in is as relocations expect it, with the name of what it will be behind ``->``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pybpf.assembly.unit import TEXT, Data, Function, Unit
from pybpf.isa.abi import MapType, name_of
from pybpf.isa.assembler import placeholders
from pybpf.isa.encoding import encode
from pybpf.isa.layout import slot_offsets
from pybpf.objfile.sections import parse
from pybpf.source import Span

_SLOT = 8
_NUMBERED = re.compile(r"\.L([0-9]+)\.[0-9]+")
_ROWS_AT_MOST = 64
"""How many rows of a single directive are shown."""


def listing(unit: Unit) -> Iterator[str]:
    """Yield the lines of a listing, without line ends."""
    for function in unit.functions:
        yield from _function(unit, function)
    for data in unit.data:
        yield from _data(data)
    yield from _symbols(unit)


def _function(unit: Unit, function: Function) -> Iterator[str]:
    if not function.program.insns:
        return
    yield f"{function.section}: {function.name}" if function.section else "program"
    yield _row("slot", "bytes", "line", "text")
    program = function.program
    code = encode(placeholders(program, unit.symbols), unit.byteorder)
    labels: dict[int, list[str]] = {}
    for name, index in program.labels.items():
        labels.setdefault(index, []).append(name)
    rows = zip(slot_offsets(program), program.insns, program.spans, strict=False)
    for index, (slot, insn, span) in enumerate(rows):
        yield from map(_label, labels.get(index, ()))
        refers = f"  -> {insn.symbol}" if insn.symbol in unit.symbols else ""
        line, text = _place(span)
        for extra in range(insn.op.slots):
            at = (slot + extra) * _SLOT
            shown = code[at : at + _SLOT].hex(" ")
            if extra:
                yield _row(str(slot + extra), shown)
            else:
                yield _row(str(slot), shown, line, text + refers)
    yield ""


def _data(data: Data) -> Iterator[str]:
    yield f"{data.section}: {len(data.content)} bytes"
    yield _row("byte", "bytes", "line", "text")
    starts: dict[int, list[str]] = {}
    for variable in data.variables:
        starts.setdefault(variable.offset, []).append(variable.name)
    for offset, size, span in data.places:
        yield from map(_label, starts.pop(offset, ()))
        line, text = _place(span)
        rows = range(offset, offset + size, _SLOT)
        for at in rows[:_ROWS_AT_MOST]:
            shown = data.content[at : min(at + _SLOT, offset + size)].hex(" ")
            yield _row(str(at), shown, line, text)
            line = text = ""
        if len(rows) > _ROWS_AT_MOST:
            yield _row("", f"… {size} bytes")
    yield ""


def _label(name: str) -> str:
    """Return the line of a label; one such as ``1:`` has a longer name in the program."""
    numbered = _NUMBERED.fullmatch(name)
    return f"{'':40}{numbered[1] if numbered else name}:"


def _place(span: Span | None) -> tuple[str, str]:
    if span is None:
        return "", ""
    return str(span.line), " ".join(span.text.split())


def _row(place: str, data: str, line: str = "", text: str = "") -> str:
    return f"{place:>7}  {data:<23} {line:>5}  {text}".rstrip()


def _symbols(unit: Unit) -> Iterator[str]:
    rows = [*_names(unit)]
    if not rows:
        return
    yield "symbols"
    width = max(len(name) for name, _ in rows)
    for name, what in rows:
        yield f"  {name:<{width}}  {what}"


def _names(unit: Unit) -> Iterator[tuple[str, str]]:
    """Yield every name of an object and what it is."""
    for function in unit.functions:
        size = slot_offsets(function.program)[-1]
        slots = f"{size} slot{'s' * (size != 1)}"
        if function.section == TEXT:
            kind = "global" if function.is_global else "static"
            yield function.name, f"{kind} function, {slots}"
        elif function.section:
            found = parse(function.section)
            kind = found.kind.prog_type.name.lower() if found else function.section
            yield function.name, f"{kind} program, {slots}"
    for one in unit.maps:
        yield one.name, f"{name_of(MapType, one.map_type, 'type {}')} map, {one.entries} entries"
    for data in unit.data:
        for variable in data.variables:
            yield variable.name, f"{data.section}+{variable.offset:#x}, {variable.size} bytes"
    for extern in unit.externs:
        yield extern.name, "kconfig" if extern.kconfig else f"extern, {extern.outside.name.lower()}"
