"""System calls as typed functions: plain values in; an ``Fd`` or a value out, or KernelError.

The only module that imports the extension. It decides nothing but how a failure is worded: retries,
fallbacks and cleaning up belong to its callers.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from pybpf.dataclass import dataclass
from pybpf.errors import KernelError
from pybpf.isa.abi import AttachType, MapType, ProgType
from pybpf.kernel.fd import Fd

try:
    # pybpf.kernel.child, maps and ringbuf take them from here.
    from pybpf._bpf_syscall import ffi as ffi  # noqa: PLC0414, TID251
    from pybpf._bpf_syscall import lib as lib  # noqa: PLC0414, TID251
except ImportError as error:
    raise KernelError(
        errno.ENOSYS,
        f"cannot load the extension pybpf._bpf_syscall ({error})",
        hints=("installing pybpf with pip builds it; the VM runs scripts without it",),
    ) from error

if TYPE_CHECKING:
    from pybpf._bpf_syscall import CData  # noqa: TID251

_HINTS = {
    errno.EPERM: (
        (
            "this needs root, or the capabilities CAP_BPF and CAP_PERFMON, "
            "and for tracepoints the right to read tracefs"
        ),
    ),
    errno.EMFILE: ("too many files are open for this process's limit: see `ulimit -n`",),
    errno.ENOSYS: ("this kernel was built without the system call (CONFIG_BPF_SYSCALL)",),
}

# The kernel's own number for "not supported", which no C library knows, gets out of some commands.
ENOTSUPP = 524

# How much a verifier writes to its log: what it went through and why it refuses, or the latter and
# how much it did. Source: BPF_LOG_LEVEL1 and BPF_LOG_STATS in include/linux/bpf_verifier.h.
LOG_INSNS = 1
LOG_STATS = 4


def check(result: int, action: str) -> int:
    """Return the result of a C function; raises KernelError where it is -errno."""
    if result == -ENOTSUPP:
        result = -errno.EOPNOTSUPP
    if result < 0:
        raise KernelError(-result, action, hints=_hints(-result))
    return result


def _hints(number: int) -> tuple[str, ...]:
    """Return what to do about an errno; of a lack of rights also which are lacking."""
    hints = _HINTS.get(number, ())
    if number != errno.EPERM:
        return hints
    from pybpf.kernel.rights import explain

    why = explain()
    return (*hints, why) if why else hints


class Kind(IntEnum):
    """The kinds of objects that the kernel numbers."""

    PROG = lib.BPF_OBJECT_PROG
    MAP = lib.BPF_OBJECT_MAP
    BTF = lib.BPF_OBJECT_BTF
    LINK = lib.BPF_OBJECT_LINK


def object_name(name: str) -> bytes:
    """Return the name as the kernel takes it: 15 letters, digits and ``_``, others replaced."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)[:15].encode()


# Maps: pybpf.kernel.maps calls the element functions of ``lib`` itself.


def map_create(
    map_type: MapType,
    name: str,
    key_size: int,
    value_size: int,
    max_entries: int,
    flags: int = 0,
    *,
    btf: Fd | None = None,
    types: tuple[int, int] = (0, 0),
    inner: Fd | None = None,
) -> Fd:
    """Create a map; sizes in bytes. ``types`` are the numbers of key and value type in ``btf``.

    A map of maps holds such as ``inner``, which may be closed afterwards.
    """
    fd = lib.bpf_map_create(
        map_type,
        object_name(name),
        key_size,
        value_size,
        max_entries,
        flags,
        0,
        btf.fileno() if btf else 0,
        *types,
        inner.fileno() if inner else 0,
    )
    return Fd(check(fd, f"cannot create the {map_type.name.lower()} map {name}"))


# Programs


