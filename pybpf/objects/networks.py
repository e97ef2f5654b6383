"""A program of networks or cgroups and where to in; what holds it attached out."""

from __future__ import annotations

import errno
import os
import struct
from typing import TYPE_CHECKING

from pybpf.errors import KernelError, ObjectError
from pybpf.isa.abi import AttachType
from pybpf.kernel import packed
from pybpf.kernel.fd import Fd
from pybpf.kernel.netlink import Classifier, interface
from pybpf.objects.attached import Attached, Where, wants
from pybpf.objects.programs import BpfProgram

if TYPE_CHECKING:
    from pybpf.kernel.live import LiveTarget

_OWN_NETWORK = "/proc/self/ns/net"
_HOOKS = ("prerouting", "input", "forward", "output", "postrouting")
_FAMILIES = {"ipv4": 2, "ipv6": 10}
_TCX = frozenset({AttachType.TCX_INGRESS, AttachType.TCX_EGRESS})
_SO_ATTACH_BPF = 50


def _device(program: BpfProgram, where: Where) -> int:
    if where.dev is None:
        raise wants(program, "is attached to a network interface", "--dev IF", 'attach(dev="lo")')
    return interface(where.dev)


def xdp(program: BpfProgram, where: Where, _target: LiveTarget) -> Attached:
    """Attach to the driver of an interface."""
    if program.source.program.expected_attach_type is not AttachType.XDP:
        hint = "the value of such a map has a place for the descriptor of a program"
        raise wants(program, "is not attached, but put into a map of devices or CPUs", hint)
    action = f"cannot attach {program.name} to the interface {where.dev}"
    link = packed.link_create(
        program.kernel, _device(program, where), AttachType.XDP, action=action
    )
    return Attached(program.name, (link,))


def tc(program: BpfProgram, where: Where, _target: LiveTarget) -> Attached:
    """Attach to the packets that come to an interface, or leave it."""
    attach_type = program.source.program.expected_attach_type or AttachType.TCX_INGRESS
    device = _device(program, where)
    action = f"cannot attach {program.name} to the interface {where.dev}"
    try:
        link = packed.link_create(
            program.kernel, device, attach_type, action=action, rest=bytes(16)
        )
    except KernelError as error:
        if error.errno != errno.EINVAL or attach_type not in _TCX:
            raise
        # Before Linux 6.6: a filter of the interface's clsact queueing discipline.
        ingress = attach_type is AttachType.TCX_INGRESS
        classifier = Classifier(device, program.kernel, program.name, ingress=ingress)
        return Attached(program.name, (), close=classifier.close)
    return Attached(program.name, (link,))


def socket(program: BpfProgram, where: Where, _target: LiveTarget) -> Attached:
    """Filter what a packet socket of our own sees, so that the program runs on all packets."""
    import socket as sockets

    device = where.dev
    if device is None:
        hint = "sock.setsockopt(socket.SOL_SOCKET, 50, program.fileno()) filters for a socket"
        raise wants(program, "filters what a socket sees", "--dev IF: all packets there", hint)
    interface(device)
    everything = 3  # ETH_P_ALL
    held = sockets.socket(sockets.AF_PACKET, sockets.SOCK_RAW, 0)
    try:
        held.setsockopt(sockets.SOL_SOCKET, _SO_ATTACH_BPF, program.fileno())
        held.bind((device, everything))
    except OSError as error:
        held.close()
        action = f"cannot let {program.name} filter packets of {device}"
        raise KernelError(error.errno or 0, action) from None
    return Attached(program.name, (), (Fd(held.detach()),))


def network(program: BpfProgram, where: Where, _target: LiveTarget) -> Attached:
    """Attach to a network namespace."""
    if where.netns is None:
        raise wants(program, "is attached to a network namespace", "--netns self, or a file",
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


def netfilter(program: BpfProgram, where: Where, _target: LiveTarget) -> Attached:
    """Attach to a hook of netfilter."""
    if where.netfilter is None:
        raise wants(program, "is attached to a hook of packets",
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


def cgroup(program: BpfProgram, where: Where, _target: LiveTarget) -> Attached:
    """Attach to a cgroup and all below it."""
    if where.cgroup is None:
        raise wants(program, "is attached to a cgroup", "--cgroup PATH, or --cgroup self",
                     'attach(cgroup="self")')  # fmt: skip
    from pybpf.kernel.cgroup import open_cgroup

    attach_type = program.source.program.expected_attach_type
    if attach_type is None:  # SEC("cgroup/skb")
        attach_type = AttachType.CGROUP_INET_INGRESS
    action = f"cannot attach {program.name} to the cgroup {where.cgroup}"
    with open_cgroup(where.cgroup) as group:
        link = packed.link_create(program.kernel, group.fileno(), attach_type, action=action)
    return Attached(program.name, (link,))
