"""A loaded program and where to in; what holds it attached, or what is missing to do so, out.

What its section names is attached to as libbpf does it. Some programs need to be told more: the
network interface, the cgroup, the network namespace. Nothing outlasts its Attached but pins.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from pybpf.dataclass import dataclass
from pybpf.errors import KernelError, ObjectError
from pybpf.isa.abi import AttachType, ProgType
from pybpf.kernel import packed, syscall
from pybpf.kernel.attach import Attachments
from pybpf.kernel.fd import Fd
from pybpf.kernel.netlink import Classifier, interface
from pybpf.objects.programs import BpfProgram
from pybpf.script import KernelFunction, ProbeSpec, Provider

if TYPE_CHECKING:
    from pybpf.kernel.live import LiveTarget

_OWN_NETWORK = "/proc/self/ns/net"
_HOOKS = ("prerouting", "input", "forward", "output", "postrouting")
_FAMILIES = {"ipv4": 2, "ipv6": 10}


@dataclass(frozen=True, slots=True)
class Where:
    """What sections do not say: where to attach programs that are not about the kernel's code.

    ``dev`` is the name of a network interface, ``cgroup`` a directory (``self``: this process's
    own), ``netns`` the file of a network namespace (``self``), ``pid`` the process that user
    probes are for (None: all), ``frequency`` how often each CPU runs a ``perf_event`` program in
    a second, ``netfilter`` a family, a hook and a priority: ``ipv4:input:-100``.
    """

    dev: str | None = None
    cgroup: str | None = None
    netns: str | None = None
    pid: int | None = None
    frequency: int | None = None
    netfilter: str | None = None


class Unattachable(ObjectError):
    """A program that is not attached as it is: something must be said, or done by other means."""


class Attached:
    """A program that is attached, until this is closed. ``links`` are what can be pinned."""

    def __init__(self, program: str, links: tuple[Fd, ...], others: tuple[Fd, ...] = (),
                 close: Callable[[], None] = lambda: None) -> None:  # fmt: skip
        self.program = program
        self.links = links
        self._others = others
        self._close = close

    def read(self) -> bytes:
        """Return what an iterator's program writes as it goes over everything once."""
        with packed.iter_create(self.links[0]) as file:
            found = b""
            while piece := os.read(file.fileno(), 1 << 16):
                found += piece
            return found

    def close(self) -> None:
        """Detach; closing twice is allowed."""
        for held in (*self.links, *self._others):
            held.close()
        self._close()

    def __repr__(self) -> str:
        return f"Attached({self.program!r})"


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


def _wants(program: BpfProgram, what: str, *hints: str) -> Unattachable:
    return Unattachable("", f'program {program.name} (SEC("{program.section}")) {what}',
                        hints=hints)  # fmt: skip


def _target_of(program: BpfProgram, example: str) -> str:
    if not program.target:
        hint = f"--target {program.name}={example}"
        raise _wants(program, f"does not say what it is attached to, such as {example}", hint)
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
        raise _wants(program, "does not name a tracepoint as category/event")
    spec = ProbeSpec(Provider.TRACEPOINT, program.section, program.source.program, tracepoint=name)
    return _probe(program, spec, target)


def _raw_tracepoint(program: BpfProgram, _where: Where, _target: LiveTarget) -> Attached:
    name = _target_of(program, "sched_switch")
    return Attached(program.name, (syscall.raw_tracepoint_open(program.kernel, name),))


def _typed(program: BpfProgram, where: Where, _target: LiveTarget) -> Attached:
    attach_type = program.source.program.expected_attach_type
    if attach_type is AttachType.LSM_CGROUP:
        return _cgroup(program, where, _target)
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
        raise _wants(program, f"names no system call of this kernel: {program.target}")
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
        raise _wants(program, "runs as often as is said", "--frequency HZ", "attach(frequency=99)")
    spec = ProbeSpec(
        Provider.PROFILE, program.section, program.source.program, frequency=where.frequency
    )
    return _probe(program, spec, target)


# Networks


def _device(program: BpfProgram, where: Where) -> int:
    if where.dev is None:
        raise _wants(program, "is attached to a network interface", "--dev IF", 'attach(dev="lo")')
    return interface(where.dev)


def _xdp(program: BpfProgram, where: Where, _target: LiveTarget) -> Attached:
    if program.source.program.expected_attach_type is not AttachType.XDP:
        raise _wants(program, "is not attached, but put into a map of devices or CPUs",
                     f'maps["devices"][0] = … takes programs["{program.name}"]')  # fmt: skip
    action = f"cannot attach {program.name} to the interface {where.dev}"
    link = packed.link_create(
        program.kernel, _device(program, where), AttachType.XDP, action=action
    )
    return Attached(program.name, (link,))


_TCX = frozenset({AttachType.TCX_INGRESS, AttachType.TCX_EGRESS})


