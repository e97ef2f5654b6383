"""Helpers that send packets elsewhere: what was asked for is in the machine's ``redirects``.

Source: net/core/filter.c, and __bpf_xdp_redirect_map in include/linux/filter.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from errno import EINVAL
from types import MappingProxyType

from pybpf.isa.abi import MapType
from pybpf.vm.collections import Targets
from pybpf.vm.emulated.arguments import U32, map_of, skb_of, wrong_map
from pybpf.vm.machine import Helper, Machine
from pybpf.vm.net.redirect import Redirect
from pybpf.vm.net.xdp import XdpBuff

_INGRESS = 1
_BROADCAST, _EXCLUDE_INGRESS = 8, 16
_ACTIONS = 3
_XDP_ABORTED, _XDP_REDIRECT = 0, 4
_TC_SHOT, _TC_REDIRECT = 2, 7
_SK_DROP, _SK_PASS = 0, 1
_DEVICES = frozenset({MapType.DEVMAP, MapType.DEVMAP_HASH})
_XDP_TARGETS = frozenset({*_DEVICES, MapType.CPUMAP, MapType.XSKMAP})


def redirect(vm: Machine, device: int, flags: int) -> int:
    """Send the packet to a device, once the program returns what this returns."""
    xdp = isinstance(vm.buff, XdpBuff)
    if flags if xdp else flags & ~_INGRESS:
        return _XDP_ABORTED if xdp else _TC_SHOT
    vm.redirects.append(Redirect("redirect", device & U32, flags))
    return _XDP_REDIRECT if xdp else _TC_REDIRECT


def redirect_peer(vm: Machine, device: int, flags: int) -> int:
    """Send the packet to a device's peer."""
    if flags:
        return _TC_SHOT
    vm.redirects.append(Redirect("redirect_peer", device & U32, flags))
    return _TC_REDIRECT


def redirect_neigh(vm: Machine, device: int, params: int, size: int, flags: int) -> int:
    """Send the packet to a device, with the neighbour's address filled in."""
    if flags or (size & U32 and size & U32 < 16):
        return _TC_SHOT
    vm.memory.read(params, size & U32)
    vm.redirects.append(Redirect("redirect_neigh", device & U32, flags))
    return _TC_REDIRECT


def redirect_map(vm: Machine, table: int, key: int, flags: int) -> int:
    """Send the packet to what a map holds; the low bits of ``flags`` are returned if nothing."""
    found = map_of(vm, table, Targets)
    kind = found.spec.type
    if kind not in _XDP_TARGETS:
        raise wrong_map(found)
    allowed = _ACTIONS | (_BROADCAST | _EXCLUDE_INGRESS if kind in _DEVICES else 0)
    if flags & ~allowed:
        return _XDP_ABORTED
    if found.at(key & U32) is None and not flags & _BROADCAST:
        return flags & _ACTIONS
    vm.redirects.append(Redirect("redirect_map", key & U32, flags, found.spec.name))
    return _XDP_REDIRECT


def clone_redirect(vm: Machine, ctx: int, device: int, flags: int) -> int:
    """Send a copy of the packet to a device."""
    skb = skb_of(vm, ctx)
    if flags & ~_INGRESS or device & U32 != vm.world.ifindex:
        return -EINVAL
    data = skb.packet.content()
    vm.redirects.append(Redirect("clone_redirect", device & U32, flags, data=data))
    return 0


def _to_socket(vm: Machine, ctx: int, table: int, key: int, flags: int) -> int:
    """Send the packet to a socket of a map; drop it where there is none."""
    vm.check_context(ctx)
    found = map_of(vm, table, Targets)
    if flags & ~_INGRESS or not found.lookup(vm.memory.read(key, found.spec.key_size), 0):
        return _SK_DROP
    vm.redirects.append(Redirect("socket", 0, flags, found.spec.name))
    return _SK_PASS


def _to_socket_at(vm: Machine, ctx: int, table: int, key: int, flags: int) -> int:
    vm.check_context(ctx)
    found = map_of(vm, table, Targets)
    if flags & ~_INGRESS or found.at(key & U32) is None:
        return _SK_DROP
    vm.redirects.append(Redirect("socket", key & U32, flags, found.spec.name))
    return _SK_PASS


TABLE: Mapping[str, Helper] = MappingProxyType(
    {
        "bpf_redirect": Helper(2, redirect),
        "bpf_redirect_peer": Helper(2, redirect_peer),
        "bpf_redirect_neigh": Helper(4, redirect_neigh),
        "bpf_redirect_map": Helper(3, redirect_map),
        "bpf_clone_redirect": Helper(3, clone_redirect),
        "bpf_sk_redirect_map": Helper(4, _to_socket_at),
        "bpf_msg_redirect_map": Helper(4, _to_socket_at),
        "bpf_sk_redirect_hash": Helper(4, _to_socket),
        "bpf_msg_redirect_hash": Helper(4, _to_socket),
    }
)
