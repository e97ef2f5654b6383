"""Triggers made in Python: keys, values and actions in, checked values out.

    hist("id.syscall", "common_pid.execname", sort=["hitcount.descending"])
    hist(
        "next_pid",
        variables={"lat": "common_timestamp.usecs-$ts0"},
        actions=[onmatch("sched.sched_waking", trace("wakeup_lat", "$lat", "next_pid"))],
    )

Each writes its text and parses it by the rules of a kernel, so that what it returns is what that
kernel reads. All raise DynEventError where it would not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from pybpf.dataclass import replace
from pybpf.tracefs.dynevents.rules import NEWEST, Rules
from pybpf.tracefs.filters.parse import parse_filter
from pybpf.tracefs.filters.value import Filter
from pybpf.tracefs.triggers.parse import checked, parse_trigger
from pybpf.tracefs.triggers.value import (
    Act,
    Enable,
    Hist,
    Removal,
    Save,
    Simple,
    Snapshot,
    Trace,
    TriggerValue,
)


def hist(
    *keys: str,
    values: Iterable[str] = (),
    variables: Mapping[str, str] | None = None,
    sort: Iterable[str] = (),
    size: int | None = None,
    clock: str | None = None,
    name: str | None = None,
    nohitcount: bool = False,
    actions: Iterable[Act] = (),
    condition: str | Filter | None = None,
    kernel: str | Rules = NEWEST,
) -> Hist:
    """Return a histogram; expressions are as in the text of a trigger."""
    parts = [f"hist:keys={','.join(keys)}"]
    if listed := ",".join(values):
        parts.append(f"vals={listed}")
    parts += [f"{variable}={expression}" for variable, expression in (variables or {}).items()]
    if order := ",".join(sort):
        parts.append(f"sort={order}")
    found = parse_trigger(":".join(parts), kernel)
    assert isinstance(found, Hist)
    found = replace(
        found,
        size=size,
        clock=clock,
        name=name,
        nohitcount=nohitcount,
        actions=tuple(actions),
        filter=_condition(condition, kernel),
    )
    value = checked(found, kernel)
    assert isinstance(value, Hist)
    return value


def onmatch(event: str, action: Trace) -> Act:
    """Return what happens when the keys match those of a histogram on ``SYSTEM.EVENT``."""
    return Act("onmatch", event, action)


def onmax(variable: str, action: Trace | Save | Snapshot) -> Act:
    """Return what happens when a variable, ``$NAME``, is greater than it was."""
    return Act("onmax", variable, action)


def onchange(variable: str, action: Trace | Save | Snapshot) -> Act:
    """Return what happens when a variable, ``$NAME``, is not what it was."""
    return Act("onchange", variable, action)


def trace(synthetic: str, *parameters: str) -> Trace:
    """Return the making of a synthetic event."""
    return Trace(synthetic, parameters)


def save(*fields: str) -> Save:
    """Return the keeping of fields."""
    return Save(fields)


def simple(
    command: Literal["traceon", "traceoff", "snapshot", "stacktrace"],
    count: int | None = None,
    condition: str | Filter | None = None,
    kernel: str | Rules = NEWEST,
) -> TriggerValue:
    """Return a trigger that switches tracing, or takes a snapshot or a stack."""
    return checked(Simple(command, count, _condition(condition, kernel)), kernel)


def enable(
    event: str,
    command: Literal["enable_event", "disable_event", "enable_hist", "disable_hist"],
    count: int | None = None,
    condition: str | Filter | None = None,
    kernel: str | Rules = NEWEST,
) -> TriggerValue:
    """Return a trigger that enables or disables ``SYSTEM.EVENT``, or its histograms."""
    system, _, name = event.partition(".")
    return checked(Enable(command, system, name, count, _condition(condition, kernel)), kernel)


def removal(trigger: Hist | Simple | Enable) -> Removal:
    """Return the removal of a trigger."""
    if isinstance(trigger, Hist):
        return Removal(replace(trigger, mode=""))
    return Removal(replace(trigger, count=None, filter=None))


def _condition(condition: str | Filter | None, kernel: str | Rules) -> Filter | None:
    return parse_filter(condition, kernel) if isinstance(condition, str) else condition
