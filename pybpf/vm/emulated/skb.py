"""Helpers that read and write the packet of an sk_buff. Source: net/core/filter.c."""

from __future__ import annotations

from collections.abc import Mapping
from errno import EACCES, EFAULT, EINVAL, ENOMEM
from types import MappingProxyType

from pybpf.vm.emulated.arguments import U32, skb_of
from pybpf.vm.machine import Helper, Machine
from pybpf.vm.net import checksums
from pybpf.vm.net.skb import ETH_P_IP, ETH_P_IPV6, SkBuff

_INT_MAX = 0x7FFF_FFFF
ENOTSUPP = 524
MAX_LENGTH = 16064
"""BPF_SKB_MAX_LEN, which is SKB_MAX_ALLOC with pages of 4096 bytes."""
_RECOMPUTE, _INVALIDATE = 1, 2
_SIZE_MASK, _PSEUDO, _MANGLED_ZERO, _ENFORCE, _IPV6 = 0xF, 0x10, 0x20, 0x40, 0x80
_MAC_HEADER, _NET_HEADER = 0, 1
_SCRATCH = 512
_FOLDS = (6, 13)
"""The release from which on bpf_csum_diff takes any size, and folds what it returns."""


def load_bytes(vm: Machine, ctx: int, offset: int, to: int, size: int) -> int:
    """Copy bytes of the packet; zeros where it has not as many."""
    packet = skb_of(vm, ctx).packet
    offset, size = offset & U32, size & U32
    if offset > _INT_MAX or offset + size > packet.length:
        vm.memory.clear(to, size)
        return -EFAULT
    vm.memory.write(to, packet.content()[offset : offset + size])
    return 0


def load_bytes_relative(vm: Machine, ctx: int, offset: int, to: int, size: int, header: int) -> int:
    """Copy bytes, counted from the link or the network layer's header."""
    skb = skb_of(vm, ctx)
    packet, size, offset = skb.packet, size & U32, offset & U32
    places = {_MAC_HEADER: packet.mac, _NET_HEADER: packet.network}
    start = places.get(header & U32)
    whole = packet.head + packet.region.data
    if start is None or offset > 0xFFFF or start + offset + size > len(whole):
        vm.memory.clear(to, size)
        return -EFAULT
    vm.memory.write(to, bytes(whole[start + offset : start + offset + size]))
    return 0


def store_bytes(vm: Machine, ctx: int, offset: int, data: int, size: int, flags: int) -> int:
    """Copy bytes into the packet."""
    skb = skb_of(vm, ctx)
    offset, size = offset & U32, size & U32
    if flags & ~(_RECOMPUTE | _INVALIDATE):
        return -EINVAL
    if offset > _INT_MAX or offset + size > skb.packet.length:
        return -EFAULT
    vm.memory.write(skb.packet.data + offset, vm.memory.read(data, size))
    if flags & _INVALIDATE:
        skb["hash"] = 0
    return 0


def _checksum(skb: SkBuff, offset: int) -> int | None:
    """Return the address of a checksum in the packet."""
    if offset > 0xFFFF or offset & 1 or offset + 2 > skb.packet.length:
        return None
    return skb.packet.data + offset


def _replaced(value: int, old: int, new: int, size: int) -> int | None:
    match size:
        case 0:
            return None if old else checksums.replace_by_difference(value, new & U32)
        case 2:
            return checksums.replace(value, old & 0xFFFF, new & 0xFFFF)
        case 4:
            return checksums.replace(value, old & U32, new & U32)
        case _:
            return None


def l3_csum_replace(vm: Machine, ctx: int, offset: int, old: int, new: int, flags: int) -> int:
    """Make up for a change in the checksum of a network header."""
    skb = skb_of(vm, ctx)
    if flags & ~_SIZE_MASK:
        return -EINVAL
    place = _checksum(skb, offset & U32)
    if place is None:
        return -EFAULT
    result = _replaced(vm.memory.load(place, 2), old, new, flags & _SIZE_MASK)
    if result is None:
        return -EINVAL
    vm.memory.store(place, 2, result)
    return 0


def l4_csum_replace(vm: Machine, ctx: int, offset: int, old: int, new: int, flags: int) -> int:
    """Make up for a change in the checksum of a transport header; 0 may mean that there is none."""
    skb = skb_of(vm, ctx)
    if flags & ~(_SIZE_MASK | _PSEUDO | _MANGLED_ZERO | _ENFORCE | _IPV6):
        return -EINVAL
    place = _checksum(skb, offset & U32)
    if place is None:
        return -EFAULT
    value = vm.memory.load(place, 2)
    if flags & _MANGLED_ZERO and not flags & _ENFORCE and value == 0:
        return 0
    result = _replaced(value, old, new, flags & _SIZE_MASK)
    if result is None:
        return -EINVAL
    if flags & _MANGLED_ZERO and result == 0:
        result = 0xFFFF
    vm.memory.store(place, 2, result)
    return 0


def csum_diff(vm: Machine, old: int, old_size: int, new: int, new_size: int, seed: int) -> int:
    """Return the sum by which a checksum changes when bytes are replaced."""
    old_size, new_size, seed = old_size & U32, new_size & U32, seed & U32
    before, after = vm.memory.read(old, old_size), vm.memory.read(new, new_size)
    if vm.world.release >= _FOLDS:
        if not before:
            return checksums.narrow(checksums.partial(after, seed) if after else seed)
        if not after:
            return checksums.narrow(~checksums.partial(before, ~seed & U32) & U32)
        sums = checksums.partial(after, seed), checksums.partial(before)
        return checksums.narrow(checksums.subtract(*sums))
    if (old_size | new_size) & 3 or old_size + new_size > _SCRATCH:
        return -EINVAL
    return checksums.partial(bytes(byte ^ 0xFF for byte in before) + after, seed)