def prog_load(
    insns: bytes,
    prog_type: ProgType,
    name: str = "",
    *,
    licence: str = "GPL",
    expected_attach_type: int | None = None,
    flags: int = 0,
    btf: Fd | None = None,
    func_info: bytes = b"",
    line_info: bytes = b"",
    attach_btf_id: int = 0,
    attach_fd: Fd | None = None,
    kern_version: int = 0,
    modules: Sequence[Fd] = (),
    log: bytearray | None = None,
) -> Fd:
    """Load a program of encoded instructions; the verifier writes to ``log`` where one is given."""
    fd = try_load(
        insns,
        prog_type,
        name,
        licence=licence,
        expected_attach_type=expected_attach_type or 0,
        flags=flags,
        btf=btf,
        func_info=func_info,
        line_info=line_info,
        attach_btf_id=attach_btf_id,
        attach_fd=attach_fd,
        kern_version=kern_version,
        modules=modules,
        log=log,
    )
    return Fd(check(fd, f"cannot load the program {name or prog_type.name.lower()}"))


def try_load(
    insns: bytes,
    prog_type: int,
    name: str = "",
    *,
    licence: str = "GPL",
    expected_attach_type: int = 0,
    flags: int = 0,
    btf: Fd | None = None,
    func_info: bytes = b"",
    line_info: bytes = b"",
    attach_btf_id: int = 0,
    attach_fd: Fd | None = None,
    kern_version: int = 0,
    modules: Sequence[Fd] = (),
    log: bytearray | None = None,
    log_level: int = LOG_INSNS,
) -> int:
    """Load a program of any type as ``prog_load`` does; return its descriptor or -errno.

    For those that load many programs and expect refusals. ``attach_btf_id`` is of the kernel's own
    types, or of what ``attach_fd`` is: the BTF of a module, or a program. ``modules`` are the BTF
    that calls of kfuncs count from 1 on.
    """
    if modules:
        from pybpf.kernel import packed

        return packed.try_load(
            insns, prog_type, name, licence=licence, expected_attach_type=expected_attach_type,
            flags=flags, btf=btf, func_info=func_info, line_info=line_info,
            attach_btf_id=attach_btf_id, attach_fd=attach_fd, kern_version=kern_version, log=log,
            log_level=log_level, modules=modules,
        )  # fmt: skip
    return lib.bpf_prog_load(
        prog_type,
        expected_attach_type,
        flags,
        object_name(name),
        licence.encode(),
        kern_version,
        insns,
        len(insns) // 8,
        btf.fileno() if btf else 0,
        func_info,
        len(func_info) // 8,
        line_info,
        len(line_info) // 16,
        attach_btf_id,
        attach_fd.fileno() if attach_fd else 0,
        ffi.from_buffer(log) if log else ffi.NULL,
        len(log) if log else 0,
        log_level if log else 0,
    )


@dataclass(frozen=True, slots=True)
class TestRun:
    """What a test run gave: the program's result, its data afterwards, and nanoseconds a run."""

    retval: int
    data: bytes
    duration: int


def prog_test_run(
    prog: Fd,
    *,
    ctx: bytes = b"",
    data: bytes = b"",
    repeat: int = 0,
    flags: int = 0,
    cpu: int = 0,
) -> TestRun:
    """Run a program once (or ``repeat`` times) on the given context and packet data."""
    # A packet may grow by this much, as far as the helpers for packets allow.
    room = len(data) + 256 if data else 0
    out = bytearray(room)
    out_size = ffi.new("uint32_t *", room)
    retval = ffi.new("uint32_t *")
    duration = ffi.new("uint32_t *")
    result = lib.bpf_prog_test_run(
        prog.fileno(),
        ctx or ffi.NULL,
        len(ctx),
        data or ffi.NULL,
        len(data),
        ffi.from_buffer(out) if room else ffi.NULL,
        out_size,
        repeat,
        flags,
        cpu,
        retval,
        duration,
    )
    check(result, "cannot run the program by BPF_PROG_TEST_RUN")
    return TestRun(retval[0], bytes(out[: out_size[0]]), duration[0])


