"""Helpers that put headers into the packet of an sk_buff and take them out.

Source: net/core/filter.c, and skb_vlan_push and skb_vlan_pop in net/core/skbuff.c.
"""

from __future__ import annotations

from collections.abc import Mapping
from errno import EALREADY, EFAULT, EINVAL
from types import MappingProxyType

from pybpf.isa.semantics import byte_swap, signed
from pybpf.vm.emulated.arguments import U32, skb_of
from pybpf.vm.emulated.skb import ENOTSUPP, MAX_LENGTH, ensure_room
from pybpf.vm.machine import Helper, Machine
from pybpf.vm.net.skb import (
    ETH_P_8021AD,
    ETH_P_8021Q,
    ETH_P_IP,
    ETH_P_IPV6,
    HEADER,
    NETWORK_HEADER,
    SkBuff,
    protocol_of,
)

_TAGS = frozenset({ETH_P_8021Q, ETH_P_8021AD})
_ADDRESSES = 12
_CLEARS = (6, 2)
"""The release from which on a tag that is taken away is forgotten."""
_ROOM_LIMIT = 0xFFF
_NET, _MAC = 0, 1
_ENCAP_IPV4, _ENCAP_IPV6 = 1 << 1, 1 << 2
_KEEP = 1 << 0 | 1 << 5
"""That segments keep their size, and that checksums are not to be reset."""
_TUNNELS = 1 << 3 | 1 << 4
_INNER_ETHERNET = 1 << 6
_DECAP_IPV4, _DECAP_IPV6 = 1 << 7, 1 << 8
_INNER_SHIFT = 56
_FLAGS = 0x1FF | 0xFF << _INNER_SHIFT


def vlan_push(vm: Machine, ctx: int, protocol: int, tag: int) -> int:
    """Add a VLAN tag: the first is kept beside the packet, another pushes it in."""
    skb = skb_of(vm, ctx)
    kind = byte_swap(protocol, 16)
    if kind not in _TAGS:
        kind = ETH_P_8021Q
    if not skb.link:
        return -EINVAL
    if skb["vlan_present"]:
        ensure_room(skb, 4)
        packet = skb.packet
        packet.insert(_ADDRESSES, 4)
        packet.mac = len(packet.head)
        place = packet.data + _ADDRESSES
        vm.memory.write(place, skb["vlan_proto"].to_bytes(2, "little"))
        vm.memory.write(place + 2, skb["vlan_tci"].to_bytes(2, "big"))
        skb["protocol"] = skb["vlan_proto"]
        skb.moved()
    _set_tag(skb, kind, tag & 0xFFFF)
    return 0


def vlan_pop(vm: Machine, ctx: int) -> int:
    """Remove the outermost VLAN tag."""
    skb = skb_of(vm, ctx)
    if skb["vlan_present"]:
        skb["vlan_present"] = 0
        if vm.world.release >= _CLEARS:
            skb["vlan_tci"] = skb["vlan_proto"] = 0
    else:
        if skb.protocol not in _TAGS:
            return 0
        if _take_tag(vm, skb) is None:
            return -EINVAL
    if skb.protocol in _TAGS:
        kind = skb.protocol
        tag = _take_tag(vm, skb)
        if tag is None:
            return -EINVAL
        _set_tag(skb, kind, tag)
    return 0


def _set_tag(skb: SkBuff, kind: int, tag: int) -> None:
    skb["vlan_present"] = 1
    skb["vlan_tci"] = tag
    skb["vlan_proto"] = byte_swap(kind, 16)


def _take_tag(vm: Machine, skb: SkBuff) -> int | None:
    """Remove the tag that is in the packet; return what it says."""
    packet = skb.packet
    if packet.length < _ADDRESSES + 6 or not skb.link:
        return None
    place = packet.data + _ADDRESSES
    tag = int.from_bytes(vm.memory.read(place + 2, 2), "big")
    packet.remove(_ADDRESSES, 4)
    packet.mac = len(packet.head)
    skb.moved()
    skb.protocol = protocol_of(packet.content())
    return tag


def adjust_room(vm: Machine, ctx: int, difference: int, mode: int, flags: int) -> int:
    """Make room behind the network header (mode 0) or behind the link layer's (1), or take it."""
    skb = skb_of(vm, ctx)
    change, mode = signed(difference, 32), mode & U32
    size = abs(change)
    if flags & ~_FLAGS or _contradict(flags, change):
        return -EINVAL
    if size > _ROOM_LIMIT:
        return -EFAULT
    base = NETWORK_HEADER.get(skb.protocol)
    if base is None or mode > _MAC:
        return -ENOTSUPP
    least = 40 if flags & _DECAP_IPV6 else 20 if flags & _DECAP_IPV4 else base
    link = skb.network if skb.link else 0
    place = link + base if mode == _NET else link
    current = skb.packet.length - skb.network
    if change < 0:
        if size >= current or current - size < least:
            return -ENOTSUPP
        if flags & ~(_KEEP | _DECAP_IPV4 | _DECAP_IPV6):
            return -EINVAL
        skb.packet.remove(place, size)
    elif skb.packet.length + size > MAX_LENGTH:
        return -ENOTSUPP
    elif error := _encapsulate(skb, flags, size):
        return error
    else:
        ensure_room(skb, size)
        skb.packet.insert(place, size)
    if flags & (_ENCAP_IPV4 | _DECAP_IPV4):
        skb.protocol = ETH_P_IP
    elif flags & (_ENCAP_IPV6 | _DECAP_IPV6):
        skb.protocol = ETH_P_IPV6
    skb.packet.mac = len(skb.packet.head)
    skb.packet.network = skb.packet.mac + link
    skb.moved()
    return 0


def _contradict(flags: int, change: int) -> bool:
    """Whether flags cannot go together, or not with a change of this sign."""
    decap = flags & (_DECAP_IPV4 | _DECAP_IPV6)
    return bool(decap) and (change >= 0 or decap == _DECAP_IPV4 | _DECAP_IPV6)


def _encapsulate(skb: SkBuff, flags: int, size: int) -> int:
    """Note that a packet is about to be within another; return a negative errno if it cannot be."""
    outer = flags & (_ENCAP_IPV4 | _ENCAP_IPV6)
    if not outer:
        return 0
    inner = flags >> _INNER_SHIFT
    if outer == _ENCAP_IPV4 | _ENCAP_IPV6 or flags & _TUNNELS == _TUNNELS:
        return -EINVAL
    if flags & _INNER_ETHERNET and inner < HEADER:
        return -EINVAL
    if skb.encapsulated:
        return -EALREADY
    if inner > size:
        return -EINVAL
    skb.encapsulated = True
    return 0


TABLE: Mapping[str, Helper] = MappingProxyType(
    {
        "bpf_skb_vlan_push": Helper(3, vlan_push),
        "bpf_skb_vlan_pop": Helper(1, vlan_pop),
        "bpf_skb_adjust_room": Helper(4, adjust_room),
    }
)
