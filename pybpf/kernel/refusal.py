"""Why a function cannot be probed: the kernel's error number in, an error that says more out."""

from __future__ import annotations

import errno
from bisect import bisect_left

from pybpf.errors import KernelError, TargetError
from pybpf.kernel import features
from pybpf.kernel.functions import blacklist, located
from pybpf.script import KernelFunction, ProbeSpec, Provider
from pybpf.suggest import did_you_mean
from pybpf.target.target import Target

_KPROBE_OPTIONS = ("CONFIG_KPROBES", "CONFIG_KPROBE_EVENTS")
_SHOWN = 3
_REFUSED = "the kernel does not let this place be probed"


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


def check_inside(place: KernelFunction, target: Target) -> None:
    """Refuse an offset that leads into another function; the kernel takes any."""
    if not (place.symbol and place.offset):
        return
    starts = [*located([place.symbol], target, traceable=False)]
    beyond = [start for start in starts if not _within(start, place.offset, target)]
    if not starts or len(beyond) < len(starts):
        return
    # What is within a function comes before what is not.
    offsets = range(place.offset)
    size = max(
        bisect_left(offsets, 1, key=lambda n: not _within(start, n, target)) for start in starts
    )
    name, offset = target.symbols.resolve(starts[0] + place.offset) or ("no function", 0)
    hint = f"the function has {size} bytes ({size:#x}); that is {name}+{offset:#x}"
    raise KernelError(errno.EILSEQ, f"cannot probe {shown(place)}", hints=(hint,))


def _within(start: int, offset: int, target: Target) -> bool:
    """Whether so many bytes after the start of a function it has not ended."""
    found = target.symbols.resolve(start + offset)
    return found is not None and found[1] == offset


def shown(place: KernelFunction) -> str:
    """Return a place as messages call it."""
    if not place.symbol:
        return f"address {place.offset:#x}"
    return f"{place.symbol}+{place.offset:#x}" if place.offset else place.symbol


def explained(error: KernelError, probe: ProbeSpec, target: Target) -> KernelError:
    """Return the error of a probe on one place, with what is known about that place."""
    (place,) = probe.functions
    hints = error.hints
    match error.errno:
        case errno.ENOENT if place.symbol:
            hints = _missing(place.symbol, target)
        case errno.ENOENT:
            hints = ("no function of the kernel lies there",)
        case errno.EILSEQ:
            hints = ("no instruction starts at this offset",)
        case errno.EINVAL if place.offset and place.symbol and probe.provider is Provider.KRETPROBE:
            hints = ("a kretprobe is put on the start of a function",)
        case errno.EINVAL:
            hints = (_why_refused(place, target),)
        case _:
            pass
    return KernelError(error.errno or errno.EINVAL, f"cannot probe {shown(place)}", hints=hints)


def _why_refused(place: KernelFunction, target: Target) -> str:
    """Return why the kernel finds a place that exists invalid."""
    try:
        symbols, known = target.symbols, target.functions()
    except TargetError:
        return _REFUSED
    named = located([place.symbol], target, traceable=False)
    starts = [*named] if place.symbol else [place.offset]
    names = {found[0] for start in starts if (found := symbols.resolve(start))}
    if names & blacklist():
        return "it must not be probed: it is in debugfs' kprobes/blacklist (noinstr, for one)"
    first, last = (symbols.addresses(name) for name in ("_sinittext", "_einittext"))
    if first and last and any(first[0] <= start < last[0] for start in starts):
        return "it is gone: it only served to start the kernel (__init)"
    if named and place.symbol.rpartition(":")[2] not in known:
        return "it was compiled without what tracing it takes (notrace)"
    return _REFUSED


def _missing(name: str, target: Target) -> tuple[str, ...]:
    """Say that there is no function of that name, and what may be meant."""
    module, _, bare = name.rpartition(":")
    try:
        known = target.functions()
    except TargetError:
        known = ()
    for today in target.arch.syscall_functions(bare):
        if today in known:
            return (
                f"since Linux 4.17 that is {today}, with a struct pt_regs as argument",
                "tracepoint:syscalls/sys_enter_… has the arguments of system calls",
            )
    if variants := [one for one in known if one.startswith(f"{bare}.")]:
        rest = len(variants) - _SHOWN
        listed = ", ".join(variants[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
        return (f"the compiler made {listed} of it, whose arguments may be others",)
    where = f" in a loaded module called '{module}'" if module else ""
    return (f"there is no such function{where}{did_you_mean(bare, known)}",)
