"""What differs between kernels in filters and triggers: the rules of dynamic events in, more out.

Observed on kernels 6.1.192, 6.12.117 and 7.3.4 (Debian, x86-64). As with dynamic events, a release
between two of them gets the rules of the older.
"""

from __future__ import annotations

from collections.abc import Mapping

from pybpf.dataclass import dataclass, replace
from pybpf.tracefs.dynevents.rules import Rules

PAGE = 4096
"""Writes to ``filter`` and ``trigger`` have fewer bytes."""
MAX_STRING = 256
"""MAX_FILTER_STR_VAL: how long an operand of a filter may get, its NUL counted."""


@dataclass(frozen=True, slots=True)
class TracingRules:
    """How one kernel judges filters and triggers. What is True is there, or happens, in it."""

    cpu_lists: bool
    """``CPUS{0-3}``, and that a field is a mask of CPUs."""
    functions: bool
    """``FIELD.function``."""
    stack_fields: bool
    """``stacktrace`` and ``common_stacktrace``, as a value, a variable and in synthetic events."""
    trigger_filter_logged: bool
    """What is wrong with the ``if`` of a trigger gets into the error_log."""
    hitcounts: bool
    """``nohitcount``, and hitcount as a field, which may be shown several times."""
    common_comm: bool
    double_cpu: bool
    """The key common_cpu is listed as ``common_cpucommon_cpu``."""
    checks_names: bool
    """An expression that the kernel cannot write, -(FIELD.log2), is refused."""
    qualified: str
    """How a variable that is named with its event is listed."""


_6_1 = TracingRules(
    cpu_lists=False,
    functions=False,
    stack_fields=False,
    trigger_filter_logged=False,
    hitcounts=False,
    common_comm=False,
    double_cpu=False,
    checks_names=False,
    qualified="${}.{}.{}",
)
_6_12 = TracingRules(
    cpu_lists=True,
    functions=True,
    stack_fields=True,
    trigger_filter_logged=True,
    hitcounts=True,
    common_comm=False,
    double_cpu=False,
    checks_names=True,
    qualified="{}.{}.${}",
)
_7_3 = replace(_6_12, common_comm=True, double_cpu=True)
_KNOWN: Mapping[str, TracingRules] = {"6.1": _6_1, "6.12": _6_12}


def tracing_rules(rules: Rules) -> TracingRules:
    """Return the rules of filters and triggers of the kernel that ``rules`` are of."""
    return _KNOWN.get(rules.release, _7_3)
