"""Contexts as programs see them: a kernel and a program's type in; what loads and stores do, out.

    context((6, 12), ProgType.XDP).access(0, 4, write=False)   # ContextAccess(kind="pkt", …)

The facts are the tables of contexts_table, read when the first context is asked for. Contexts that
the kernel's types describe (fentry, LSM, struct_ops, typed tracepoints, iterators) have
``typed=True`` and no layout: what they hold depends on the function that a program is attached to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from pybpf.dataclass import dataclass
from pybpf.isa.abi import AttachType, ProgType

Version = tuple[int, int]
SCALAR = "scalar"

TYPED = frozenset({ProgType.TRACING, ProgType.LSM, ProgType.STRUCT_OPS, ProgType.EXT})
"""Program types whose contexts the kernel's types describe."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a context, of ``size`` bytes from ``offset`` on, in units of ``unit`` bytes.

    ``load`` and ``store`` are the letters of contexts_table, or empty where that is refused.
    ``kind`` is what the verifier takes a loaded value for, in the words of its log.
    """

    name: str
    offset: int
    size: int
    unit: int
    load: str
    store: str = ""
    kind: str = SCALAR


@dataclass(frozen=True, slots=True)
class ContextAccess:
    """An access that is allowed. ``kind`` is what a loaded value is: ``scalar``, ``pkt``, …."""

    kind: str
    field: Field


@dataclass(frozen=True, slots=True)
class Context:
    """The context of one kind of program in one kernel. ``name`` is that of its structure."""

    name: str
    size: int
    fields: tuple[Field, ...]
    typed: bool = False

    def access(self, offset: int, size: int, *, write: bool) -> ContextAccess | str:
        """Return what a load or store of ``size`` bytes does, or the kernel's refusal as a text."""
        for field in self.fields:
            if field.offset <= offset < field.offset + field.size:
                mode = field.store if write else field.load
                if mode and _allows(mode, field, offset, size):
                    whole = mode != "b" or size == field.size
                    return ContextAccess(field.kind if whole and not write else SCALAR, field)
                break
        return f"invalid bpf_context access off={offset} size={size}"


def _allows(mode: str, field: Field, offset: int, size: int) -> bool:
    """Whether a field may be accessed so; see contexts_table for the letters."""
    inner = offset - field.offset
    if (offset % size and mode != "u") or inner + size > field.size:
        return False
    match mode:
        case "=":
            return size == field.unit and inner % field.unit == 0
        case "n":
            return size <= field.unit
        case "s":
            return size <= field.unit and inner == 0
        case "w":
            return size <= field.unit or size == 8
        case "v":  # as w, without parts
            return size in {field.unit, 8}
        case "d":  # a port: two bytes, and the zeros behind them only with it
            return size == 4 or inner + size <= 2
        case "e":  # at least the two bytes that there are
            return 2 <= size <= field.unit
        case "b":  # an address as a whole, or what lies behind its first byte
            return inner > 0 or size == field.size
        case _:
            return True


def context(
    version: Version, prog_type: int, attach_type: int = 0, *, privileged: bool = True
) -> Context | None:
    """Return the context of programs of a type in a kernel; None for types without a known one."""
    kind = ProgType(prog_type)
    if kind in TYPED:
        return Context("", 0, (), typed=True)
    attach = _attach_name(attach_type)
    return _context(version, kind.name.lower(), attach, privileged)


def layouts() -> tuple[str, ...]:
    """Return the names of all structures that ``layout`` knows."""
    return tuple(_tables()[0])


@cache
def layout(name: str, version: Version) -> Context:
    """Return a structure of contexts_table as it is in a kernel, with all of its loads, no stores.

    Raises KeyError for a name that is not there.
    """
    sizes, fields = _tables()[0][name]
    size = max((size for since, size in sizes if since <= version), default=sizes[0][1])
    return Context(name, size, tuple(field for since, field in fields if since <= version))


def _attach_name(attach_type: int) -> str:
    try:
        return AttachType(attach_type).name.lower().removeprefix("cgroup_")
    except ValueError:
        return ""


@cache
def _context(version: Version, program: str, attach: str, privileged: bool) -> Context | None:  # noqa: FBT001
    views = _tables()[1]
    view = views.get(f"{program}/{attach}") or views.get(program)
    if view is None:
        return None
    name, *words = view.split()
    plain = layout(name, version)
    fields = [*plain.fields]
    if words[:1] == ["only"]:
        return Context(name, plain.size, tuple(f for f in fields if f.name in words))
    for word in words:
        fields = [*_changed(fields, word, version, privileged=privileged)]
    return Context(name, plain.size, tuple(fields))


_WORD = re.compile(r"(!?)([-+]?)(\w+)(?:\.\.(\w+))?(?::(\w))?(?:@(\d+)\.(\d+))?")


def _changed(
    fields: list[Field], word: str, version: Version, *, privileged: bool
) -> Iterator[Field]:
    """Yield the fields as one word of a view changes them."""
    match = _WORD.fullmatch(word)
    assert match, word
    mark, sign, first, last, mode, *since = match.groups()
    names = [field.name for field in fields]
    if first in names and (not since[0] or (int(since[0]), int(since[1])) <= version):
        changed = names[names.index(first) : names.index(last or first) + 1]
    else:
        changed = []
    for field in fields:
        if field.name not in changed:
            yield field
        elif sign == "+":
            store = mode or {"n": "=", "s": "=", "w": "v"}.get(field.load, field.load)
            allowed = privileged or not mark
            yield _with(field, load=field.load, store=store if allowed else "")
        elif mode:
            yield _with(field, load=mode, store=mode if field.store else "")
        elif sign == "-" or not privileged:
            yield _with(field, load="", store="")
        else:
            yield field


def _with(field: Field, *, load: str, store: str) -> Field:
    return Field(field.name, field.offset, field.size, field.unit, load, store, field.kind)


_Layout = tuple[list[tuple[Version, int]], list[tuple[Version, Field]]]


@cache
def _tables() -> tuple[Mapping[str, _Layout], Mapping[str, str]]:
    """Return the layouts by name, and the views by program type and ``type/attach type``."""
    from pybpf.verifier.contexts_table import LAYOUTS, VIEWS

    layouts: dict[str, _Layout] = {}
    for part in LAYOUTS.strip().split("\n\n"):
        head, *lines = part.split("\n")
        name, *sizes = head.split()
        grown = []
        for text in sizes:
            size, since = _since(text)
            grown.append((since, int(size)))
        layouts[name] = grown, [_field(line) for line in lines]
    views: dict[str, str] = {}
    for line in VIEWS.strip().splitlines():
        programs, _, view = line.partition(":")
        for program in programs.split():
            kind, _, attaches = program.partition("/")
            for attach in attaches.split(","):
                views[f"{kind}/{attach}" if attach else kind] = view
    return layouts, views


def _field(line: str) -> tuple[Version, Field]:
    offset, name, size, load, *kind = line.split()
    whole, _, unit = size.partition("/")
    name, since = _since(name)
    field = Field(
        name, int(offset), int(whole), int(unit or whole), load, "", kind[0] if kind else SCALAR
    )
    return since, field


def _since(text: str) -> tuple[str, Version]:
    """Return a word, and the release behind its ``@``."""
    word, _, release = text.partition("@")
    if not release:
        return word, (0, 0)
    major, minor = release.split(".")
    return word, (int(major), int(minor))