def _tc(program: BpfProgram, where: Where, _target: LiveTarget) -> Attached:
    attach_type = program.source.program.expected_attach_type or AttachType.TCX_INGRESS
    device = _device(program, where)
    action = f"cannot attach {program.name} to the interface {where.dev}"
    try:
        link = packed.link_create(
            program.kernel, device, attach_type, action=action, rest=bytes(16)
        )
    except KernelError as error:
        if error.errno != 22 or attach_type not in _TCX:
            raise
        # Before Linux 6.6: a filter of the interface's clsact queueing discipline.
        ingress = attach_type is AttachType.TCX_INGRESS
        classifier = Classifier(device, program.kernel, program.name, ingress=ingress)
        return Attached(program.name, (), close=classifier.close)
    return Attached(program.name, (link,))


def _socket(program: BpfProgram, where: Where, _target: LiveTarget) -> Attached:
    """Filter what a packet socket of our own sees, so that the program runs on all packets."""
    import socket

    device = where.dev
    if device is None:
        hint = "sock.setsockopt(socket.SOL_SOCKET, 50, program.fileno()) filters for a socket"
        raise _wants(program, "filters what a socket sees", "--dev IF: all packets there", hint)
    interface(device)
    everything = 3  # ETH_P_ALL
    held = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        held.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_BPF, program.fileno())
        held.bind((device, everything))
    except OSError as error:
        held.close()
        action = f"cannot let {program.name} filter packets of {device}"
        raise KernelError(error.errno or 0, action) from None
    return Attached(program.name, (), (Fd(held.detach()),))


_SO_ATTACH_BPF = 50


def _network(program: BpfProgram, where: Where, _target: LiveTarget) -> Attached:
    if where.netns is None:
        raise _wants(program, "is attached to a network namespace", "--netns self, or a file",
                     'attach(netns="self")')  # fmt: skip
    path = _OWN_NETWORK if where.netns == "self" else where.netns
    attach_type = program.source.program.expected_attach_type
    assert attach_type is not None, "their sections have one"
    action = f"cannot attach {program.name} to the network namespace {path}"
    try:
        namespace = Fd(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        raise KernelError(error.errno or 0, action) from None
    with namespace:
        link = packed.link_create(program.kernel, namespace.fileno(), attach_type, action=action)
    return Attached(program.name, (link,))


def _netfilter(program: BpfProgram, where: Where, _target: LiveTarget) -> Attached:
    if where.netfilter is None:
        raise _wants(program, "is attached to a hook of packets",
                     "--netfilter ipv4:input:-100 (family, hook and priority)")  # fmt: skip
    family, hook, priority = _netfilter_hook(where.netfilter)
    rest = struct.pack("=IIiI", family, hook, priority, 0)
    action = f"cannot attach {program.name} to {where.netfilter}"
    link = packed.link_create(program.kernel, 0, AttachType.NETFILTER, action=action, rest=rest)
    return Attached(program.name, (link,))


def _netfilter_hook(text: str) -> tuple[int, int, int]:
    family, _, rest = text.partition(":")
    hook, _, priority = rest.partition(":")
    try:
        return _FAMILIES[family], _HOOKS.index(hook), int(priority or "-100")
    except (KeyError, ValueError):
        reason = f"{text} is not a family (ipv4, ipv6), a hook ({', '.join(_HOOKS)}) and a priority"
        raise ObjectError("", reason) from None


def _cgroup(program: BpfProgram, where: Where, _target: LiveTarget) -> Attached:
    if where.cgroup is None:
        raise _wants(program, "is attached to a cgroup", "--cgroup PATH, or --cgroup self",
                     'attach(cgroup="self")')  # fmt: skip
    from pybpf.kernel.cgroup import open_cgroup

    attach_type = program.source.program.expected_attach_type
    if attach_type is None:  # SEC("cgroup/skb")
        attach_type = AttachType.CGROUP_INET_INGRESS
    action = f"cannot attach {program.name} to the cgroup {where.cgroup}"
    with open_cgroup(where.cgroup) as group:
        link = packed.link_create(program.kernel, group.fileno(), attach_type, action=action)
    return Attached(program.name, (link,))


# What others attach


def _nowhere(program: BpfProgram, _where: Where, _target: LiveTarget) -> Attached:
    hints = _ELSEWHERE.get(program.prog_type, ("another program, or a tool, has to use it",))
    raise _wants(program, "cannot be attached by its section", *hints)


def _usdt(program: BpfProgram, _where: Where, _target: LiveTarget) -> Attached:
    raise _wants(program, "is for a statically defined probe, which pybpf does not attach",
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
    ProgType.XDP: _xdp,
    ProgType.SCHED_CLS: _tc,
    ProgType.SOCKET_FILTER: _socket,
    ProgType.SK_LOOKUP: _network,
    ProgType.FLOW_DISSECTOR: _network,
    ProgType.NETFILTER: _netfilter,
    ProgType.CGROUP_SKB: _cgroup,
    ProgType.CGROUP_SOCK: _cgroup,
    ProgType.CGROUP_SOCK_ADDR: _cgroup,
    ProgType.CGROUP_SOCKOPT: _cgroup,
    ProgType.CGROUP_SYSCTL: _cgroup,
    ProgType.CGROUP_DEVICE: _cgroup,
    ProgType.SOCK_OPS: _cgroup,
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
