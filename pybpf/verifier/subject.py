"""Programs and scripts in; what the verifier judges, with the places that messages are about, out.

A ``Subject`` is a ``CorpusProgram`` that knows how to show its instructions and where they are
from.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pybpf.corpus import CorpusMap, CorpusProgram, Fixup, FixupKind
from pybpf.dataclass import dataclass, field
from pybpf.errors import EncodingError
from pybpf.isa.abi import AttachType, ProgType
from pybpf.isa.encoding import decode_one, encode
from pybpf.isa.insn import LineInfo, Program
from pybpf.isa.layout import slot_offsets
from pybpf.isa.table import DISTANCE_FIELD, Form
from pybpf.script import CompiledScript, MapSpec
from pybpf.source import Source, Span

if TYPE_CHECKING:
    from pybpf.btf.reader import Btf
    from pybpf.objfile.object import Object

_SLOT = 8
_KINDS: Mapping[str, FixupKind] = {"lddw_map_fd": "map_fd", "lddw_map_value": "map_value"}


@dataclass(frozen=True, slots=True)
class Subject:
    """A program to be judged. ``code`` is the same with names (None: only the bytes are known).

    ``notes`` say of slots why their instructions are not those that were written, ``section`` is
    the name of an object's section that it is in.
    """

    name: str
    program: CorpusProgram
    code: Program | None = None
    notes: Mapping[int, str] = field(default_factory=dict)
    section: str = ""
    _starts: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts = () if self.code is None else slot_offsets(self.code)
        object.__setattr__(self, "_starts", starts)

    def text(self, slot: int) -> str:
        """Return the instruction at a slot as text, jumps as ``pc+1``; what is none as digits."""
        from pybpf.isa.disassembler import format_insn

        index = self._index(slot)
        if self.code is not None and index is not None:
            insn = self.code.insns[index]
            if insn.op not in DISTANCE_FIELD:
                return format_insn(insn)
        try:
            text = format_insn(decode_one(self.program.insns, slot))
            return re.sub(r"(gotol?) ([+-])", r"\1 pc\2", text)
        except EncodingError:
            return self.program.insns[slot * _SLOT : (slot + 1) * _SLOT].hex(" ")

    def span(self, slot: int) -> Span | None:
        """Return where in its source the instruction at a slot is from, as far as that is known."""
        index = self._index(slot)
        if self.code is None or index is None:
            return None
        if index < len(self.code.spans) and (span := self.code.spans[index]) is not None:
            return span
        line = _line(self.code.lines, index)
        return None if line is None else _span(line)

    def line(self, slot: int) -> str | None:
        """Return the source line of an instruction as the kernel's log has it: text @ file:line."""
        span = self.span(slot)
        if span is None:
            return None
        text = span.source.line(span.line).strip()
        return f"{text} @ {span.source.name}:{span.line}"

    def _index(self, slot: int) -> int | None:
        starts = self._starts
        return bisect_right(starts, slot) - 1 if starts and 0 <= slot < starts[-1] else None


def _line(lines: tuple[LineInfo, ...], index: int) -> LineInfo | None:
    found = bisect_right(lines, index, key=lambda line: line.index)
    return lines[found - 1] if found else None


def _span(line: LineInfo) -> Span:
    """Return a place in a source of which only one line is known."""
    number = max(line.line, 1)
    source = Source(line.file, "\n" * (number - 1) + line.text)
    start = number - 1 + min(max(line.column - 1, 0), len(line.text))
    return Span(source, start, start + 1)


def of_script(script: CompiledScript) -> Iterator[Subject]:
    """Yield a subject for each probe of a script, in the order of the text."""
    for number, probe in enumerate(script.probes):
        yield of_program(probe.program, script.maps, probe.spec, str(number))


def of_program(
    program: Program, maps: Iterable[MapSpec], name: str = "", ident: str = "0"
) -> Subject:
    """Return a program with the maps that it names.

    Raises EncodingError where it cannot be encoded, KeyError where it names a map that there is
    not.
    """
    specs = {spec.name: spec for spec in maps}
    used: dict[str, int] = {}
    fixups = []
    for slot, insn in zip(slot_offsets(program), program.insns, strict=False):
        if insn.op.form is Form.LOAD_IMM64 and insn.symbol is not None and insn.op.name in _KINDS:
            number = used.setdefault(insn.symbol, len(used))
            fixups.append(Fixup(slot, _KINDS[insn.op.name], number))
    corpus = CorpusProgram(
        ident,
        int(program.prog_type),
        encode(program, "little"),
        int(program.expected_attach_type or 0),
        maps=tuple(_map(specs[symbol]) for symbol in used),
        fixups=tuple(fixups),
        licence=program.licence,
    )
    return Subject(name or program.name, corpus, program)


def of_object(found: Object, target: Btf | None = None) -> Iterator[Subject]:
    """Yield a subject for each program of an object, made right for the types of ``target``.

    Raises ObjectError.
    """
    from pybpf.objfile.corpus import relocated_programs
    from pybpf.objfile.relocate import Outcome

    for done, corpus in relocated_programs(found, target):
        notes = {
            row.slot: f"CO-RE {row.kind} {row.spec}: {row.reason}"
            for row in done.report
            if row.outcome is Outcome.POISONED
        }
        program = done.program
        yield Subject(program.name, corpus, program.program, notes, program.section)


def of_bytes(code: bytes, prog_type: ProgType, attach: AttachType | None, name: str) -> Subject:
    """Return raw little-endian instructions as a subject, whatever they hold.

    Raises EncodingError where they end within a slot.
    """
    if len(code) % _SLOT:
        raise EncodingError(
            len(code) // _SLOT, f"the last slot has only {len(code) % _SLOT} of 8 bytes"
        )
    return Subject(name, CorpusProgram("0", int(prog_type), code, int(attach or 0)))


def _map(spec: MapSpec) -> CorpusMap:
    return CorpusMap(int(spec.type), spec.key_size, spec.value_size, spec.max_entries, spec.flags)