def csum_level(vm: Machine, ctx: int, level: int) -> int:
    """Change how many checksums are known to be right: none are."""
    skb_of(vm, ctx)
    return {0: -EACCES, 1: 0, 2: 0, 3: 0}.get(level, -EINVAL)


def csum_update(vm: Machine, ctx: int, _csum: int) -> int:
    """Add to the sum that a device made: none has."""
    skb_of(vm, ctx)
    return -ENOTSUPP


def pull_data(vm: Machine, ctx: int, size: int) -> int:
    """Make bytes directly accessible: all are."""
    skb = skb_of(vm, ctx)
    return -ENOMEM if size & U32 > skb.packet.length else 0


def change_tail(vm: Machine, ctx: int, length: int, flags: int) -> int:
    """Make the packet longer or shorter at its end."""
    skb = skb_of(vm, ctx)
    length &= U32
    if flags or length > MAX_LENGTH or length < max(skb.network, 0):
        return -EINVAL
    skb.packet.move_tail(length - skb.packet.length)
    skb.moved()
    return 0


def change_head(vm: Machine, ctx: int, room: int, flags: int) -> int:
    """Put zeros in front of the packet."""
    skb = skb_of(vm, ctx)
    room &= U32
    length = (skb.packet.length + room) & U32
    if flags or length > MAX_LENGTH or length < skb.packet.length:
        return -EINVAL
    ensure_room(skb, room)
    skb.packet.move_head(-room)
    skb.packet.region.data[skb.packet.metadata : skb.packet.metadata + room] = bytes(room)
    skb.packet.mac = len(skb.packet.head)
    skb.moved()
    return 0


def ensure_room(skb: SkBuff, size: int) -> None:
    """Give the packet more headroom if it has too little."""
    packet = skb.packet
    lack = size - len(packet.head)
    if lack > 0:
        lack = -(-lack // 64) * 64
        packet.head[:0] = bytes(lack)
        packet.mac += lack
        packet.network += lack


def change_type(vm: Machine, ctx: int, kind: int) -> int:
    """Say who the packet is for."""
    skb = skb_of(vm, ctx)
    if skb["pkt_type"] > 3 or kind & U32 > 3:
        return -EINVAL
    skb["pkt_type"] = kind & U32
    return 0


def get_hash_recalc(vm: Machine, ctx: int) -> int:
    """Return the flow's hash: whoever controls the run controls what the kernel would hash with."""
    skb = skb_of(vm, ctx)
    if not skb["hash"]:
        skb["hash"] = vm.world.random() & U32
    return skb["hash"]


def set_hash(vm: Machine, ctx: int, value: int) -> int:
    """Set the flow's hash."""
    skb_of(vm, ctx)["hash"] = value & U32
    return 0


def _unclassified(vm: Machine, ctx: int) -> int:
    skb_of(vm, ctx)
    return 0


TABLE: Mapping[str, Helper] = MappingProxyType(
    {
        "bpf_skb_load_bytes": Helper(4, load_bytes),
        "bpf_skb_load_bytes_relative": Helper(5, load_bytes_relative),
        "bpf_skb_store_bytes": Helper(5, store_bytes),
        "bpf_l3_csum_replace": Helper(5, l3_csum_replace),
        "bpf_l4_csum_replace": Helper(5, l4_csum_replace),
        "bpf_csum_diff": Helper(5, csum_diff),
        "bpf_csum_update": Helper(2, csum_update),
        "bpf_csum_level": Helper(2, csum_level),
        "bpf_skb_pull_data": Helper(2, pull_data),
        "bpf_skb_change_tail": Helper(3, change_tail),
        "bpf_skb_change_head": Helper(3, change_head),
        "bpf_skb_change_type": Helper(2, change_type),
        "bpf_get_hash_recalc": Helper(1, get_hash_recalc),
        "bpf_set_hash": Helper(2, set_hash),
        "bpf_set_hash_invalid": Helper(1, lambda vm, ctx: set_hash(vm, ctx, 0)),
        "bpf_skb_cgroup_id": Helper(1, _unclassified),
        "bpf_get_cgroup_classid": Helper(1, _unclassified),
        "bpf_get_route_realm": Helper(1, _unclassified),
        "bpf_skb_ecn_set_ce": Helper(1, lambda vm, ctx: _set_ce(vm, skb_of(vm, ctx))),
    }
)


def _set_ce(vm: Machine, skb: SkBuff) -> int:
    """Mark the packet as one that met congestion, where its flow can be told so."""
    start = skb.network
    if skb.protocol not in {ETH_P_IP, ETH_P_IPV6} or not 0 <= start <= skb.packet.length - 20:
        return 0
    place = skb.packet.data + start
    if skb.protocol == ETH_P_IP:
        tos = vm.memory.load(place + 1, 1)
        if tos & 3 == 0:
            return 0
        if tos & 3 != 3:
            # The checksum changes by what the two bits do, as IP_ECN_set_ce has it.
            old = vm.memory.load(place, 2)
            vm.memory.store(place + 1, 1, tos | 3)
            checksum = vm.memory.load(place + 10, 2)
            new = checksums.replace(checksum, old, vm.memory.load(place, 2))
            vm.memory.store(place + 10, 2, new)
        return 1
    word = int.from_bytes(vm.memory.read(place, 4), "big")
    if word >> 20 & 3 == 0:
        return 0
    vm.memory.write(place, (word | 3 << 20).to_bytes(4, "big"))
    return 1
