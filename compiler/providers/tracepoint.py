"""tracepoint: CATEGORY/EVENT, either of which may be a pattern."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pybpf.compiler.glob import is_glob, matching
from pybpf.compiler.scope import fault
from pybpf.errors import TargetError
from pybpf.isa.insn import Program
from pybpf.script import ProbeSpec, Provider
from pybpf.source import Span
from pybpf.suggest import did_you_mean
from pybpf.target.target import Target

_LIST = "`pybpf list 'tracepoint:*'` shows all there are"


def tracepoint(where: str, span: Span, target: Target) -> list[ProbeSpec]:
    """Return the probes of ``tracepoint:where``, one for each event that a pattern matches."""
    name = where if "/" in where else where.replace(":", "/", 1)
    if name.count("/") != 1 or name.startswith("/") or name.endswith("/"):
        hint = "CATEGORY/EVENT, as in tracepoint:sched/sched_switch"
        near = did_you_mean(where, _known(target))
        raise fault(span, f"'{where}' is no tracepoint{near}", *([] if near else [hint]))
    try:
        if not is_glob(name):
            target.event_format(name)
            names = [name]
        elif not (names := matching(name, target.event_names())):
            near = did_you_mean(re.sub(r"[^\w/]", "", name), _known(target))
            raise fault(span, f"no tracepoint matches '{name}'{near}", *([] if near else [_LIST]))
    except TargetError as error:
        known = _known(target)
        near = did_you_mean(name, known)
        hints = [_LIST] if known and not near and name not in known else []
        raise fault(span, f"{error.message}{near}", *error.hints, *hints) from error
    return [
        ProbeSpec(Provider.TRACEPOINT, span.text, Program(()), tracepoint=n, glob=is_glob(name))
        for n in names
    ]


def _known(target: Target) -> Sequence[str]:
    try:
        return target.event_names()
    except TargetError:
        return ()
