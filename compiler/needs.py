"""A typed script, its programs, and what was asked of the target, in; its Needs out.

What a script is compiled for may be another machine than the one it is run on, and later: its Needs
say what the two must have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pybpf.compiler import tast
from pybpf.isa.helpers import HELPERS
from pybpf.isa.table import OPS
from pybpf.script import CompiledScript, MapRole, Needs, ProbeSpec, RecordField
from pybpf.target.features import (
    COMM_PADDED,
    CPU_V4,
    JMP32,
    MAP_VALUE_ADDR,
    PROBE_READ_KERNEL,
    RINGBUF,
)
from pybpf.target.target import LATER, Symbols, Target
from pybpf.types import Ptr, Struct, size_of, strip

if TYPE_CHECKING:
    from pybpf.btf.reader import Btf
    from pybpf.tracefs.format import EventField

_RECORDS = frozenset({"tracepoint", "eprobe"})
_V4, _V5_1 = (6, 6), (5, 1)
_TARGET = "target"


class Watched:
    """A Target that passes on what it is asked, and knows afterwards what that was."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.types_asked = False
        self.addresses: dict[str, int] = {}
        self.environment: Mapping[str, str] = _Environment(target.environment)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    @property
    def types(self) -> Btf | None:
        """The kernel's types."""
        self.types_asked = True
        return self._target.types

    @property
    def symbols(self) -> Symbols:
        """The kernel's symbols."""
        return _Symbols(self._target.symbols, self.addresses)

    def symbol_address(self, name: str) -> int:
        """Return the address of a symbol; raises TargetError."""
        self.addresses[name] = self._target.symbol_address(name)
        return self.addresses[name]

    @property
    def asked_environment(self) -> Mapping[str, str]:
        """What ``$name`` stood for, of the names that the script has."""
        assert isinstance(self.environment, _Environment)
        return self.environment.asked


class _Environment(Mapping[str, str]):
    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        self.asked: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name == _TARGET and name not in self._given:
            return LATER
        self.asked[name] = self._given.get(name, "")
        return self.asked[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


class _Symbols:
    def __init__(self, symbols: Symbols, asked: dict[str, int]) -> None:
        self._symbols = symbols
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._symbols, name)

    def resolve(self, address: int) -> tuple[str, int] | None:
        """Return the symbol that an address lies in."""
        return self._symbols.resolve(address)

    def addresses(self, name: str) -> Any:
        """Return the addresses of a symbol; of a module's function only whether it has some."""
        found = self._symbols.addresses(name)
        if found and " [" not in name:
            self._asked[name] = found[0]
        return found


def needs(typed: tast.TypedScript, script: CompiledScript, watched: Watched) -> Needs:
    """Return what a script needs that was compiled for the target that was watched."""
    names = {node.name for node in _nodes(typed.probes) if isinstance(node, tast.Context)}
    pids = bool(names & {"pid", "kpid"})
    return Needs(
        watched.release,
        tuple(sorted(_features(script, watched.features, names))),
        pids,
        watched.pid_namespace if pids else None,
        watched.types_asked,
        tuple(sorted(_fields(typed, watched), key=lambda f: (f.tracepoint, f.offset, f.name))),
        tuple(sorted(_events(typed, watched))),
        tuple(sorted(watched.addresses.items())),
        tuple(sorted(watched.asked_environment.items())),
    )


def _features(script: CompiledScript, features: frozenset[str], names: set[str]) -> Iterator[str]:
    """Yield those of a target's features that programs make use of, or rely on."""
    insns = [i for probe in script.probes for i in probe.program.insns]
    since = max((i.op.since for i in insns), default=(0, 0))
    calls = {i.imm for i in insns if i.op is OPS["call_helper"]}
    kernel = ("bpf_probe_read_kernel", "bpf_probe_read_kernel_str", "bpf_probe_read_user",
              "bpf_probe_read_user_str")  # fmt: skip
    used = {
        CPU_V4: since >= _V4,
        JMP32: any(i.op.since == _V5_1 for i in insns),
        MAP_VALUE_ADDR: any(i.op is OPS["lddw_map_value"] for i in insns),
        PROBE_READ_KERNEL: any(HELPERS[name] in calls for name in kernel),
        RINGBUF: any(spec.role is MapRole.EVENTS for spec in script.maps),
        COMM_PADDED: bool(names & {"comm", "execname"}),
    }
    return (name for name, needed in used.items() if needed and name in features)


def _nodes(root: object) -> Iterator[object]:
    """Yield all nodes of a typed tree."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, tuple):
            waiting += node
        elif type(node).__module__ == tast.__name__:
            yield node
            waiting += [getattr(node, name) for name in type(node).__match_args__]  # type: ignore[attr-defined]


def _fields(typed: tast.TypedScript, watched: Watched) -> set[RecordField]:
    """Return the fields of records that programs read, whole or in part."""
    found: set[RecordField] = set()
    for probe in typed.probes:
        nodes = [*_nodes(probe)]
        places = [
            range(node.offset, node.offset + max(1, size_of(node.type)))
            for node in nodes
            if isinstance(node, tast.CtxField)
        ]
        if any(isinstance(node, tast.Context) and _is_record(node) for node in nodes):
            places.append(range(1 << 16))
        for spec in probe.specs:
            if spec.provider in _RECORDS and places:
                found.update(_read(spec, places, watched))
    return found


def _is_record(node: tast.Context) -> bool:
    """Whether a value is the address of a record, all of which may then be read."""
    t = strip(node.type)
    return isinstance(t, Ptr) and isinstance(strip(t.to), Struct)


def _read(spec: ProbeSpec, places: Iterable[range], watched: Watched) -> Iterator[RecordField]:
    fields: tuple[EventField, ...] = watched.event_format(spec.tracepoint).fields
    for field in fields:
        end = field.offset + max(1, field.size)
        if not field.common and any(p.start < end and field.offset < p.stop for p in places):
            yield RecordField(spec.tracepoint, field.name, field.offset, field.size, field.signed)


def _events(typed: tast.TypedScript, watched: Watched) -> set[tuple[str, int]]:
    """Return the ids of tracepoints that may be constants in the code: ``common_type`` is one."""
    if "common_type" not in typed.source.text:
        return set()
    return {
        (spec.tracepoint, watched.event_format(spec.tracepoint).id)
        for probe in typed.probes
        for spec in probe.specs
        if spec.tracepoint
    }
