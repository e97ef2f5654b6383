"""Attach programs to what makes them run; everything detaches when its descriptor is closed.

Only perf events and BPF links are used, so the kernel takes everything down with the process,
however that ends.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from pybpf.errors import KernelError
from pybpf.kernel import features, syscall
from pybpf.kernel.fd import Fd
from pybpf.kernel.maps import online_cpus
from pybpf.kernel.programs import Prog
from pybpf.script import KernelFunction, ProbeSpec, Provider
from pybpf.suggest import did_you_mean
from pybpf.target.target import Target

_SOFTWARE, _TRACEPOINT = 1, 2  # PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT
_CPU_CLOCK = 0  # PERF_COUNT_SW_CPU_CLOCK
_NO_KPROBES = (
    "this kernel has no kprobes for perf (CONFIG_KPROBE_EVENTS)",
    "tracepoints need no kprobes: `pybpf list` shows them",
)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A function that a glob matched and the kernel would not have probed, and why."""

    probe: str
    function: str
    reason: str


class Attachments:
    """What is attached on behalf of one run."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._stack = ExitStack()
        self.skipped: list[Skipped] = []

    def wants_multi(self, probe: ProbeSpec) -> bool:
        """Whether the probe is attached by one link to many functions."""
        return probe.glob and bool(probe.functions) and features.kprobe_multi()

    def open(self, probe: ProbeSpec, program: Callable[[], Prog]) -> Callable[[], None]:
        """Open the events of a probe; the program runs only after calling what this returns.

        Raises KernelError for places that do not exist. A glob's bad places are skipped.
        """
        match probe.provider:
            case Provider.TRACEPOINT:
                number = self._target.event_format(probe.tracepoint).id
                return self._event(syscall.perf_open(_TRACEPOINT, number, cpu=0), program)
            case Provider.KPROBE | Provider.KRETPROBE:
                return self._open_functions(probe, program)
            case Provider.INTERVAL:
                cpus = online_cpus()[:1]
                return self._timer(cpus, probe.period, program)
            case Provider.PROFILE:
                cpus = online_cpus() if probe.cpu is None else (probe.cpu,)
                return self._timer(cpus, 10**9 // probe.frequency, program)
            case Provider.BEGIN | Provider.END:
                return lambda: None

    def _event(self, event: Fd, program: Callable[[], Prog]) -> Callable[[], None]:
        self._stack.enter_context(event)

        def attach() -> None:
            if features.perf_link():
                self._stack.enter_context(syscall.link_perf_event(program(), event))
            else:
                syscall.perf_set_bpf(event, program())
            syscall.perf_enable(event)

        return attach

    def _timer(
        self, cpus: Sequence[int], period: int, program: Callable[[], Prog]
    ) -> Callable[[], None]:
        ready = [
            self._event(syscall.perf_open(_SOFTWARE, _CPU_CLOCK, period=period, cpu=cpu), program)
            for cpu in cpus
        ]
        return lambda: _all(ready)

    def _open_functions(self, probe: ProbeSpec, program: Callable[[], Prog]) -> Callable[[], None]:
        on_return = probe.provider is Provider.KRETPROBE
        if self.wants_multi(probe):
            names = [place.symbol for place in probe.functions]
            return lambda: self._attach_many(probe, names, program(), on_return=on_return)
        ready = []
        for place in probe.functions:
            try:
                event = self._open_function(place, on_return=on_return)
            except KernelError as error:
                if not probe.glob or error.errno in {errno.EPERM, errno.EACCES, errno.EMFILE}:
                    raise
                self.skipped.append(Skipped(probe.spec, place.symbol, error.strerror or ""))
                continue
            ready.append(self._event(event, program))
        if not ready:
            raise KernelError(errno.ENOENT, f"none of the functions of {probe.spec} can be probed")
        return lambda: _all(ready)

    def _open_function(self, place: KernelFunction, *, on_return: bool) -> Fd:
        pmu = features.pmu("kprobe")
        if pmu is None:
            raise KernelError(errno.EOPNOTSUPP, f"cannot probe {place.symbol}", hints=_NO_KPROBES)
        config = pmu.bits.get("retprobe", 1) if on_return else 0
        try:
            return syscall.perf_open_probe(
                pmu.type, config, place.symbol or None, place.offset, cpu=0
            )
        except KernelError as error:
            raise self._explained(error, place) from None

    def _explained(self, error: KernelError, place: KernelFunction) -> KernelError:
        where = place.symbol or f"address {place.offset:#x}"
        where += f"+{place.offset:#x}" if place.symbol and place.offset else ""
        hints = error.hints
        match error.errno:
            case errno.ENOENT if place.symbol:
                names = {name for _, name in self._symbols()}
                hints = (f"there is no such function{did_you_mean(place.symbol, names)}",)
            case errno.EADDRNOTAVAIL:
                hints = ("the name stands for several functions: give an address instead",)
            case errno.EILSEQ:
                hints = ("no instruction starts at this offset",)
            case errno.EINVAL:
                hints = ("the kernel does not let this place be probed",)
            case _:
                pass
        return KernelError(error.errno or errno.EINVAL, f"cannot probe {where}", hints=hints)

    def _symbols(self) -> list[tuple[int, str]]:
        try:
            return list(self._target.symbols)  # type: ignore[call-overload, no-any-return]
        except Exception:  # noqa: BLE001 - advice is not worth an error of its own
            return []

    def _attach_many(
        self, probe: ProbeSpec, names: list[str], prog: Prog, *, on_return: bool
    ) -> None:
        """Attach to many functions by as few links as possible: a list that is refused is halved.

        One unprobeable function makes the kernel refuse the whole list.
        """
        waiting = [names]
        attached = 0
        while waiting:
            part = waiting.pop()
            try:
                link = syscall.link_kprobe_multi(prog, part, on_return=on_return)
            except KernelError as error:
                if error.errno in {errno.EPERM, errno.EACCES, errno.EMFILE, errno.ENOMEM}:
                    raise
                if len(part) == 1:
                    self.skipped.append(Skipped(probe.spec, part[0], error.strerror or ""))
                else:
                    middle = len(part) // 2
                    waiting += [part[middle:], part[:middle]]
            else:
                self._stack.enter_context(link)
                attached += len(part)
        if not attached:
            raise KernelError(errno.ENOENT, f"none of the functions of {probe.spec} can be probed")

    def close(self) -> None:
        """Detach everything, the latest first."""
        self._stack.close()


def _all(steps: Sequence[Callable[[], None]]) -> None:
    for step in steps:
        step()
