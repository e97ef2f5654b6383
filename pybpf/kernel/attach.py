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
from pybpf.kernel.fd import Fd
from pybpf.kernel.functions import located
from pybpf.kernel.maps import online_cpus
from pybpf.kernel.programs import Prog
from pybpf.script import KernelFunction, ProbeSpec, Provider
from pybpf.suggest import did_you_mean
from pybpf.target.target import Target

_SOFTWARE, _TRACEPOINT = 1, 2  # PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT
_CPU_CLOCK = 0  # PERF_COUNT_SW_CPU_CLOCK
_KPROBE_OPTIONS = ("CONFIG_KPROBES", "CONFIG_KPROBE_EVENTS")
# Refusals that would be the same for any other function.
_GENERAL = {errno.EPERM, errno.EACCES, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
# So many files are closed one after the other; else so many threads do it.
_FEW, _CLOSERS = 4, 32


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
        self._events: list[Fd] = []
        self._links: list[Fd] = []
        self.skipped: list[Skipped] = []

    def wants_multi(self, probe: ProbeSpec) -> bool:
        """Whether the probe is attached by one link to many functions."""
        return probe.glob and probe.traced and features.kprobe_multi()

    def open(self, probe: ProbeSpec, prog: Prog) -> Callable[[], None]:
        """Open the events of a probe; the program runs only once what this returns is called.

        Raises KernelError for places that do not exist. A glob's bad places are skipped.
        """
        match probe.provider:
            case Provider.TRACEPOINT:
                number = self._target.event_format(probe.tracepoint).id
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
            try:
                self._links.append(syscall.link_perf_event(prog, event))
            except KernelError as error:
                if error.errno != errno.EINVAL:
                    raise
                # Linux before 5.15: the program is attached as long as the event is open.
                syscall.perf_set_bpf(event, prog)
                self._links.append(event)
            syscall.perf_enable(event)

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
        if not probe.glob and ":" not in first.symbol:
            self._check_inside(first)
            try:
                return opened(first)
            except KernelError as error:
                if error.errno != errno.EADDRNOTAVAIL:  # the name stands for several functions
                    raise self._explained(error, probe) from None
        steps = []
        for place, name in self._places(probe):
            try:
                steps.append(opened(place))
            except KernelError as error:
                if error.errno in _GENERAL:
                    raise
                self._skip(probe, name, error)
        if not steps:
            raise self._none_left(probe)
        return _all(steps)

    def _check_inside(self, place: KernelFunction) -> None:
        """Refuse an offset that leads into another function; the kernel takes any."""
        if not (place.symbol and place.offset):
            return
        starts = located([place.symbol], self._target, traceable=False)
        ends = [self._target.symbols.resolve(start + place.offset) for start in starts]
        if any(end and end[1] == place.offset for end in ends) or not starts:
            return
        name, offset = ends[0] or ("no function", 0)
        raise KernelError(
            errno.EILSEQ,
            f"cannot probe {place.symbol}+{place.offset:#x}",
            hints=(f"that is beyond its end: it is {name}+{offset:#x}",),
        )

    def _places(self, probe: ProbeSpec) -> list[tuple[KernelFunction, str]]:
        """Return all places that the names of a probe's functions stand for, each with its name."""
        (first, *_) = probe.functions
        names = [place.symbol for place in probe.functions]
        found = located(names, self._target, traceable=probe.glob)
        if not found and not probe.glob:
            raise self._explained(KernelError(errno.ENOENT, ""), probe)
        if not found:  # the kernel hides addresses
            return [(place, place.symbol) for place in probe.functions]
        return [
            (KernelFunction("", address + first.offset), name) for address, name in found.items()
        ]

    def _attach_many(
        self, probe: ProbeSpec, places: list[tuple[KernelFunction, str]], prog: Prog
    ) -> None:
        """Attach to many functions by as few links as possible: a list that is refused is halved.

        One unprobeable function makes the kernel refuse the whole list.
        """
        on_return = probe.provider is Provider.KRETPROBE
        waiting = [places]
        attached = 0
        while waiting:
            part = waiting.pop()
            try:
                link = syscall.link_kprobe_multi(prog, _listed(part), on_return=on_return)
            except KernelError as error:
                if error.errno in _GENERAL:
                    raise
                if len(part) == 1:
                    self._skip(probe, part[0][1], error)
                else:
                    middle = len(part) // 2
                    waiting += [part[middle:], part[:middle]]
            else:
                self._links.append(link)
                attached += len(part)
        if not attached:
            raise self._none_left(probe)

    def _skip(self, probe: ProbeSpec, function: str, error: KernelError) -> None:
        self.skipped.append(Skipped(probe.spec, function, error.strerror or ""))

    def _none_left(self, probe: ProbeSpec) -> KernelError:
        reasons = {one.reason for one in self.skipped if one.probe == probe.spec}
        hints = (f"the kernel said: {', '.join(sorted(reasons))}",)
        action = f"cannot probe any of the functions that {probe.spec} stands for"
        return KernelError(errno.ENOENT, action, hints=hints)

    def _explained(self, error: KernelError, probe: ProbeSpec) -> KernelError:
        (place,) = probe.functions
        where = place.symbol or f"address {place.offset:#x}"
        where += f"+{place.offset:#x}" if place.symbol and place.offset else ""
        hints = error.hints
        match error.errno:
            case errno.ENOENT if place.symbol:
                hints = self._missing(place.symbol)
            case errno.ENOENT:
                hints = ("no function of the kernel lies there",)
            case errno.EILSEQ:
                hints = ("no instruction starts at this offset",)
            case errno.EINVAL if place.offset and probe.provider is Provider.KRETPROBE:
                hints = ("a kretprobe is put on the start of a function",)
            case errno.EINVAL:
                hints = ("the kernel does not let this place be probed",)
            case _:
                pass
        return KernelError(error.errno or errno.EINVAL, f"cannot probe {where}", hints=hints)

    def _missing(self, name: str) -> tuple[str, ...]:
        """Say that there is no function of that name, and what may be meant."""
        module, _, bare = name.rpartition(":")
        try:
            known = self._target.functions()
        except TargetError:
            known = ()
        for today in self._target.arch.syscall_functions(bare):
            if today in known:
                return (
                    f"since Linux 4.17 that is {today}, with a struct pt_regs as argument",
                    "tracepoint:syscalls/sys_enter_… has the arguments of system calls",
                )
        where = f" in a loaded module called '{module}'" if module else ""
        return (f"there is no such function{where}{did_you_mean(bare, known)}",)


def _listed(places: list[tuple[KernelFunction, str]]) -> list[int] | list[str]:
    """Return addresses, or names where the kernel hides addresses."""
    if places[0][0].symbol:
        return [name for _, name in places]
    return [place.offset for place, _ in places]


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

    with ThreadPoolExecutor(_CLOSERS) as pool:
        for _ in pool.map(Fd.close, files):
            pass


def _all(steps: Sequence[Callable[[], None]]) -> Callable[[], None]:
    def attach() -> None:
        for step in steps:
            step()

    return attach


def why_no_kprobes() -> str:
    """Return why no function can be probed on this kernel; empty where that is possible."""
    if features.pmu("kprobe") is not None:
        return ""
    config = features.config()
    missing = [option for option in _KPROBE_OPTIONS if option not in config]
    if not config:
        return f"this kernel has no kprobes ({' or '.join(_KPROBE_OPTIONS)} is missing)"
    if missing:
        return f"this kernel was built without {' and '.join(missing)}"
    return "this kernel has no kprobe events for perf (Linux 4.17)"


def _named(tracepoint: str, attach: Callable[[], None]) -> Callable[[], None]:
    """Return ``attach``, whose failure tells which tracepoint it was about."""

    def named() -> None:
        try:
            attach()
        except KernelError as error:
            error.action = f"cannot attach to tracepoint:{tracepoint}"
            if tracepoint.startswith("ftrace/"):
                error.hints = ("events of ftrace/ are records of tracers, and run no programs",)
            raise

    return named
