"""The providers: what makes a probe fire. One row each; a name may be cut short, as in ``k:``."""

from __future__ import annotations

from collections.abc import Callable

from pybpf.compiler.providers.eprobe import eprobe
from pybpf.compiler.providers.kprobe import kprobe, kretprobe
from pybpf.compiler.providers.timed import interval, profile
from pybpf.compiler.providers.tracepoint import tracepoint
from pybpf.dataclass import dataclass
from pybpf.isa.abi import ProgType
from pybpf.isa.insn import Program
from pybpf.script import ProbeSpec, Provider
from pybpf.source import Span
from pybpf.target.target import Target


@dataclass(frozen=True, slots=True)
class ProviderRow:
    """A provider. ``resolve`` turns what stands behind the colon into places to attach to.

    It returns one ProbeSpec (still without its program) for each program that is needed, and
    raises scope.Refused for what it cannot make sense of. ``fields`` are the names that only
    this provider's probes know.
    """

    provider: Provider
    prog_type: ProgType
    resolve: Callable[[str, Span, Target], list[ProbeSpec]]
    fields: frozenset[str]
    doc: str


def _special(provider: Provider) -> Callable[[str, Span, Target], list[ProbeSpec]]:
    return lambda _where, span, _target: [ProbeSpec(provider, span.text, Program(()))]


# The order decides what a shortened name stands for: "k" is kprobe, "kr" is kretprobe.
PROVIDERS: tuple[ProviderRow, ...] = (
    ProviderRow(
        Provider.KPROBE, ProgType.KPROBE, kprobe,
        frozenset({"regs", "caller", "arg"}), "an instruction of the kernel",
    ),
    ProviderRow(
        Provider.KRETPROBE, ProgType.KPROBE, kretprobe,
        frozenset({"regs", "retval"}), "the return of a kernel function",
    ),
    ProviderRow(
        Provider.TRACEPOINT, ProgType.TRACEPOINT, tracepoint,
        frozenset({"data"}), "a tracepoint of the kernel",
    ),
    ProviderRow(
        Provider.EPROBE, ProgType.TRACEPOINT, eprobe,
        frozenset({"data"}), "an event probe, by its definition in quotes",
    ),
    ProviderRow(
        Provider.BEGIN, ProgType.RAW_TRACEPOINT, _special(Provider.BEGIN),
        frozenset(), "the start of the run",
    ),
    ProviderRow(
        Provider.END, ProgType.RAW_TRACEPOINT, _special(Provider.END),
        frozenset(), "the end of the run",
    ),
    ProviderRow(
        Provider.INTERVAL, ProgType.PERF_EVENT, interval,
        frozenset(), "the passing of time, on one CPU",
    ),
    ProviderRow(
        Provider.PROFILE, ProgType.PERF_EVENT, profile,
        frozenset(), "a number of times a second, on every CPU or one",
    ),
)  # fmt: skip


def find(name: str) -> ProviderRow | None:
    """Return the provider called ``name``, or the first whose name begins so."""
    exact = [row for row in PROVIDERS if row.provider == name]
    short = [row for row in PROVIDERS if name and row.provider.startswith(name)]
    return next(iter(exact + short), None)


def row_of(provider: Provider) -> ProviderRow:
    """Return the row of a provider."""
    return next(row for row in PROVIDERS if row.provider is provider)
