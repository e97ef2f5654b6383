"""Helpers that look sockets and routes up: there are none, but for the packet's own socket."""

from __future__ import annotations

from collections.abc import Mapping
from errno import EINVAL, ENODEV, ENOENT
from types import MappingProxyType

from pybpf.isa.semantics import signed
from pybpf.vm.emulated.arguments import U32, returning
from pybpf.vm.machine import Helper, Machine

_NOT_FORWARDED = 4
"""BPF_FIB_LKUP_RET_NOT_FWDED: no route leads anywhere."""
_PARAMETERS = 64


def fib_lookup(vm: Machine, _ctx: int, params: int, size: int, flags: int) -> int:
    """Look a route up."""
    if size & U32 < _PARAMETERS or flags & ~0x3F:
        return -EINVAL
    vm.memory.read(params, _PARAMETERS)
    return _NOT_FORWARDED


def check_mtu(vm: Machine, _ctx: int, device: int, place: int, change: int, flags: int) -> int:
    """Ask whether the packet fits a device: one of 65536 bytes, as the loopback device is."""
    if flags & ~1:
        return -EINVAL
    if device & U32 not in {0, vm.world.ifindex}:
        return -ENODEV
    size = vm.memory.load(place, 4) or (0 if vm.buff is None else vm.buff.packet.length)
    vm.memory.store(place, 4, 65536)
    return int(size + signed(change, 32) > 65536 + 14)


_CASTS = (
    "tcp_sock",
    "tcp6_sock",
    "tcp_timewait_sock",
    "tcp_request_sock",
    "udp6_sock",
    "unix_sock",
)
TABLE: Mapping[str, Helper] = MappingProxyType(
    {
        **{f"bpf_skc_to_{kind}": returning(1) for kind in (*_CASTS, "mptcp_sock")},
        "bpf_sk_lookup_tcp": returning(5),
        "bpf_sk_lookup_udp": returning(5),
        "bpf_skc_lookup_tcp": returning(5),
        "bpf_sk_release": returning(1),
        "bpf_sk_fullsock": Helper(1, lambda vm, sock: sock),  # noqa: ARG005
        "bpf_tcp_sock": returning(1),
        "bpf_get_listener_sock": returning(1),
        "bpf_sk_assign": returning(3, -ENOENT),
        "bpf_fib_lookup": Helper(4, fib_lookup),
        "bpf_check_mtu": Helper(5, check_mtu),
    }
)
