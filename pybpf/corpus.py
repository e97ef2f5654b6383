"""Programs to be judged or run in bulk: lines of JSON to ``CorpusProgram`` values, and back.

A line holds one program, whole: what a kernel, the verifier and the VM need to judge and run it.

    {"id": "a1", "prog_type": 1, "expected_attach_type": 0, "prog_flags": 0, "insns": HEX,
     "maps": [{"type": 1, "key_size": 4, "value_size": 8, "max_entries": 16, "map_flags": 0,
               "inner_map": null}],
     "fixups": [{"insn": 2, "kind": "map_fd", "map": 0}]}

``id``, ``prog_type`` and ``insns`` must be there. ``insns`` are instructions in the byte order of
the machine, 8 bytes a slot; ``insn`` counts slots. A fixup puts the descriptor of a map into a
``lddw`` and says what it loads: the map (``map_fd``) or the address of an array's first value
(``map_value``, whose offset the second slot holds). ``inner_map`` is a map as any other, or its
number among those before it.

What most programs do without may stand beside it: ``licence`` or ``license`` (GPL unless said);
``attach_to``, what of the kernel a typed program is attached to, as a section's name says it
(``sched_switch``, ``vfs_read``; of struct_ops ``tcp_congestion_ops.init``, which also says the
attach type); ``kfuncs``, a list of ``[insn, name]``, and ``ksyms``, one of ``{"insn": 2, "name":
"runqueues", "typed": true, "weak": false}``: judges put the numbers of their own kernel's types
into these calls and ``lddw``, or the address of a symbol that is not typed;
``btf`` and ``func_info`` (HEX, as the kernel takes them; callbacks need them); of a map ``btf_key``
and ``btf_value``, the numbers of its types in ``btf`` (locks need them), and ``entries``, a list of
``[key, value]`` in HEX that it begins with, and ``frozen`` where user space gave up to change it;
and for a run ``data`` and ``ctx``, in HEX. Other members say nothing.

A verdict is a line, too: ``id``; ``verdict`` (accept, reject or unknown); ``insn``, the slot that
is at fault, where that is known; ``message``, the verifier's; ``processed``, how many instructions
it looked at; ``errno``, where a kernel judged. So is what a run gave: ``id``; ``retval``; ``data``;
``maps``, their entries afterwards; and ``errno`` where it could not be run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, Literal

from pybpf.dataclass import dataclass, field
from pybpf.errors import PybpfError
from pybpf.isa.table import OPS

VerdictKind = Literal["accept", "reject", "unknown"]
FixupKind = Literal["map_fd", "map_value"]
Entry = tuple[bytes, bytes]

# What the field of a lddw that names a register says of a map: the descriptor, or its value.
_SOURCES: Mapping[FixupKind, int] = {
    "map_fd": OPS["lddw_map_fd"].src or 0,
    "map_value": OPS["lddw_map_value"].src or 0,
}
_LDDW = OPS["lddw"].opcode
_SLOT = 8
_U32 = 0xFFFFFFFF
_LINE = 64 << 20
_DIGITS = 100
_DEEPEST = 8
"""Maps within maps; kernels take one."""


class CorpusError(PybpfError):
    """A line that is no program; ``line`` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        self.reason = reason
        super().__init__(f"line {line}: {reason}")


@dataclass(frozen=True, slots=True)
class CorpusMap:
    """A map that a program refers to; sizes in bytes. Equal maps of a program are two maps."""

    type: int
    key_size: int
    value_size: int
    max_entries: int
    map_flags: int = 0
    inner_map: CorpusMap | None = None
    btf_key: int = 0
    btf_value: int = 0
    entries: tuple[Entry, ...] = ()
    frozen: bool = False


@dataclass(frozen=True, slots=True)
class Fixup:
    """The ``lddw`` at slot ``insn`` loads the map of that number, or its value's address."""

    insn: int
    kind: FixupKind
    map: int


