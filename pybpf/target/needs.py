"""A script compiled before, what it needs, and a target, in; the script as it fits that, out.

Where it does not, a TargetError says what is different there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pybpf.dataclass import replace
from pybpf.errors import TargetError
from pybpf.isa.abi import MapType
from pybpf.script import CompiledScript, MapRole, MapSpec, Needs, RecordField
from pybpf.target.arch import ARCHES
from pybpf.target.target import Target

_SHOWN = 8
"""So many differences are told; a kernel that is another altogether may have hundreds."""
_HINTS = (
    "compile it again, here or with `--target FILE` for a snapshot of this machine",
    "`pybpf snapshot -o FILE` makes one",
)


def fitted(script: CompiledScript, needs: Needs, target: Target, path: str) -> CompiledScript:
    """Return the script from an object file at ``path`` with its maps as large as the target wants.

    Raises TargetError where its code is not right for the target.
    """
    if script.arch != target.arch.name:
        theirs, ours = _machine(script.arch), _machine(target.arch.name)
        message = f"{path} was compiled for {theirs}, and this machine is {ours}"
        raise TargetError(message, hints=_HINTS)
    found = [*_differences(needs, target)]
    if found:
        more = [f"and {len(found) - _SHOWN} more"] * (len(found) > _SHOWN)
        lines = "".join(f"\n  {line}" for line in [*found[:_SHOWN], *more])
        message = f"{path} was compiled for Linux {needs.release}, and here is another:{lines}"
        raise TargetError(message, hints=_HINTS)
    return replace(script, maps=tuple(_ready(spec, target, path) for spec in script.maps))


def _machine(arch: str) -> str:
    order = f", which is {ARCHES[arch].byteorder}-endian" if arch in ARCHES else ""
    return f"{arch}{order}"


def _differences(needs: Needs, target: Target) -> Iterator[str]:
    """Yield what code relies on and the target does not have so."""
    if needs.features:
        for feature in needs.features:
            if feature not in target.features:
                yield f"its BPF lacks {feature}"
    if needs.types and needs.release != target.release:
        yield f"its types may be others: it is {target.release}"
    if needs.pids and needs.pid_namespace != target.pid_namespace:
        yield "processes have other numbers: it is another PID namespace"
    for field in needs.fields:
        if (difference := _of_field(field, target)) is not None:
            yield difference
    for name, number in needs.events:
        if (found := target.event_format(name).id) != number:
            yield f"the id of {name} is {found}, not {number}"
    for name, address in needs.addresses:
        try:
            found = target.symbol_address(name)
        except TargetError as error:
            yield error.message
            continue
        if found != address:
            yield f"{name} is at {found:#x}, not at {address:#x}"


def _of_field(field: RecordField, target: Target) -> str | None:
    """Return how a field of a record is different; None where it is not."""
    name = f"{field.tracepoint}: {field.name}"
    try:
        found = target.event_format(field.tracepoint).field(field.name)
    except TargetError as error:
        return error.message
    if found is None:
        return f"{name} is not there"
    theirs = (field.offset, field.size, field.signed)
    ours = (found.offset, found.size, found.signed)
    return None if theirs == ours else f"{name} is {_place(*ours)}, not {_place(*theirs)}"


def _place(offset: int, size: int, signed: bool) -> str:  # noqa: FBT001 - as format files have it
    sign = "signed " if signed else ""
    return f"{size} {sign}bytes at {offset}"


def _ready(spec: MapSpec, target: Target, path: str) -> MapSpec:
    """Return a map with what the run decides on: a place for each CPU, the process of -c."""
    if spec.type is MapType.PERF_EVENT_ARRAY and spec.max_entries < target.cpus:
        return replace(spec, max_entries=target.cpus)
    if spec.role is MapRole.TARGET:
        number = _process(target.environment.get("target", ""), path)
        return replace(spec, initial=number.to_bytes(4, target.arch.byteorder, signed=True))
    return spec


def _process(text: str, path: str) -> int:
    """Return the number that ``$target`` stands for; raises TargetError."""
    if not text:
        hints = ("-c starts a process to trace, target=PID in the environment names one",)
        raise TargetError(f"{path} asks for $target, which is not set", hints=hints)
    if not re.fullmatch(r"-?[0-9]{1,9}", text):
        raise TargetError(f"{path} asks for $target, and '{text[:80]}' is no number of a process")
    return int(text)
