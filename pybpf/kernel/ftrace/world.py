"""The running kernel as definitions are judged against it: tracefs in, a World out.

What takes long to read (symbols, types, formats) is read when a verdict first asks for it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from pybpf.dataclass import replace
from pybpf.errors import KernelError, TargetError
from pybpf.kernel.live import LiveTarget, read_kallsyms
from pybpf.kernel.tracefs import Tree
from pybpf.tracefs.dynevent import Kprobe, Synthetic
from pybpf.tracefs.dynevents.existing import Existing
from pybpf.tracefs.dynevents.judge import judge
from pybpf.tracefs.dynevents.rules import KNOWN, Rules, rules_for
from pybpf.tracefs.dynevents.symbols import is_repeated
from pybpf.tracefs.dynevents.world import FileKind, Kind, World
from pybpf.tracefs.format import EventFormat, parse_format

if TYPE_CHECKING:
    from pybpf.btf.reader import Btf

_NAME = re.compile(r"[\w-]+/\w[\w.-]*", re.ASCII)
_NO_MODULES = frozenset({"bpf", "__builtin__ftrace", "__builtin__kprobes"})
"""What kallsyms shows like modules: programs and what they are called through."""
_KINDS: Mapping[str, Kind] = {
    "e": "eprobe", "p": "kprobe", "r": "kprobe", "f": "fprobe", "t": "fprobe", "s": "synthetic"
}  # fmt: skip


def is_known(release: str) -> bool:
    """Say whether kernels of a release were recorded, so that a verdict is what they answer."""
    return ".".join(release.split(".")[:2]) in KNOWN


def live_world(tree: Tree, texts: Sequence[str] = ()) -> World:
    """Return what definitions depend on; ``texts`` are those that will be judged.

    It may be used as long as ``tree`` is open. Raises TargetError, KernelError.
    """
    rules = rules_for(os.uname().release)
    lines = listed(tree)
    names = {_listed_name(line) for line in lines}
    symbols = LiveSymbols()
    world = World(
        rules,
        LiveFormats(tree, names),
        functions=_Code(symbols),
        symbols=symbols,
        repeated=Repeated(symbols, rules),
        types=_types() if rules.btf_args and any(map(_wants_types, texts)) else None,
        cpus=os.cpu_count() or 1,
        files=file_kind,
        last_id=0,  # which ID an event gets is read when it is there
    )
    return replace(world, existing=tuple(_existing(tree, line, world) for line in lines))


def listed(tree: Tree) -> list[str]:
    """Return the lines of ``dynamic_events``; none where the kernel has no such file."""
    try:
        # Strings in definitions may have in them what Python takes for the end of a line.
        return [line for line in tree.read("dynamic_events").split("\n") if line]
    except FileNotFoundError:
        return []


def _listed_name(line: str) -> str:
    return line.split(maxsplit=1)[0].partition(":")[2]


def _existing(tree: Tree, line: str, world: World) -> Existing:
    """Return a listed event, also one whose listing defines nothing (addresses are hidden)."""
    name = _listed_name(line)
    verdict = judge(line, replace(world, existing=()))
    if verdict.made and verdict.made[0].name == name:
        found = verdict.made[0]
    else:
        head, *rest = line.split(None, 1)
        group, _, event = name.partition("/")
        letter, place = head[0], rest[0] if rest else ""
        kind = _KINDS.get(letter, "kprobe")
        value = Synthetic(event, ()) if kind == "synthetic" else Kprobe(place, (), group, event)
        found = Existing(kind, group, event, head.partition(":")[0], place, value)
    parent = line.split()[1].replace(".", "/", 1) if found.kind == "eprobe" else None
    folder = f"events/{name}"
    try:
        enabled = tree.read(f"{folder}/enable").strip() not in {"0", "0*"}
        found = replace(found, format=tree.read(f"{folder}/format"), enabled=enabled)
    except FileNotFoundError:
        pass
    return replace(found, parent=parent)


class LiveFormats(Mapping[str, EventFormat]):
    """The format files of all events but the ``dynamic`` ones, read when asked for."""

    def __init__(self, tree: Tree, dynamic: set[str]) -> None:
        self._tree = tree
        self._dynamic = dynamic
        self._parsed: dict[str, EventFormat] = {}

    def __getitem__(self, name: str) -> EventFormat:
        if name not in self._parsed:
            if name not in self:
                raise KeyError(name)
            try:
                self._parsed[name] = parse_format(self._tree.read(f"events/{name}/format"), name)
            except FileNotFoundError:
                raise KeyError(name) from None
        return self._parsed[name]

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or name in self._dynamic or not _NAME.fullmatch(name):
            return False
        return name in self._parsed or self._tree.exists(f"events/{name}/format")

    @cached_property
    def _names(self) -> tuple[str, ...]:
        found = []
        for group in self._tree.names("events"):
            try:
                found += [f"{group}/{event}" for event in self._tree.names(f"events/{group}")]
            except KernelError:  # a file
                continue
        return tuple(name for name in found if name in self)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class LiveSymbols:
    """The names of symbols, those of modules included, also as ``module:symbol``."""

    @cached_property
    def _text(self) -> str:
        try:
            return read_kallsyms()
        except OSError:
            return ""

    def __contains__(self, name: object) -> bool:
        return any(True for _ in self.types(name))

    def counts(self, name: str) -> tuple[int, int]:
        """Return how many symbols of a name the kernel has, and its modules."""
        found = re.findall(rf" {re.escape(name)}(?:$|\t\[(\w+)\])", self._text, re.MULTILINE)
        modules = [module for module in found if module and module not in _NO_MODULES]
        return found.count(""), len(modules)

    def types(self, name: object) -> Iterator[str]:
        """Yield the type letter of each symbol of a name: T and t are code, and so on."""
        if not isinstance(name, str):
            return
        module, colon, symbol = name.rpartition(":")
        wanted = f" {symbol}\t[{module}]\n" if colon else f" {symbol}"
        text, place = self._text, -1
        while (place := text.find(wanted, place + 1)) >= 0:
            if colon or text[place + len(wanted) : place + len(wanted) + 1] in {"\n", "\t", ""}:
                yield text[place - 1]


class Repeated:
    """The names that several symbols have, of those that a kprobe may be put on by name."""

    def __init__(self, symbols: LiveSymbols, rules: Rules) -> None:
        self._symbols = symbols
        self._rules = rules

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and is_repeated(*self._symbols.counts(name), self._rules)


class _Code:
    """The names of functions that have symbols."""

    def __init__(self, symbols: LiveSymbols) -> None:
        self._symbols = symbols

    def __contains__(self, name: object) -> bool:
        return any(letter in "tTwW" for letter in self._symbols.types(name))


def _wants_types(text: str) -> bool:
    return "->" in text or text.lstrip()[:1] in {"p", "r", "f", "t"}


def _types() -> Btf | None:
    try:
        return LiveTarget().types
    except TargetError:
        return None


def file_kind(path: str) -> FileKind:
    """Return what a path leads to."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - pathlib loads slowly
    except (OSError, ValueError):
        return "missing"
    return "regular" if stat.S_ISREG(mode) else "other"
