"""Facts in; text for people, or data for JSON, out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pybpf.inspect.facts import ProgramFacts
from pybpf.inspect.needs import text as release
from pybpf.isa.abi import MapFlag
from pybpf.output.escape import columns, escape_text, pad

if TYPE_CHECKING:
    from pybpf.inspect.facts import ExternFacts, Facts, MapFacts
    from pybpf.inspect.needs import Since

_LABEL = 10
_WIDTH = 100
_DECIDING = 4
"""So many of the things that decide which kernel is the first are told."""


def report(facts: Facts) -> Iterator[str]:
    """Yield the lines of a report without line ends, fit for a terminal."""
    for line in lines_of(facts):
        yield escape_text(line)


def lines_of(facts: Facts | ProgramFacts, *, programs: bool = True) -> Iterator[str]:
    """Yield the lines about an object, with its programs or without, or about a program alone.

    Names may be in them that no terminal should see.
    """
    if isinstance(facts, ProgramFacts):
        yield from _program(facts)
        return
    yield f"{facts.name}: {', '.join(_title(facts))}"
    for note in facts.notes:
        yield f"  {note}"
    if facts.sections:
        debug = [s for s in facts.sections if s.name.startswith(".debug_")]
        rows = [
            (s.name, s.type, f"{s.size:,}", _counts(s.relocations))
            for s in facts.sections
            if s not in debug
        ]
        if debug:
            size = sum(section.size for section in debug)
            rows.append((f"{len(debug)} of .debug_*", "", f"{size:,}", ""))
        yield from _table(("section", "type", "bytes", "relocations"), rows, right={2})
    if facts.maps:
        head = ("map", "type", "key", "value", "entries", "")
        yield from _table(head, [[*_map(one)] for one in facts.maps], right={4})
    if facts.externs:
        yield from _table(("extern", "kind", ""), [_extern(one) for one in facts.externs])
    for program in facts.programs if programs else ():
        yield ""
        yield from _program(program)
    if facts.types:
        total = sum(facts.types.values())
        ranked = sorted(facts.types.items(), key=lambda row: (-row[1], row[0]))
        yield ""
        yield from _wrapped("types", [str(total), *(f"{kind} {n}" for kind, n in ranked)])


def _title(facts: Facts) -> Iterator[str]:
    kinds = {"object": "eBPF object", "bytes": "raw eBPF instructions"}
    yield kinds.get(facts.kind, facts.kind)
    yield f"{facts.byteorder}-endian"
    yield f"{facts.size:,} bytes"
    if facts.kind == "object":
        yield f"licence {facts.licence}" if facts.licence else "no licence"
    if facts.version:
        major, minor = facts.version >> 16, facts.version >> 8 & 255
        yield f"for Linux {major}.{minor}.{facts.version & 255}"
    if not facts.programs:
        yield "no programs"


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]], right: set[int] | None = None
) -> Iterator[str]:
    """Yield an empty line, and rows below their headings; ``right``: columns of numbers."""
    cells_of = [[escape_text(cell) for cell in row] for row in rows]
    lines = [[*head], *([f"  {first}", *rest] for first, *rest in cells_of)]
    widths = [max(columns(line[at]) for line in lines) for at in range(len(head))]
    yield ""
    for line in lines:
        cells = [
            pad(cell, width, left=at not in (right or set()))
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _map(found: MapFacts) -> Iterator[str]:
    yield found.name
    yield f"{found.type} of {found.inner}" if found.inner else found.type
    yield _sized(found.key, found.key_size)
    yield _sized(found.value, found.value_size)
    yield f"{found.max_entries:,}" if found.max_entries else "-"
    flags = [flag.name.lower() for flag in MapFlag if found.flags & flag]
    if left := found.flags & ~sum(MapFlag):
        flags.append(f"{left:#x}")
    origin = [found.origin] if found.origin.startswith("id ") else []
    yield ", ".join([*origin, *(["pinned by name"] if found.pinned else []), *flags])


def _sized(declared: str, size: int) -> str:
    return f"{declared} ({size})" if declared else f"{size}" if size else "-"


def _extern(found: ExternFacts) -> tuple[str, str, str]:
    return found.name, found.kind, f"{found.type}{', weak' if found.weak else ''}".lstrip(", ")


def _program(facts: ProgramFacts) -> Iterator[str]:
    kinds = [facts.type] if facts.type != "unspec" else []
    kinds += [f"attach type {facts.attach}"] if facts.attach else []
    kinds += [f'SEC("{facts.section}")'] if facts.section else []
    yield f"program {facts.name}{': ' if kinds else ''}{', '.join(kinds)}"
    yield from _wrapped("size", list(_size(facts)))
    if len(facts.functions) > 1:
        functions = [f"{f.name} {f.slots} ({f.stack} B stack)" for f in facts.functions]
        yield from _wrapped("functions", functions)
    yield from _wrapped("mix", [f"{name} {count}" for name, count in facts.mix.items()])
    for label in ("helpers", "kfuncs", "maps", "core"):
        counts: Mapping[str, int] = getattr(facts, label)
        texts = [f"{name} {n}x" if n > 1 else name for name, n in counts.items()]
        yield from _wrapped("CO-RE" if label == "core" else label, texts)
    yield from _wrapped("kernel", list(_kernel(facts)))
    if (judged := facts.verdict) is not None:
        said = f"{judged.verdict} on {judged.kernel}"
        counted = [f"{judged.processed:,} processed", _number(judged.states, "state")]
        stack = [f"stack {'+'.join(map(str, judged.stack))}"] if judged.stack else []
        yield from _wrapped("verifier", [said, *counted, *stack])
        if judged.message and judged.insn is not None:
            yield f"{'':{_LABEL + 2}}{judged.message} at slot {judged.insn}"
        elif judged.message:
            yield f"{'':{_LABEL + 2}}{escape_text(judged.message)}"


def _size(facts: ProgramFacts) -> Iterator[str]:
    count = len(facts.functions)
    yield f"{_number(facts.slots, 'slot')} in {_number(count, 'function')}"
    yield _number(facts.blocks, "block")
    yield _number(facts.loops, "loop") if facts.loops else "no loops"
    if count == 1:
        yield f"{facts.functions[0].stack} bytes of stack"


def _kernel(facts: ProgramFacts) -> Iterator[str]:
    deciding = [need for need in facts.needs if need.since.by == facts.first.by]
    if facts.first.by is None:
        deciding = [need for need in facts.needs if need.since.by is None]
    elif facts.first.least is None:
        deciding = []
    elif not facts.first.beyond:
        deciding = [need for need in facts.needs if need.since.by == facts.first.least]
    first, *rest = [need.what for need in deciding[:_DECIDING]] or [""]
    yield f"{facts.first}{': ' if first else ''}{first}"
    yield from rest
    if len(deciding) > _DECIDING:
        yield f"{len(deciding) - _DECIDING} more"


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _wrapped(label: str, texts: Sequence[str]) -> Iterator[str]:
    """Yield texts behind a label, as many on a line as there is room for; nothing for none."""
    line = f"  {label:{_LABEL}}"
    for number, text in enumerate(texts):
        piece = escape_text(text) + (", " if number < len(texts) - 1 else "")
        if columns(line) + columns(piece.rstrip()) > _WIDTH and line.strip() != label:
            yield line.rstrip()
            line = " " * (_LABEL + 2)
        line += piece
    if texts:
        yield line.rstrip()


def as_data(facts: Facts) -> Mapping[str, Any]:
    """Return facts as the object that docs/inspect.md describes."""
    data: dict[str, Any] = _plain(facts)
    return data


def _plain(value: Any) -> Any:
    from pybpf.inspect.needs import Since

    if isinstance(value, Since):
        return _since(value)
    if hasattr(value, "__slots__") and not isinstance(value, str):
        return {name: _plain(getattr(value, name)) for name in value.__slots__}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(inner) for inner in value]
    return value


def _since(since: Since) -> Mapping[str, Any]:
    return {
        "text": str(since),
        "least": release(since.least) if since.least else None,
        "beyond": since.beyond,
        "by": release(since.by) if since.by else None,
    }
