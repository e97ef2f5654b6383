"""Helpers of XDP programs. Source: net/core/filter.c."""

from __future__ import annotations

from collections.abc import Mapping
from errno import EFAULT, EINVAL
from types import MappingProxyType

from pybpf.isa.semantics import signed
from pybpf.vm.emulated.arguments import U32, xdp_of
from pybpf.vm.machine import Helper, Machine
from pybpf.vm.packet import Packet

_LIMIT = 0xFFFF


def _outside(packet: Packet, offset: int, size: int) -> int:
    """Return a negative errno for bytes that are not all in the packet, 0 for those that are."""
    if offset > _LIMIT or size > _LIMIT:
        return -EFAULT
    return -EINVAL if offset + size > packet.length else 0


def load_bytes(vm: Machine, ctx: int, offset: int, to: int, size: int) -> int:
    """Copy bytes of the packet."""
    packet = xdp_of(vm, ctx).packet
    offset, size = offset & U32, size & U32
    if error := _outside(packet, offset, size):
        return error
    vm.memory.write(to, packet.content()[offset : offset + size])
    return 0


def store_bytes(vm: Machine, ctx: int, offset: int, data: int, size: int) -> int:
    """Copy bytes into the packet."""
    packet = xdp_of(vm, ctx).packet
    offset, size = offset & U32, size & U32
    if error := _outside(packet, offset, size):
        return error
    vm.memory.write(packet.data + offset, vm.memory.read(data, size))
    return 0


TABLE: Mapping[str, Helper] = MappingProxyType(
    {
        "bpf_xdp_adjust_head": Helper(2, lambda vm, c, n: xdp_of(vm, c).move_head(signed(n, 32))),
        "bpf_xdp_adjust_meta": Helper(
            2, lambda vm, c, n: xdp_of(vm, c).move_metadata(signed(n, 32))
        ),
        "bpf_xdp_adjust_tail": Helper(2, lambda vm, c, n: xdp_of(vm, c).move_tail(signed(n, 32))),
        "bpf_xdp_get_buff_len": Helper(1, lambda vm, c: xdp_of(vm, c).packet.length),
        "bpf_xdp_load_bytes": Helper(4, load_bytes),
        "bpf_xdp_store_bytes": Helper(4, store_bytes),
    }
)