@dataclass(frozen=True, slots=True)
class Ksym:
    """The ``lddw`` at slot ``insn`` loads the address of what the kernel calls ``name``.

    ``typed``: a variable or a function that its BTF knows, any symbol otherwise. What is ``weak``
    may be missing: its address is then 0.
    """

    insn: int
    name: str
    typed: bool = True
    weak: bool = False


@dataclass(frozen=True, slots=True)
class CorpusProgram:
    """A program with all that loading and running it takes; see this module's docstring."""

    id: str
    prog_type: int
    insns: bytes
    expected_attach_type: int = 0
    prog_flags: int = 0
    maps: tuple[CorpusMap, ...] = ()
    fixups: tuple[Fixup, ...] = ()
    licence: str = "GPL"
    btf: bytes = b""
    func_info: bytes = b""
    data: bytes | None = None
    ctx: bytes | None = None
    kfuncs: tuple[tuple[int, str], ...] = ()
    ksyms: tuple[Ksym, ...] = ()
    attach_to: str = ""

    @property
    def slots(self) -> int:
        """How many slots of 8 bytes the program has."""
        return len(self.insns) // _SLOT

    def linked(self, descriptors: Iterable[int]) -> bytes:
        """Return the instructions with the maps' descriptors in the places that fixups name."""
        numbers = tuple(descriptors)
        code = bytearray(self.insns)
        for fixup in self.fixups:
            at = fixup.insn * _SLOT
            if code[at] == _LDDW:
                code[at + 1] = code[at + 1] & 0x0F | _SOURCES[fixup.kind] << 4
            code[at + 4 : at + 8] = numbers[fixup.map].to_bytes(4, "little")
        return bytes(code)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verifier says of a program; ``errno`` is 0 where none was given."""

    id: str
    verdict: VerdictKind
    insn: int | None = None
    message: str = ""
    processed: int = 0
    errno: int = 0


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run of a program gave: ``retval`` (32 bits), the packet, and each map's entries.

    ``errno`` is not 0 where the program could not be run.
    """

    id: str
    retval: int = 0
    data: bytes = b""
    maps: tuple[tuple[Entry, ...], ...] = field(default=())
    errno: int = 0


def read_programs(lines: Iterable[str | bytes]) -> Iterator[CorpusProgram]:
    """Yield the program of each line that is not blank; raises CorpusError."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield parse_program(line, number)


def read_file(path: str) -> Iterator[CorpusProgram]:
    """Yield the programs of a file, as ``read_lines`` reads it; raises CorpusError, OSError."""
    return read_programs(read_lines(path))


def read_lines(path: str) -> Iterator[bytes]:
    """Yield the lines of a file, which xz may have compressed (``.xz``).

    Raises OSError where it cannot be read, or is not compressed so, and CorpusError for a line of
    more than 64 MiB.
    """
    if path.endswith(".xz"):
        import lzma

        try:
            with lzma.open(path) as packed:
                yield from bounded_lines(packed)
        except (lzma.LZMAError, EOFError) as error:
            raise OSError(str(error)) from None
    else:
        with open(path, "rb") as plain:  # noqa: PTH123 - pathlib loads slowly
            yield from bounded_lines(plain)


def bounded_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file as they come; raises CorpusError for one of more than 64 MiB."""
    number = 1
    while line := file.readline(_LINE + 1):
        if len(line) > _LINE:
            raise CorpusError(number, f"it has more than {_LINE >> 20} MiB")
        yield line
        number += 1


def parse_json(text: str | bytes, number: int) -> Any:
    """Return the value that a line of JSON holds; raises CorpusError with the line's ``number``."""
    import json

    def constant(name: str) -> None:
        raise ValueError(f"{name} is no value")

    def integer(digits: str) -> int:
        if len(digits) > _DIGITS:
            raise ValueError(f"a number has {len(digits)} digits")
        return int(digits)

    try:
        return json.loads(text, parse_constant=constant, parse_int=integer)
    except ValueError as error:
        raise CorpusError(number, f"no JSON: {error}") from None
    except RecursionError:
        raise CorpusError(number, "no JSON: nested too deeply") from None