def btf_load(blob: bytes, log: bytearray | None = None) -> Fd:
    """Load BTF; the kernel writes its complaints to ``log`` where one is given."""
    fd = lib.bpf_btf_load(
        blob,
        len(blob),
        ffi.from_buffer(log) if log else ffi.NULL,
        len(log) if log else 0,
        1 if log else 0,
    )
    return Fd(check(fd, "cannot load BTF"))


def enable_stats() -> Fd:
    """Count run_time_ns and run_cnt of all programs for as long as the result is open."""
    return Fd(check(lib.bpf_enable_stats(), "cannot enable BPF statistics"))


# Objects by number


def object_ids(kind: Kind) -> Iterator[int]:
    """Yield the ids of all objects of a kind, ascending."""
    found = ffi.new("uint32_t *")
    while (result := lib.bpf_next_id(kind, found[0], found)) != -errno.ENOENT:
        check(result, f"cannot list BPF objects ({kind.name.lower()})")
        yield found[0]


def object_by_id(kind: Kind, number: int) -> Fd:
    """Open an object by its id; KernelError with ENOENT where it is gone."""
    return Fd(check(lib.bpf_fd_by_id(kind, number), f"cannot open {kind.name.lower()} {number}"))


def object_info(fd: Fd, info: CData) -> None:
    """Fill a ``struct bpf_*_info``; arrays it points to must stay alive until this returns."""
    result = lib.bpf_obj_info(fd.fileno(), info, ffi.sizeof(info[0]))
    check(result, "cannot ask about a BPF object")


# Links: closing the result detaches, unless the link is held elsewhere too.


def raw_tracepoint_open(prog: Fd, name: str | None, cookie: int = 0) -> Fd:
    """Attach to a raw tracepoint; without a name, to what a TRACING program was loaded for."""
    fd = lib.bpf_raw_tracepoint_open(
        name.encode() if name is not None else ffi.NULL, prog.fileno(), cookie
    )
    return Fd(check(fd, f"cannot attach to the raw tracepoint {name or '(of the program)'}"))


def link_perf_event(prog: Fd, event: Fd, cookie: int = 0) -> Fd:
    """Attach to a perf event by a link (Linux 5.15)."""
    fd = lib.bpf_link_perf_event(prog.fileno(), event.fileno(), cookie)
    return Fd(check(fd, "cannot link the program to a perf event"))


def link_tracing(prog: Fd, attach_type: AttachType, cookie: int = 0) -> Fd:
    """Attach a TRACING program to the function it was loaded for, with a cookie (Linux 5.19)."""
    fd = lib.bpf_link_tracing(prog.fileno(), attach_type, 0, 0, cookie)
    return Fd(check(fd, "cannot link the tracing program"))


def _u64s(values: Sequence[int]) -> CData:
    return ffi.new("uint64_t[]", values) if values else ffi.NULL


def link_kprobe_multi(
    prog: Fd,
    functions: Sequence[str] | Sequence[int],
    *,
    on_return: bool = False,
    cookies: Sequence[int] = (),
    attach_type: AttachType = AttachType.TRACE_KPROBE_MULTI,
) -> Fd:
    """Attach to many functions at once, by names or by addresses (Linux 5.18)."""
    names = [ffi.new("char[]", f.encode()) for f in functions if isinstance(f, str)]
    addresses = [f for f in functions if isinstance(f, int)]
    fd = lib.bpf_link_kprobe_multi(
        prog.fileno(),
        attach_type,
        1 if on_return else 0,
        len(functions),
        ffi.new("char *[]", names) if names else ffi.NULL,
        _u64s(addresses),
        _u64s(cookies),
    )
    return Fd(check(fd, f"cannot attach to {len(functions)} functions by kprobe.multi"))


