"""The bytes of an object file that ``pack`` made in; the compiled script and its needs, out.

Instructions, types of programs and the licence are those of the object's programs, as any loader
finds them; the rest is in .pybpf, of which nothing is believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType
from typing import Any

from pybpf.dataclass import dataclass
from pybpf.errors import ObjectError
from pybpf.isa.insn import Insn, Program, lines_of
from pybpf.objfile.code import Use
from pybpf.objfile.object import Object, ObjectProgram
from pybpf.objfile.pack import SECTION, VERSION, Code, Content, first_labels
from pybpf.objfile.plain import PlainError, parse
from pybpf.objfile.sound import check
from pybpf.script import CompiledScript, Needs
from pybpf.source import Source, Span
from pybpf.target.arch import ARCHES

_SIZE_AT_MOST = 64 << 20


@dataclass(frozen=True, slots=True)
class Packed:
    """A script that was compiled ahead of time, and what it needs of the kernel it runs on."""

    script: CompiledScript
    needs: Needs


def unpack(data: bytes, path: str = "<bytes>") -> Packed:
    """Return the script in an object file, which errors call ``path``.

    Raises ObjectError for a file that is none, holds no script, or one that makes no sense.
    """
    found = Object.parse(data, path)
    section = found.elf.section(SECTION)
    if section is None:
        reason = f"it holds no script: there is no section {SECTION}"
        hints = ("`pybpf compile -o FILE SCRIPT` makes one that does",)
        raise ObjectError(path, reason, hints=hints)
    try:
        return _Reader(found).packed(_json(section.data, path))
    except PlainError as error:
        reason = f"{error.place}: {error.reason}" if error.place else error.reason
        raise ObjectError(path, reason, section=SECTION) from None


def _json(data: bytes, path: str) -> Any:
    import json

    if len(data) > _SIZE_AT_MOST:
        reason = f"over {_SIZE_AT_MOST >> 20} MiB are more than any script has"
        raise ObjectError(path, reason, section=SECTION)
    try:
        return json.loads(data.strip(b"\0").decode("ascii"))
    except json.JSONDecodeError as error:
        place = error.pos + data.startswith(b"\0")
        raise ObjectError(path, f"no JSON: {error.msg}", section=SECTION, offset=place) from None
    except (ValueError, RecursionError):
        raise ObjectError(path, "no JSON that can be read", section=SECTION) from None


class _Reader:
    def __init__(self, found: Object) -> None:
        self._found = found

    def packed(self, data: Any) -> Packed:
        if not isinstance(data, dict):
            raise PlainError("", "it is no object")
        self._check_version(data.get("version"))
        source = _source(data)
        at = _spans(source)
        programs = parse(data.get("programs"), tuple[Code, ...], "programs", {})
        symbols = parse(data.get("symbols"), tuple[str, ...], "symbols", {})
        names = self._names(data, symbols)
        code = [self._program(each, names, at, f"programs[{i}]") for i, each in enumerate(programs)]

        def program(number: Any) -> Program:
            if type(number) is not int or not 0 <= number < len(code):
                raise ValueError("it is the number of no program")
            return code[number]

        hooks = {Program: program, Source: lambda _: source, Span: lambda pair: _span(pair, at)}
        whole = {**data, "programs": [], "symbols": []}
        content: Content = parse(whole, Content, "", hooks)
        self._check_machine(content.script)
        check(content.script)
        return Packed(content.script, content.needs)

    def _check_version(self, version: Any) -> None:
        if type(version) is not int or version < 1:
            raise PlainError("version", "it is no number from 1 on")
        if version != VERSION:
            reason = f"it is of version {version}, and this pybpf reads version {VERSION}"
            hints = ("compile the script again, or run it with the pybpf that compiled it",)
            raise ObjectError(self._found.path, reason, section=SECTION, hints=hints)

    def _check_machine(self, script: CompiledScript) -> None:
        if script.arch not in ARCHES:
            raise PlainError("script.arch", f"it is none of {', '.join(ARCHES)}")
        order = ARCHES[script.arch].byteorder
        if order != self._found.byteorder:
            reason = f"{script.arch} is {order}-endian, and the file is not"
            raise PlainError("script.arch", reason)

    def _names(self, data: Any, symbols: Sequence[str]) -> dict[str, str]:
        """Return the names that maps have in the script, by those of the object's maps."""
        script = data.get("script")
        maps = script.get("maps") if isinstance(script, dict) else None
        if not isinstance(maps, list) or len(maps) != len(symbols):
            raise PlainError("symbols", "they are not as many as the maps of the script")
        names = {}
        for index, (symbol, spec) in enumerate(zip(symbols, maps, strict=True)):
            name = spec.get("name") if isinstance(spec, dict) else None
            if not isinstance(name, str):
                raise PlainError(f"script.maps[{index}].name", "it is no text")
            for place in (symbol, f".data.{symbol}", f".rodata.{symbol}"):
                names[place] = name
        return names

    def _program(
        self, code: Code, names: dict[str, str], at: Callable[[int, int], Span], place: str
    ) -> Program:
        found = self._found.program(code.function)
        if found is None:
            raise PlainError(f"{place}.function", f"there is no program '{code.function[:80]}'")
        count = len(found.program.insns)
        for index, (_, target) in enumerate(code.labels):
            if not 0 <= target < count:
                raise PlainError(
                    f"{place}.labels[{index}]", f"its program has {count} instructions"
                )
        self._check_maps(found, names)
        spans = tuple(_each(code.spans, count, at, f"{place}.spans"))
        plain = found.program
        labels = dict(code.labels)
        return Program(
            tuple(_named(plain, code, names, place)), MappingProxyType(labels), code.name,
            plain.prog_type, None, plain.licence, tuple(lines_of(spans)), spans,
        )  # fmt: skip

    def _check_maps(self, found: ObjectProgram, names: dict[str, str]) -> None:
        for reference in found.references:
            if reference.use not in {Use.MAP, Use.DATA} or reference.name not in names:
                reason = f"{found.name} refers to {reference.name}, which is no map of the script"
                raise ObjectError(self._found.path, reason, section=found.section)