def parse_program(line: str | bytes, number: int = 1) -> CorpusProgram:
    """Return the program that a line holds; raises CorpusError with the line's ``number``."""
    reader = _Reader(number)
    row = reader.object(reader.json(line), "the program")
    insns = reader.hex(row, "insns", required=True)
    if len(insns) % _SLOT:
        raise CorpusError(number, f'"insns" ends within a slot: {len(insns)} bytes')
    maps: list[CorpusMap] = []
    for entry in reader.list(row, "maps"):
        maps.append(_map(reader, reader.object(entry, 'an entry of "maps"'), maps))
    return CorpusProgram(
        id=reader.id(row),
        prog_type=reader.number(row, "prog_type", required=True),
        insns=insns,
        expected_attach_type=reader.number(row, "expected_attach_type"),
        prog_flags=reader.number(row, "prog_flags"),
        maps=tuple(maps),
        fixups=tuple(
            _fixup(reader, reader.object(entry, 'an entry of "fixups"'), insns, len(maps))
            for entry in reader.list(row, "fixups")
        ),
        licence=reader.text(row, "licence", reader.text(row, "license", "GPL")),
        btf=reader.hex(row, "btf"),
        func_info=reader.hex(row, "func_info"),
        data=reader.hex(row, "data") if row.get("data") is not None else None,
        ctx=reader.hex(row, "ctx") if row.get("ctx") is not None else None,
        kfuncs=tuple(reader.kfunc(entry, insns) for entry in reader.list(row, "kfuncs")),
        ksyms=tuple(
            _ksym(reader, reader.object(entry, 'an entry of "ksyms"'), insns)
            for entry in reader.list(row, "ksyms")
        ),
        attach_to=reader.text(row, "attach_to", ""),
    )


def _ksym(reader: _Reader, row: Mapping[str, Any], insns: bytes) -> Ksym:
    insn = reader.number(row, "insn", required=True)
    if insn >= len(insns) // _SLOT or insns[insn * _SLOT] != _LDDW:
        raise CorpusError(reader.line, f"a ksym of slot {insn}, where no lddw is")
    typed, weak = row.get("typed") is not False, row.get("weak") is True
    return Ksym(insn, reader.text(row, "name", ""), typed, weak)


def _map(
    reader: _Reader, row: Mapping[str, Any], earlier: list[CorpusMap], depth: int = 0
) -> CorpusMap:
    inner = row.get("inner_map")
    if isinstance(inner, int) and not isinstance(inner, bool):
        if not 0 <= inner < len(earlier):
            raise CorpusError(reader.line, f'"inner_map" {inner} is no map before this one')
        inner_map = earlier[inner]
        if depth + _depth(inner_map) >= _DEEPEST:
            raise CorpusError(reader.line, f"maps are nested more than {_DEEPEST} deep")
    elif inner is None:
        inner_map = None
    else:
        if depth == _DEEPEST:
            raise CorpusError(reader.line, f"maps are nested more than {_DEEPEST} deep")
        inner_map = _map(reader, reader.object(inner, '"inner_map"'), earlier, depth + 1)
    key_size, value_size = reader.number(row, "key_size"), reader.number(row, "value_size")
    entries = tuple(reader.entry(entry) for entry in reader.list(row, "entries"))
    for part, size, index in (("key", key_size, 0), ("value", value_size, 1)):
        for entry in entries:
            if len(entry[index]) != size:
                reason = f"an entry's {part} has {len(entry[index])} bytes, not {size}"
                raise CorpusError(reader.line, reason)
    return CorpusMap(
        type=reader.number(row, "type", required=True),
        key_size=key_size,
        value_size=value_size,
        max_entries=reader.number(row, "max_entries"),
        map_flags=reader.number(row, "map_flags"),
        inner_map=inner_map,
        btf_key=reader.number(row, "btf_key"),
        btf_value=reader.number(row, "btf_value"),
        entries=entries,
        frozen=row.get("frozen") is True,
    )


