"""A loaded program and where to in; what holds it attached, or what is missing to do so, out.

What its section names is attached to as libbpf does it. Some programs need to be told more: the
network interface, the cgroup, the network namespace. Nothing outlasts its Attached but pins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from pybpf.errors import KernelError
from pybpf.isa.abi import AttachType, ProgType
from pybpf.kernel import packed, syscall
from pybpf.kernel.attach import Attachments
from pybpf.objects import networks
from pybpf.objects.attached import Attached, Where, wants
from pybpf.objects.programs import BpfProgram
from pybpf.script import KernelFunction, ProbeSpec, Provider

if TYPE_CHECKING:
    from pybpf.kernel.live import LiveTarget


_OVER_MAPS = frozenset({"bpf_map_elem", "bpf_sk_storage_map"})
"""Iterators that want to be told a map."""


def attach(program: BpfProgram, where: Where, target: LiveTarget) -> Attached:
    """Attach a program; it must be loaded.

    Raises Unattachable where ``where`` lacks what it needs or nothing is to be done, KernelError
    where the place is not there or the kernel refuses.
    """
    assert program.source.kind is not None, "no other is loaded"
    word = program.source.kind.kind.name.removesuffix("+")
    if (step := _BY_SECTION.get(word)) is not None:
        return step(program, where, target)
    if (step := _BY_TYPE.get(program.prog_type)) is not None:
        return step(program, where, target)
    return _nowhere(program, where, target)


def _target_of(program: BpfProgram, example: str) -> str:
    if not program.target:
        hint = f"--target {program.name}={example}"
        raise wants(program, f"does not say what it is attached to, such as {example}", hint)
    return program.target


# The kernel's own code


def _probe(program: BpfProgram, spec: ProbeSpec, target: LiveTarget) -> Attached:
    """Attach by what attaches the clauses of scripts."""
    attachments = Attachments(target)
    try:
        attachments.open(spec, program.kernel)()
    except BaseException:
        attachments.close()
        raise
    return Attached(program.name, attachments.links, close=attachments.close)


def _tracepoint(program: BpfProgram, _where: Where, target: LiveTarget) -> Attached:
    name = _target_of(program, "sched/sched_switch")
    if name.count("/") != 1:
        raise wants(program, "does not name a tracepoint as category/event")
    spec = ProbeSpec(Provider.TRACEPOINT, program.section, program.source.program, tracepoint=name)
    return _probe(program, spec, target)


def _raw_tracepoint(program: BpfProgram, _where: Where, _target: LiveTarget) -> Attached:
    name = _target_of(program, "sched_switch")
    return Attached(program.name, (syscall.raw_tracepoint_open(program.kernel, name),))


def _typed(program: BpfProgram, where: Where, _target: LiveTarget) -> Attached:
    attach_type = program.source.program.expected_attach_type
    if attach_type is AttachType.LSM_CGROUP:
        return networks.cgroup(program, where, _target)
    if attach_type is AttachType.TRACE_ITER and program.target in _OVER_MAPS:
        hint = "`bpftool iter pin FILE.o PATH map MAP` names one"
        raise wants(program, "goes over the entries of a map, which it does not name", hint)
    if attach_type is AttachType.TRACE_ITER:
        link = packed.link_create(
            program.kernel, 0, attach_type, action=f"cannot attach the iterator {program.target}"
        )
    else:
        try:
            link = syscall.raw_tracepoint_open(program.kernel, None)
        except KernelError as error:
            error.action = f"cannot attach {program.name} to {program.target}"
            raise
    return Attached(program.name, (link,))


def _function(text: str) -> KernelFunction:
    """Return a place such as ``vfs_read+0x10``."""
    name, plus, offset = text.partition("+")
    try:
        return KernelFunction(name, int(offset, 0) if plus else 0)
    except ValueError:
        return KernelFunction(text)


def _provider(program: BpfProgram) -> Provider:
    assert program.source.kind is not None
    on_return = program.source.kind.kind.name.startswith(("kret", "uret"))
    return Provider.KRETPROBE if on_return else Provider.KPROBE


def _kprobe(program: BpfProgram, _where: Where, target: LiveTarget) -> Attached:
    place = _function(_target_of(program, "vfs_read"))
    spec = ProbeSpec(_provider(program), program.section, program.source.program, (place,))
    return _probe(program, spec, target)


def _ksyscall(program: BpfProgram, _where: Where, target: LiveTarget) -> Attached:
    name = f"sys_{_target_of(program, 'openat').removeprefix('sys_')}"
    known = set(target.functions())
    names = [each for each in (*target.arch.syscall_functions(name), name) if each in known]
    if not names:
        raise wants(program, f"names no system call of this kernel: {program.target}")
    place = KernelFunction(names[0])
    spec = ProbeSpec(_provider(program), program.section, program.source.program, (place,))
    return _probe(program, spec, target)


def _kprobe_multi(program: BpfProgram, _where: Where, target: LiveTarget) -> Attached:
    from fnmatch import fnmatchcase

    pattern = _target_of(program, "vfs_*")
    names = [name for name in target.functions() if fnmatchcase(name, pattern)]
    if not names:
        raise KernelError(2, f"cannot attach {program.name}: no function matches {pattern}")
    if program.source.program.expected_attach_type is AttachType.TRACE_KPROBE_SESSION:
        link = syscall.link_kprobe_multi(
            program.kernel, names, attach_type=AttachType.TRACE_KPROBE_SESSION
        )
        return Attached(program.name, (link,))
    spec = ProbeSpec(
        _provider(program), program.section, program.source.program,
        tuple(KernelFunction(name) for name in names), glob=True, traced=True,
    )  # fmt: skip
    return _probe(program, spec, target)


def _perf_event(program: BpfProgram, where: Where, target: LiveTarget) -> Attached:
    if where.frequency is None:
        raise wants(program, "runs as often as is said", "--frequency HZ", "attach(frequency=99)")
    spec = ProbeSpec(
        Provider.PROFILE, program.section, program.source.program, frequency=where.frequency
    )
    return _probe(program, spec, target)


# What others attach


def _nowhere(program: BpfProgram, _where: Where, _target: LiveTarget) -> Attached:
    hints = _ELSEWHERE.get(program.prog_type, ("another program, or a tool, has to use it",))
    raise wants(program, "cannot be attached by its section", *hints)


def _usdt(program: BpfProgram, _where: Where, _target: LiveTarget) -> Attached:
    raise wants(program, "is for a statically defined probe, which pybpf does not attach",
                 'SEC("uprobe/PATH:FUNCTION+OFFSET") reaches the same place')  # fmt: skip


def _user(program: BpfProgram, where: Where, _target: LiveTarget) -> Attached:
    from pybpf.objects import uprobes

    assert program.source.kind is not None
    place = _target_of(program, "/bin/sh:main")
    on_return = program.source.kind.kind.name.startswith("uret")
    if ".multi" in program.source.kind.kind.name or ".session" in program.source.kind.kind.name:
        links = (uprobes.link_many(program.kernel, place, where.pid, on_return=on_return,
                 attach_type=program.source.program.expected_attach_type),)  # fmt: skip
        return Attached(program.name, links)
    event, link = uprobes.link_one(program.kernel, place, where.pid, on_return=on_return)
    return Attached(program.name, (link,), (event,))


_Step = Callable[[BpfProgram, Where, "LiveTarget"], Attached]


def _sections() -> Iterator[tuple[str, _Step]]:
    for word in ("kprobe", "kretprobe"):
        yield word, _kprobe
    for word in ("kprobe.multi", "kretprobe.multi", "kprobe.session"):
        yield word, _kprobe_multi
    for word in ("ksyscall", "kretsyscall"):
        yield word, _ksyscall
    for base in ("uprobe", "uretprobe", "uprobe.multi", "uretprobe.multi", "uprobe.session"):
        yield base, _user
        yield f"{base}.s", _user
    for word in ("usdt", "usdt.s"):
        yield word, _usdt


_BY_SECTION: Mapping[str, _Step] = dict(_sections())
_BY_TYPE: Mapping[ProgType, _Step] = {
    ProgType.TRACEPOINT: _tracepoint,
    ProgType.RAW_TRACEPOINT: _raw_tracepoint,
    ProgType.RAW_TRACEPOINT_WRITABLE: _raw_tracepoint,
    ProgType.TRACING: _typed,
    ProgType.LSM: _typed,
    ProgType.EXT: _typed,
    ProgType.PERF_EVENT: _perf_event,
    ProgType.XDP: networks.xdp,
    ProgType.SCHED_CLS: networks.tc,
    ProgType.SOCKET_FILTER: networks.socket,
    ProgType.SK_LOOKUP: networks.network,
    ProgType.FLOW_DISSECTOR: networks.network,
    ProgType.NETFILTER: networks.netfilter,
    ProgType.CGROUP_SKB: networks.cgroup,
    ProgType.CGROUP_SOCK: networks.cgroup,
    ProgType.CGROUP_SOCK_ADDR: networks.cgroup,
    ProgType.CGROUP_SOCKOPT: networks.cgroup,
    ProgType.CGROUP_SYSCTL: networks.cgroup,
    ProgType.CGROUP_DEVICE: networks.cgroup,
    ProgType.SOCK_OPS: networks.cgroup,
}
_BY_ROUTE = ("`ip route add … encap bpf` uses it once it is pinned",)
_BY_MAP = ("program.attach_to(map) attaches it to a map of sockets",)
_ELSEWHERE: Mapping[ProgType, tuple[str, ...]] = {
    ProgType.SCHED_ACT: ("`tc filter … action bpf` uses it once it is pinned",),
    ProgType.SK_SKB: _BY_MAP,
    ProgType.SK_MSG: _BY_MAP,
    ProgType.SK_REUSEPORT: ("a socket takes it by setsockopt(SO_ATTACH_REUSEPORT_EBPF)",),
    ProgType.LWT_IN: _BY_ROUTE,
    ProgType.LWT_OUT: _BY_ROUTE,
    ProgType.LWT_XMIT: _BY_ROUTE,
    ProgType.LWT_SEG6LOCAL: _BY_ROUTE,
    ProgType.SYSCALL: ("program.run() runs it",),
    ProgType.STRUCT_OPS: ("it is attached with the structure that names it",),
    ProgType.LIRC_MODE2: ("`ir-keytable` attaches it to a device",),
}