def _source(data: dict[str, Any]) -> Source:
    """Return the text of the script, which all places are in."""
    script = data.get("script")
    source = script.get("source") if isinstance(script, dict) else None
    found: Source = parse(source, Source, "script.source", {})
    return found


def _spans(source: Source) -> Callable[[int, int], Span]:
    """Return what makes spans of a source; raises ValueError for one that is not within it."""

    def at(start: int, end: int) -> Span:
        if not 0 <= start <= end <= len(source.text):
            raise ValueError(f"{start} to {end} is no part of the script")
        return Span(source, start, end)

    return at


def _span(pair: Any, at: Callable[[int, int], Span]) -> Span:
    match pair:
        case [int(start), int(end)]:
            return at(start, end)
        case _:
            raise ValueError("it is no pair of numbers")


def _each(
    runs: tuple[tuple[int, ...], ...], count: int, at: Callable[[int, int], Span], place: str
) -> Iterator[Span | None]:
    """Yield the span of each of ``count`` instructions."""
    if not runs:
        raise PlainError(place, "there is no run")
    ends = [run[0] if run else 0 for run in runs[1:]]
    for number, (run, end) in enumerate(zip(runs, [*ends, count], strict=True)):
        where = f"{place}[{number}]"
        if len(run) not in {1, 3} or not run[0] < end <= count or (not number and run[0]):
            raise PlainError(where, f"it is no run of the program's {count} instructions")
        try:
            span = at(run[1], run[2]) if len(run) > 1 else None
        except ValueError as error:
            raise PlainError(where, str(error)) from None
        yield from (span for _ in range(run[0], end))


def _named(plain: Program, code: Code, names: dict[str, str], place: str) -> Iterator[Insn]:
    """Yield a program's instructions with the names that the script has for labels and maps."""
    first = first_labels(code.labels)
    other = dict(code.jumps)
    labels = dict(code.labels)
    for index, insn in enumerate(plain.insns):
        symbol = insn.symbol
        if symbol is not None and symbol in plain.labels:
            at = plain.labels[symbol]
            symbol = other.get(index, first.get(at))
            if symbol is None or labels.get(symbol) != at:
                raise PlainError(f"{place}.labels", f"they lack where instruction {index} goes to")
        elif symbol is not None:
            symbol = names[symbol]
        yield Insn(insn.op, insn.dst, insn.src, insn.off, insn.imm, symbol)