def _depth(found: CorpusMap) -> int:
    """Return how many maps are within a map."""
    count = 0
    while found.inner_map is not None:
        found, count = found.inner_map, count + 1
    return count


def _fixup(reader: _Reader, row: Mapping[str, Any], insns: bytes, maps: int) -> Fixup:
    insn = reader.number(row, "insn", required=True)
    number = reader.number(row, "map", required=True)
    named = reader.text(row, "kind", "map_fd")
    kind: FixupKind | None = next((known for known in _SOURCES if known == named), None)
    if kind is None:
        raise CorpusError(reader.line, f'"kind" is {" or ".join(_SOURCES)}, not {named!r}')
    if insn >= len(insns) // _SLOT:
        raise CorpusError(reader.line, f"a fixup of slot {insn}, of {len(insns) // _SLOT}")
    if number >= maps:
        raise CorpusError(reader.line, f"a fixup with map {number}, of {maps}")
    return Fixup(insn, kind, number)


def format_program(program: CorpusProgram) -> str:
    """Return the line of a program, without a line end; ``parse_program`` reads it."""
    row: dict[str, Any] = {
        "id": program.id,
        "prog_type": program.prog_type,
        "expected_attach_type": program.expected_attach_type,
        "prog_flags": program.prog_flags,
        "insns": program.insns.hex(),
        "maps": [_map_row(m) for m in program.maps],
        "fixups": [{"insn": f.insn, "kind": f.kind, "map": f.map} for f in program.fixups],
    }
    if program.licence != "GPL":
        row["licence"] = program.licence
    for name in ("btf", "func_info"):
        if value := getattr(program, name):
            row[name] = value.hex()
    if program.kfuncs:
        row["kfuncs"] = [[insn, name] for insn, name in program.kfuncs]
    if program.ksyms:
        row["ksyms"] = [
            {"insn": one.insn, "name": one.name, "typed": one.typed, "weak": one.weak}
            for one in program.ksyms
        ]
    if program.attach_to:
        row["attach_to"] = program.attach_to
    for name in ("data", "ctx"):
        if (value := getattr(program, name)) is not None:
            row[name] = value.hex()
    return _dumps(row)


def _map_row(spec: CorpusMap) -> dict[str, Any]:
    row: dict[str, Any] = {
        "type": spec.type,
        "key_size": spec.key_size,
        "value_size": spec.value_size,
        "max_entries": spec.max_entries,
        "map_flags": spec.map_flags,
        "inner_map": None if spec.inner_map is None else _map_row(spec.inner_map),
    }
    if spec.btf_key:
        row["btf_key"] = spec.btf_key
    if spec.btf_value:
        row["btf_value"] = spec.btf_value
    if spec.entries:
        row["entries"] = _hex_entries(spec.entries)
    if spec.frozen:
        row["frozen"] = True
    return row


def _hex_entries(entries: Iterable[Entry]) -> list[list[str]]:
    return [[key.hex(), value.hex()] for key, value in entries]


def parse_verdict(line: str | bytes, number: int = 1) -> Verdict:
    """Return the verdict that a line holds; raises CorpusError with the line's ``number``."""
    reader = _Reader(number)
    row = reader.object(reader.json(line), "the verdict")
    verdict = row.get("verdict")
    if verdict not in {"accept", "reject", "unknown"}:
        raise CorpusError(number, f'"verdict" is accept, reject or unknown, not {verdict!r}')
    return Verdict(
        reader.id(row),
        verdict,
        None if row.get("insn") is None else reader.number(row, "insn"),
        reader.text(row, "message", ""),
        reader.number(row, "processed"),
        reader.number(row, "errno"),
    )


