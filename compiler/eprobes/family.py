"""Processes and those that they start: pids in; a condition, and the probes that keep it true, out.

What a traced process forks is noted, by its pid, and forgotten when it exits.
"""

from __future__ import annotations

from collections.abc import Sequence

from pybpf.compiler import tast
from pybpf.compiler.builtins.values import PID, VALUES
from pybpf.dataclass import dataclass
from pybpf.errors import TargetError
from pybpf.isa.insn import Program
from pybpf.script import MapRole, ProbeSpec, Provider
from pybpf.source import Span
from pybpf.target.target import Target
from pybpf.types import INT, U32

MAP = "family"
"""The map of the processes that were started, by pid."""


@dataclass(frozen=True, slots=True)
class Family:
    """``condition`` is true where one of the processes runs; None where all are meant."""

    condition: tast.Expr | None
    maps: tuple[tast.MapDecl, ...] = ()
    probes: tuple[tast.Probe, ...] = ()


def family(pids: Sequence[int], target: Target, span: Span) -> Family:
    """Return what tells these processes, and all that they start from now on, from others.

    In a pid namespace, whose numbers the fork event does not have, only these themselves.
    """
    if not pids:
        return Family(None)
    own = _one_of(pids, span)
    if target.pid_namespace is not None:
        return Family(own)
    try:
        fork = target.event_format("sched/sched_process_fork").field("child_pid")
    except TargetError:
        fork = None
    if fork is None:
        return Family(own)
    known = tast.MapValue(MAP, (_context("pid", span),), U32, span)
    condition = tast.Logical("||", own, _is_set(known, span), span)
    child = tast.Convert(tast.CtxField(fork.offset, INT, span), PID, span)
    note = tast.Assign(MAP, (child,), tast.Const(1, U32, span), span)
    forget = tast.Delete(MAP, (_context("kpid", span),), span)
    probes = (
        tast.Probe((_spec("sched/sched_process_fork", span),), condition, (note,), span),
        tast.Probe((_spec("sched/sched_process_exit", span),), None, (forget,), span),
    )
    return Family(condition, (tast.MapDecl(MAP, MapRole.MAP, (PID,), U32),), probes)


def _one_of(pids: Sequence[int], span: Span) -> tast.Expr:
    parts = [
        tast.Compare("==", _context("pid", span), tast.Const(pid, PID, span), span) for pid in pids
    ]
    found: tast.Expr = parts[0]
    for part in parts[1:]:
        found = tast.Logical("||", found, part, span)
    return found


def _is_set(value: tast.Expr, span: Span) -> tast.Expr:
    return tast.Compare("!=", value, tast.Const(0, U32, span), span)


def _context(name: str, span: Span) -> tast.Context:
    return tast.Context(name, VALUES[name].type, span)


def _spec(event: str, span: Span) -> ProbeSpec:
    return ProbeSpec(
        Provider.TRACEPOINT, f"tracepoint:{event}", Program(()), tracepoint=event, span=span
    )