def link_uprobe_multi(
    prog: Fd,
    path: str,
    offsets: Sequence[int],
    *,
    on_return: bool = False,
    cookies: Sequence[int] = (),
    pid: int = 0,
    attach_type: AttachType = AttachType.TRACE_UPROBE_MULTI,
) -> Fd:
    """Attach to many file offsets of a binary at once, for one process or all (Linux 6.6)."""
    fd = lib.bpf_link_uprobe_multi(
        prog.fileno(),
        attach_type,
        1 if on_return else 0,
        len(offsets),
        os.fsencode(path),
        _u64s(offsets),
        ffi.NULL,
        _u64s(cookies),
        pid,
    )
    return Fd(check(fd, f"cannot attach to {len(offsets)} places in {path} by uprobe.multi"))


def link_detach(link: Fd) -> None:
    """Detach a link although others hold it too (Linux 5.9); the kinds for tracing cannot be."""
    check(lib.bpf_link_detach(link.fileno()), "cannot detach a link")


# Perf events


def perf_open(
    event_type: int,
    config: int,
    *,
    period: int = 0,
    frequency: int = 0,
    sample_type: int = 0,
    wakeup: int = 0,
    pid: int = -1,
    cpu: int = -1,
) -> Fd:
    """Open a perf event, disabled; it samples every ``period`` events or at ``frequency`` Hz."""
    disabled, freq = 1 << 0, 1 << 10
    fd = lib.perf_open(
        event_type,
        config,
        frequency or period,
        sample_type,
        disabled | (freq if frequency else 0),
        wakeup,
        pid,
        cpu,
        -1,
        0,
    )
    where = f"process {pid}" if pid >= 0 else f"CPU {cpu}"
    return _perf_event(fd, f"cannot open perf event {event_type}:{config} on {where}")


def perf_open_probe(
    pmu: int, config: int, name: str | None, offset: int, *, pid: int = -1, cpu: int = -1
) -> Fd:
    """Open an event of the kprobe PMU (function + offset, or an address) or the uprobe PMU (file).

    ``config`` holds the bits that the PMU's ``format`` files name (``retprobe``).
    """
    fd = lib.perf_open_probe(
        pmu, config, os.fsencode(name) if name is not None else ffi.NULL, offset, pid, cpu, 0
    )
    place = f"{name}+{offset:#x}" if name is not None else f"{offset:#x}"
    return _perf_event(fd, f"cannot open a probe on {place}")


def _perf_event(result: int, action: str) -> Fd:
    if result == -errno.EACCES:
        from pybpf.kernel.rights import why_no_perf

        raise KernelError(errno.EACCES, action, hints=(why_no_perf(),))
    return Fd(check(result, action))


def perf_enable(event: Fd) -> None:
    """Let the event count."""
    check(lib.perf_enable(event.fileno()), "cannot enable a perf event")


def perf_disable(event: Fd) -> None:
    """Stop the event from counting."""
    check(lib.perf_disable(event.fileno()), "cannot disable a perf event")


def perf_set_bpf(event: Fd, prog: Fd) -> None:
    """Attach a program to the event, until the event is closed."""
    check(lib.perf_set_bpf(event.fileno(), prog.fileno()), "cannot attach to a perf event")


def perf_set_filter(event: Fd, text: str) -> None:
    """Set the event's filter, in the grammar of trace events or of address filters."""
    check(lib.perf_set_filter(event.fileno(), text.encode()), f"cannot set the filter {text!r}")


def perf_id(event: Fd) -> int:
    """Return the id that the event's records carry."""
    number = ffi.new("uint64_t *")
    check(lib.perf_id(event.fileno(), number), "cannot ask for the id of a perf event")
    return int(number[0])


def mount_detached(fstype: str) -> Fd:
    """Mount a file system nowhere; open files in it with ``dir_fd``. Closing leaves nothing behind.

    Linux 5.2, and CAP_SYS_ADMIN.
    """
    return Fd(check(lib.mount_detached(fstype.encode()), f"cannot mount {fstype}"))
