"""Attach programs to what makes them run; everything detaches when its descriptor is closed.

Only perf events and BPF links are used, so the kernel takes everything down with the process,
however that ends.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

from pybpf.dataclass import dataclass
from pybpf.errors import KernelError, TargetError
from pybpf.kernel import features, syscall
from pybpf.kernel.dynamic import check_event
from pybpf.kernel.fd import Fd
from pybpf.kernel.functions import located
from pybpf.kernel.maps import online_cpus
from pybpf.kernel.programs import Prog
from pybpf.kernel.refusal import check_inside, explained, why_no_kprobes
from pybpf.script import KernelFunction, ProbeSpec, Provider
from pybpf.target.target import Target

_SOFTWARE, _TRACEPOINT = 1, 2  # PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT
_CPU_CLOCK = 0  # PERF_COUNT_SW_CPU_CLOCK
# Refusals that would be the same for any other function.
_GENERAL = {errno.EPERM, errno.EACCES, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
# So many files are closed one after the other; else so many threads do it.
_FEW, _CLOSERS = 4, 32
MAX_PROBES = 1000
"""How many perf events patterns may take: each costs the kernel milliseconds, at both ends."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A function that a glob matched and the kernel would not have probed, and why."""

    probe: str
    function: str
    reason: str


# Where a program is attached, and what that is called in messages.
_Place = tuple[KernelFunction, str]