def format_verdict(verdict: Verdict) -> str:
    """Return the line of a verdict, without a line end; ``parse_verdict`` reads it."""
    row: dict[str, Any] = {
        "id": verdict.id,
        "verdict": verdict.verdict,
        "insn": verdict.insn,
        "message": verdict.message,
        "processed": verdict.processed,
    }
    if verdict.errno:
        row["errno"] = verdict.errno
    return _dumps(row)


def parse_run(line: str | bytes, number: int = 1) -> RunResult:
    """Return the result of a run that a line holds; raises CorpusError."""
    reader = _Reader(number)
    row = reader.object(reader.json(line), "the result")
    return RunResult(
        reader.id(row),
        reader.number(row, "retval"),
        reader.hex(row, "data"),
        tuple(
            tuple(reader.entry(entry) for entry in entries) for entries in reader.list(row, "maps")
        ),
        reader.number(row, "errno"),
    )


def format_run(result: RunResult) -> str:
    """Return the line of a run's result, without a line end; ``parse_run`` reads it."""
    row: dict[str, Any] = {
        "id": result.id,
        "retval": result.retval,
        "data": result.data.hex(),
        "maps": [_hex_entries(entries) for entries in result.maps],
    }
    if result.errno:
        row["errno"] = result.errno
    return _dumps(row)


def _dumps(row: Mapping[str, Any]) -> str:
    import json

    return json.dumps(row, separators=(",", ":"))


class _Reader:
    """Takes fields out of the objects of one line; each method raises CorpusError."""

    __slots__ = ("line",)

    def __init__(self, line: int) -> None:
        self.line = line

    def json(self, text: str | bytes) -> Any:
        return parse_json(text, self.line)

    def object(self, value: Any, what: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise CorpusError(self.line, f"{what} is no object")
        return value

    def list(self, row: Mapping[str, Any], name: str) -> list[Any]:
        value = row.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise CorpusError(self.line, f'"{name}" is no list')
        return value

    def id(self, row: Mapping[str, Any]) -> str:
        value = row.get("id")
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise CorpusError(self.line, '"id" is missing' if value is None else '"id" is no text')
        return str(value)

    def number(self, row: Mapping[str, Any], name: str, *, required: bool = False) -> int:
        value = row.get(name)
        if value is None and not required:
            return 0
        if value is None:
            raise CorpusError(self.line, f'"{name}" is missing')
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _U32:
            raise CorpusError(self.line, f'"{name}" is no number of 32 bits')
        return value

    def text(self, row: Mapping[str, Any], name: str, otherwise: str) -> str:
        value = row.get(name)
        if value is None:
            return otherwise
        if not isinstance(value, str):
            raise CorpusError(self.line, f'"{name}" is no text')
        return value

    def hex(self, row: Mapping[str, Any], name: str, *, required: bool = False) -> bytes:
        value = row.get(name)
        if value is None and required:
            raise CorpusError(self.line, f'"{name}" is missing')
        return b"" if value is None else self.binary(value, f'"{name}"')

    def binary(self, value: Any, what: str) -> bytes:
        if isinstance(value, str):
            try:
                return bytes.fromhex(value)
            except ValueError:
                pass
        raise CorpusError(self.line, f"{what} is not in hexadecimal")

    def entry(self, value: Any) -> Entry:
        if not isinstance(value, list) or len(value) != 2:
            raise CorpusError(self.line, "an entry is no [key, value]")
        return self.binary(value[0], "a key"), self.binary(value[1], "a value")

    def kfunc(self, value: Any, insns: bytes) -> tuple[int, str]:
        if (
            isinstance(value, list)
            and len(value) == 2
            and isinstance(value[0], int)
            and isinstance(value[1], str)
            and 0 <= value[0] < len(insns) // _SLOT
        ):
            return value[0], value[1]
        raise CorpusError(self.line, 'an entry of "kfuncs" is no [slot, name]')
