"""interval and profile: probes that fire by the clock."""

from __future__ import annotations

import re

from pybpf.compiler.scope import fault
from pybpf.isa.insn import Program
from pybpf.script import ProbeSpec, Provider
from pybpf.source import Span
from pybpf.target.target import Target

_UNITS = {"m": 60 * 10**9, "s": 10**9, "": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_INTERVAL = re.compile(r"(?P<number>0[xX][0-9a-fA-F]{1,40}|[0-9]{1,40})(?P<unit>[a-z]*)")
_PROFILE = re.compile(r"(?:(?P<cpu>-?[0-9]{1,9}):)?(?P<rate>[0-9]{1,9})(?:hz)?", re.IGNORECASE)
_MAX_RATE = 1000


def interval(where: str, span: Span, _target: Target) -> list[ProbeSpec]:
    """Return the probe of ``interval:N[m|s|ms|us|ns]``; seconds where no unit is given."""
    match = _INTERVAL.fullmatch(where)
    if not match or match["unit"] not in _UNITS:
        hint = "a whole number and a unit: m, s, ms, us or ns, as in interval:500ms"
        raise fault(span, f"'{where}' is no interval", hint)
    number = match["number"]
    period = int(number, 16 if number[:2].lower() == "0x" else 10) * _UNITS[match["unit"]]
    if not period:
        raise fault(span, f"an interval of {where} never passes", "the shortest is 1ns")
    if period >= 2**63:
        raise fault(span, f"an interval of {where} is too long", "the longest is 153722867m")
    return [ProbeSpec(Provider.INTERVAL, span.text, Program(()), period=period)]


def profile(where: str, span: Span, target: Target) -> list[ProbeSpec]:
    """Return the probe of ``profile:[CPU:]Nhz``, N from 1 to 1000."""
    match = _PROFILE.fullmatch(where)
    if not match:
        hint = "as in profile:99hz, or profile:0:99hz for CPU 0"
        raise fault(span, f"'{where}' is no frequency", hint)
    rate = int(match["rate"])
    if not 1 <= rate <= _MAX_RATE:
        raise fault(span, f"a profile runs 1 to {_MAX_RATE} times a second, not {rate}")
    cpu = int(match["cpu"] or -1)
    if not -1 <= cpu < target.cpus:
        there = f"they go from 0 to {target.cpus - 1}" if target.cpus > 1 else "the only one is 0"
        raise fault(span, f"there is no CPU {cpu}; {there}")
    return [
        ProbeSpec(
            Provider.PROFILE, span.text, Program(()),
            frequency=rate, cpu=None if cpu < 0 else cpu,
        )
    ]  # fmt: skip
