"""What scripts need of a kernel, each used once: nothing in; a finding for each out.

Every check does what a script would do, mostly by a small script, and takes down what it set up.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pybpf.dataclass import dataclass
from pybpf.errors import KernelError, PybpfError, SourceError, TargetError
from pybpf.isa.abi import MapType
from pybpf.kernel import features, rights
from pybpf.kernel.live import LiveTarget
from pybpf.kernel.maps import Map
from pybpf.kernel.refusal import why_no_kprobes
from pybpf.kernel.tracefs import open_tracefs
from pybpf.target.kernel_types import LIVE
from pybpf.tracing import trace

_LARGE = 16 << 20
_PATIENCE = 2.0
_WORK = 0.05
_MAPS = (MapType.ARRAY, MapType.PERCPU_ARRAY, MapType.HASH, MapType.PERCPU_HASH)


class Missing(PybpfError):
    """A feature that was used, and did not do what it should."""


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that scripts use.

    ``use`` uses it, returns what there is to say of it, and raises PybpfError where it is missing.
    ``options`` are the kernel's build options that it depends on; ``without`` says what cannot be
    done without it, which is everything where it is ``needed``.
    """

    name: str
    use: Callable[[], str]
    options: tuple[str, ...]
    without: str
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether a feature is there, what there is to say of it, and the build options it lacks."""

    feature: Feature
    found: bool
    detail: str
    lacking: tuple[str, ...] = ()


def findings() -> Iterator[Finding]:
    """Use every feature and yield what was found, in an order in which causes come first."""
    for feature in FEATURES:
        try:
            yield Finding(feature, found=True, detail=feature.use())
        except (PybpfError, OSError) as error:
            lacking = _lacking_options(feature)
            reason = _reason(error, feature, lacking)
            yield Finding(feature, found=False, detail=reason, lacking=lacking)


def _lacking_options(feature: Feature) -> tuple[str, ...]:
    """Return the options that this kernel was built without, as far as it tells."""
    config = features.config()
    return tuple(option for option in feature.options if config and option not in config)


def _reason(error: Exception, feature: Feature, lacking: tuple[str, ...]) -> str:
    """Return in one line why a feature is missing."""
    if lacking:
        return f"this kernel was built without {_listed(lacking)}"
    match error:
        case OSError(errno=errno.EPERM | errno.EACCES):
            why = rights.explain() or "; ".join(getattr(error, "hints", ()))
            return f"{error.strerror}; {why}" if why else str(error.strerror)
        case SourceError():
            first = error.diagnostics[0]
            return _sentence(first.message, first.hints)
        case TargetError():
            return _sentence(error.message, error.hints)
        case Missing():
            return str(error)
        case _:
            said = str(error).partition("\n")[0]
    if features.config() or not feature.options:
        return said
    return f"{said}; was this kernel built with {_listed(feature.options)}?"


def _sentence(message: str, hints: Sequence[str]) -> str:
    """Return a message with its hints, but for those about compiling for other machines."""
    return "; ".join((message, *(hint for hint in hints if "--target" not in hint)))


def _listed(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


# Rights


def _capabilities() -> str:
    if not rights.are_told():
        return "not known without /proc/self/status"
    missing = rights.needed()
    if missing:
        raise Missing(f"this process lacks {_listed(missing)}, which root has")
    if rights.in_user_namespace():
        raise Missing("this is a user namespace, whose capabilities do not count")
    lacking = rights.lacking()
    return f"all but {', '.join(lacking)}" if lacking else "all that tracing can take"


def _restrictions() -> str:
    found = [f"{name}={value}" for name, value in rights.sysctls().items()]
    if rights.filtered():
        found.append("a seccomp filter")
    mode = rights.lockdown()
    if mode == "confidentiality":
        raise Missing(f"the kernel is locked down ({mode}): programs may not read its memory")
    return ", ".join([*found, f"lockdown={mode}"] if mode else found)


# BPF


def _system_call() -> str:
    Map(MapType.ARRAY, "probe", 4, 8, 1).close()
    return ""


def _program() -> str:
    if error := features.why_unavailable():
        raise error
    return ""


def _maps() -> str:
    for kind in _MAPS:
        Map(kind, "probe", 4, 8, 8).close()
    return ", ".join(kind.name.lower() for kind in _MAPS)


def _begin() -> str:
    """Run BEGIN and END; what both print must arrive."""
    with trace("BEGIN { print(1); exit(0); } END { print(2); }") as run:
        printed = "".join(map(run.text, (*run.rows(_PATIENCE), *run.finish())))
    if printed.split() != ["1", "2"]:
        raise Missing("what BEGIN and END print does not arrive")
    return "by BPF_PROG_TEST_RUN"


def _ring() -> str:
    if not features.ringbuf():
        raise Missing("this kernel has no BPF ring buffer (Linux 5.8)")
    return ""


def _links() -> str:
    if not features.perf_link():
        raise Missing("this kernel has no BPF links to perf events (Linux 5.15)")
    return ""


def _btf() -> str:
    if not features.debug_info():
        raise Missing("this kernel takes no BTF with programs (Linux 5.0)")
    return f"the kernel's own is {LIVE}" if Path(LIVE).exists() else "the kernel's own is not there"


def _memory() -> str:
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    said = "no limit" if limit == resource.RLIM_INFINITY else f"{limit >> 10} KiB"
    try:
        Map(MapType.ARRAY, "probe", 4, _LARGE >> 4, 1 << 4).close()
    except KernelError as error:
        if error.errno != errno.EPERM or rights.explain():
            raise
        raise Missing(f"RLIMIT_MEMLOCK is {said}: raise it by `ulimit -l unlimited`") from None
    return f"{_LARGE >> 20} MiB taken; RLIMIT_MEMLOCK is {said}"


def _user_string() -> str:
    """Read a string of this process, which a test run of a program is part of."""
    from pybpf.kernel.syscall import ffi

    words = ffi.new("char[]", b"of user space")
    address = str(int(ffi.cast("uintptr_t", words)))
    script = "BEGIN { @[str(uptr($words))] = count(); }"
    with trace(script, environment={"words": address}) as run:
        found = list(run.maps["@"])
    if found != ["of user space"]:
        raise Missing(f"instead of 'of user space' a program reads {found}")
    return ""


# Events


def _tracefs() -> str:
    with open_tracefs() as tree:
        mounted = tree.where.startswith("/")
        return tree.where if mounted else "mounted nowhere, so used without a mount point"


def _fires(spec: str, act: Callable[[], object]) -> str:
    """Attach a probe, act, and see that it fired in this process."""
    script = f"{spec} / pid == $self / {{ @ = count(); }}"
    with trace(script, environment={"self": str(os.getpid())}) as run:
        act()
        for _ in run.finish():
            pass
        times = sum(run.maps["@"].values())
    if not times:
        raise Missing(f"{spec} was attached, and did not fire")
    return f"{spec} fires"


def _read_a_file() -> None:
    Path("/proc/self/stat").read_bytes()


def _sleep() -> None:
    """Let go of the CPU; where emulation is slow, a short sleep may be over before it begins."""
    for _ in range(9):
        time.sleep(0.003)


def _tracepoint() -> str:
    return _fires("tracepoint:sched/sched_switch", _sleep)


def _system_calls() -> str:
    return _fires("tracepoint:syscalls/sys_enter_getppid", os.getppid)


def _kprobe() -> str:
    return _fires("kprobe:vfs_read", _read_a_file)


def _kretprobe() -> str:
    return _fires("kretprobe:vfs_read", _read_a_file)


def _kprobe_multi() -> str:
    if reason := why_no_kprobes():
        raise Missing(reason)
    if not features.kprobe_multi():
        raise Missing("this kernel has no kprobe.multi links (Linux 5.18)")
    return _fires("kprobe:vfs_rea[d]", _read_a_file)


def _interval() -> str:
    with trace("interval:1ms { exit(0); }") as run:
        for _ in run.rows(_PATIENCE):
            pass
        if run.ending is None:
            raise Missing("interval:1ms was attached, and did not fire")
    return "interval:1ms fires"


def _profile() -> str:
    def work() -> None:
        until = time.process_time() + _WORK
        while time.process_time() < until:
            pass

    return _fires("profile:1000hz", work)


def _symbols() -> str:
    return f"{len(LiveTarget().symbols):,} symbols in /proc/kallsyms"


def _stack() -> str:
    with trace("BEGIN { @[stack] = count(); }") as run:
        if not all(run.maps["@"]):
            raise Missing("stack traces are empty")
    return ""


FEATURES = (
    Feature("capabilities", _capabilities, (), "no script runs"),
    Feature("restrictions", _restrictions, (), "addresses cannot be read"),
    Feature("bpf()", _system_call, ("CONFIG_BPF_SYSCALL",), "no script runs", needed=True),
    Feature("programs", _program, ("CONFIG_BPF_EVENTS",), "no script runs", needed=True),
    Feature("maps", _maps, (), "no script runs", needed=True),
    Feature("BEGIN, END", _begin, (), "no script prints", needed=True),
    Feature("ring buffer", _ring, (), "records of several CPUs are not in order"),
    Feature("links", _links, (), "a program stays attached while its event is open"),
    Feature("BTF", _btf, (), "bpftool does not show the script's lines"),
    Feature("memory", _memory, (), "no large maps (--map-size, --buffer)"),
    Feature("user strings", _user_string, (), "no str() and mem() of uptr()"),
    Feature("stack traces", _stack, ("CONFIG_PERF_EVENTS", "CONFIG_STACKTRACE"), "no `stack`"),
    Feature("symbols", _symbols, ("CONFIG_KALLSYMS",), "`stack` and `caller` are numbers"),
    Feature("tracefs", _tracefs, ("CONFIG_TRACING",), "no tracepoint: probes"),
    Feature("tracepoint", _tracepoint, ("CONFIG_EVENT_TRACING",), "no tracepoint: probes"),
    Feature(
        "system calls", _system_calls, ("CONFIG_FTRACE_SYSCALLS",), "no tracepoint:syscalls/ probes"
    ),
    Feature("kprobe", _kprobe, ("CONFIG_KPROBES", "CONFIG_KPROBE_EVENTS"), "no kprobe: probes"),
    Feature(
        "kretprobe", _kretprobe, ("CONFIG_KPROBES", "CONFIG_KPROBE_EVENTS", "CONFIG_KRETPROBES"),
        "no kretprobe: probes",
    ),
    Feature(
        "kprobe.multi", _kprobe_multi, ("CONFIG_KPROBES", "CONFIG_FPROBE"),
        "patterns attach to one function after the other",
    ),
    Feature("interval", _interval, ("CONFIG_PERF_EVENTS",), "no interval: probes"),
    Feature("profile", _profile, ("CONFIG_PERF_EVENTS",), "no profile: probes"),
)  # fmt: skip
"""Everything that is checked."""