class Attachments:
    """What is attached on behalf of one run."""

    def __init__(
        self,
        target: Target,
        *,
        max_probes: int = MAX_PROBES,
        progress: Callable[[int, int], object] = lambda _done, _all: None,
    ) -> None:
        """Prepare to attach.

        ``max_probes`` limits the perf events that patterns take where one link cannot do it.
        ``progress`` is told how many functions of a pattern are attached, of how many, now and
        then; what it raises goes up.
        """
        self._target = target
        self._max_probes = max_probes
        self._progress = progress
        self._matched = 0
        self._events: list[Fd] = []
        self._links: list[Fd] = []
        self.skipped: list[Skipped] = []

    def wants_multi(self, probe: ProbeSpec) -> bool:
        """Whether the probe is attached by one link to many functions."""
        return probe.glob and probe.traced and features.kprobe_multi()

    def files(self, probe: ProbeSpec) -> int:
        """Return about how many files the probe takes: an event and a link for each function."""
        if self.wants_multi(probe):
            return 1
        count = len(probe.functions)
        return 2 * max(1, min(count, self._max_probes) if probe.glob else count)

    def open(self, probe: ProbeSpec, prog: Prog) -> Callable[[], None]:
        """Open the events of a probe; the program runs only once what this returns is called.

        Raises KernelError for places that do not exist. A glob's bad places are skipped.
        """
        match probe.provider:
            case Provider.TRACEPOINT | Provider.EPROBE:
                number = self._target.event_format(probe.tracepoint).id
                check_event(probe.tracepoint)
                event = syscall.perf_open(_TRACEPOINT, number, cpu=_some_cpu())
                return _named(probe.tracepoint, self._event(event, prog))
            case Provider.KPROBE | Provider.KRETPROBE:
                if self.wants_multi(probe):
                    places = self._places(probe)  # which may take its time
                    return lambda: self._attach_many(probe, places, prog)
                return self._functions(probe, prog)
            case Provider.INTERVAL:
                return self._timer((_some_cpu(),), probe.period, prog)
            case Provider.PROFILE:
                cpus = online_cpus() if probe.cpu is None else (probe.cpu,)
                return self._timer(cpus, 10**9 // probe.frequency, prog)
            case Provider.BEGIN | Provider.END:
                return lambda: None

    @property
    def links(self) -> tuple[Fd, ...]:
        """What holds programs attached."""
        return tuple(self._links)

    def detach(self) -> None:
        """Let no program run any more, and wait for those that do."""
        _close(self._links)
        # Where closing a link does not wait for running programs, closing an event does.
        _close(self._events[-1:])

    def close(self) -> None:
        """Detach everything, and close the events."""
        _close(self._links)
        _close(self._events)

    def _event(self, event: Fd, prog: Prog) -> Callable[[], None]:
        self._events.append(event)

        def attach() -> None:
            self._links.append(link_event(prog, event))

        return attach

    def _timer(self, cpus: Sequence[int], period: int, prog: Prog) -> Callable[[], None]:
        return _all(
            [
                self._event(syscall.perf_open(_SOFTWARE, _CPU_CLOCK, period=period, cpu=cpu), prog)
                for cpu in cpus
            ]
        )

    def _functions(self, probe: ProbeSpec, prog: Prog) -> Callable[[], None]:
        """Open a perf event for each function."""
        pmu = features.pmu("kprobe")
        if pmu is None:
            hint = "tracepoints need no kprobes: `pybpf list 'tracepoint:*'` shows them"
            raise KernelError(
                errno.EOPNOTSUPP, f"cannot attach {probe.spec}", hints=(why_no_kprobes(), hint)
            )
        config = pmu.bits.get("retprobe", 1) if probe.provider is Provider.KRETPROBE else 0

        def opened(place: KernelFunction) -> Callable[[], None]:
            event = syscall.perf_open_probe(
                pmu.type, config, place.symbol or None, place.offset, cpu=_some_cpu()
            )
            return self._event(event, prog)

        (first, *_) = probe.functions
        if not probe.glob:
            check_inside(first, self._target)
        if not probe.glob and ":" not in first.symbol:
            try:
                return opened(first)
            except KernelError as error:
                if error.errno != errno.EADDRNOTAVAIL:  # the name stands for several functions
                    raise explained(error, probe, self._target) from None
        places = self._places(probe)
        if probe.glob:
            self._check_number(probe, len(places))
        return self._all_of(probe, places, opened)

    def _all_of(
        self,
        probe: ProbeSpec,
        places: Sequence[_Place],
        opened: Callable[[KernelFunction], Callable[[], None]],
    ) -> Callable[[], None]:
        """Open an event for each place; those of a pattern may be refused, but for the last."""
        steps = []
        for done, (place, name) in enumerate(places):
            self._progress(done, len(places))
            try:
                steps.append(opened(place))
            except KernelError as error:
                if error.errno in _GENERAL:
                    raise _without_room(error, probe, len(places)) from None
                if not probe.glob and len(places) == 1:
                    raise explained(error, probe, self._target) from None
                self._skip(probe, name, error)
        self._progress(len(places), len(places))
        if not steps:
            raise self._none_left(probe)
        return _all(steps)

    def _check_number(self, probe: ProbeSpec, count: int) -> None:
        """Refuse patterns that would take too many perf events."""
        self._matched += count
        if self._matched <= self._max_probes:
            return
        why = "without kprobe.multi (Linux 5.18, CONFIG_FPROBE)"
        if features.kprobe_multi():
            why = "as it uses registers that kprobe.multi does not have"
        others = f", with the patterns before it {self._matched:,}" * (self._matched > count)
        raise TargetError(
            f"{probe.spec} stands for {count:,} functions{others}: {why}, each takes an event of "
            f"its own, and {self._max_probes:,} may be opened",
            hints=(
                "choose fewer functions by a narrower pattern: `pybpf list` shows what one matches",
                f"`pybpf run --max-probes {self._matched}` allows as many, and takes its time",
            ),
        )

    def _places(self, probe: ProbeSpec) -> list[_Place]:
        """Return all places that the names of a probe's functions stand for, each with its name."""
        (first, *_) = probe.functions
        names = [place.symbol for place in probe.functions]
        found = located(names, self._target, traceable=probe.glob)
        if not found and not probe.glob:
            raise explained(KernelError(errno.ENOENT, ""), probe, self._target)
        if not found:  # the kernel hides addresses
            return [(place, place.symbol) for place in probe.functions]
        return [
            (KernelFunction("", address + first.offset), name) for address, name in found.items()
        ]

    def _attach_many(self, probe: ProbeSpec, places: list[_Place], prog: Prog) -> None:
        """Attach to many functions by one link."""
        self._progress(0, len(places))
        link = self._link(probe, places, prog)
        if link is None:
            refused = self._refused(probe, places, prog)
            places = [place for place in places if place not in refused]
            if not places:
                raise self._none_left(probe)
            link = self._link(probe, places, prog)
        if link is None:  # what the kernel has just taken in parts: a module may be gone
            raise KernelError(errno.EAGAIN, f"cannot attach {probe.spec}")
        self._links.append(link)
        self._progress(len(places), len(places))

    def _link(self, probe: ProbeSpec, places: list[_Place], prog: Prog) -> Fd | None:
        """Return a link to all of the places, None where the kernel refuses one of them."""
        try:
            return syscall.link_kprobe_multi(
                prog, _listed(places), on_return=probe.provider is Provider.KRETPROBE
            )
        except KernelError as error:
            if error.errno in _GENERAL:
                raise
            if len(places) == 1:
                self._skip(probe, places[0][1], error)
            return None

    def _refused(self, probe: ProbeSpec, places: list[_Place], prog: Prog) -> set[_Place]:
        """Return the places that the kernel refuses, of a list that it has refused.

        One makes it refuse the whole list, and it does not say which: halves of the list lead
        there. (Many small links would do as well, but every call of a function that ftrace traces
        would ask each of them whether it is theirs.)
        """
        refused: set[_Place] = set()
        waiting = [places]
        while waiting:
            part = waiting.pop()
            if len(part) == 1:
                refused.update(part)
                continue
            self._progress(0, len(places))
            middle = len(part) // 2
            for half in (part[:middle], part[middle:]):
                link = self._link(probe, half, prog)
                if link is None:
                    waiting.append(half)
                else:
                    link.close()
        return refused

    def _skip(self, probe: ProbeSpec, function: str, error: KernelError) -> None:
        self.skipped.append(Skipped(probe.spec, function, error.strerror or ""))

    def _none_left(self, probe: ProbeSpec) -> KernelError:
        reasons = {one.reason for one in self.skipped if one.probe == probe.spec}
        hints = (f"the kernel said: {', '.join(sorted(reasons))}",)
        action = f"cannot probe any of the functions that {probe.spec} stands for"
        return KernelError(errno.ENOENT, action, hints=hints)


def link_event(prog: Prog, event: Fd) -> Fd:
    """Attach a program to a perf event and let that count; return the link, or else the event."""
    try:
        link = syscall.link_perf_event(prog, event)
    except KernelError as error:
        if error.errno != errno.EINVAL:
            raise
        # Linux before 5.15: the program is attached as long as the event is open.
        syscall.perf_set_bpf(event, prog)
        link = event
    try:
        syscall.perf_enable(event)
    except BaseException:
        link.close()
        raise
    return link


def _listed(places: list[_Place]) -> list[int] | list[str]:
    """Return addresses, or names where the kernel hides addresses."""
    if places[0][0].symbol:
        return [name for _, name in places]
    return [place.offset for place, _ in places]


def _without_room(error: KernelError, probe: ProbeSpec, count: int) -> KernelError:
    """Return the error of a probe among many for which this process has no room, or no right."""
    hints = error.hints
    if error.errno == errno.EMFILE:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        takes = f"{count:,} functions take two files each"
        hints = (f"{takes}, and this process may have {limit:,} open: see `ulimit -Hn`",)
    return KernelError(error.errno or errno.EINVAL, f"cannot attach {probe.spec}", hints=hints)


def _some_cpu() -> int:
    """Return the CPU for what belongs to none: perf events want one, as programs run on all."""
    return online_cpus()[0]


def _close(files: Sequence[Fd]) -> None:
    """Close files, many at a time: most wait for an RCU grace period, but it may be the same."""
    if len(files) <= _FEW:
        for file in files:
            file.close()
        return
    from concurrent.futures import ThreadPoolExecutor

    try:
        with ThreadPoolExecutor(_CLOSERS) as pool:
            for _ in pool.map(Fd.close, files):
                pass
    except RuntimeError:  # no thread is to be had (pids.max, `ulimit`)
        for file in files:
            file.close()


def _all(steps: Sequence[Callable[[], None]]) -> Callable[[], None]:
    def attach() -> None:
        for step in steps:
            step()

    return attach


def _named(tracepoint: str, attach: Callable[[], None]) -> Callable[[], None]:
    """Return ``attach``, whose failure tells which tracepoint it was about."""

    def named() -> None:
        try:
            attach()
        except KernelError as error:
            error.action = f"cannot attach to tracepoint:{tracepoint}"
            if tracepoint.startswith("ftrace/"):
                error.hints = ("events of ftrace/ are records of tracers, and run no programs",)
            elif error.errno == errno.E2BIG:  # BPF_TRACE_MAX_PROGS
                error.hints = (
                    "a tracepoint runs at most 64 programs, those of other tracers included",
                    "join clauses into one: if (…) … else …",
                )
            raise

    return named
