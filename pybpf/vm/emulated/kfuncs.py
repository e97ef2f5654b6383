"""The kernel functions that programs call by name: numbers to iterate over, and packets as dynptrs.

Source: kernel/bpf/bpf_iter.c, kernel/bpf/helpers.c and net/core/filter.c.
"""

from __future__ import annotations

from collections.abc import Mapping
from errno import E2BIG, EINVAL, ERANGE
from types import MappingProxyType

from pybpf.isa.semantics import signed
from pybpf.vm.emulated.arguments import U32, returning, skb_of, xdp_of
from pybpf.vm.emulated.dynptrs import bounds, make, outside
from pybpf.vm.machine import MAX_LOOPS, Helper, Machine
from pybpf.vm.packet import Packet


# struct bpf_iter_num: what was given last, and where the numbers end; both are 0 at the end.
def iter_num_new(vm: Machine, iterator: int, first: int, last: int) -> int:
    """Begin to iterate over the numbers from ``first`` to before ``last``."""
    start, end = signed(first, 32), signed(last, 32)
    error = -EINVAL if start > end else -E2BIG if end - start > MAX_LOOPS else 0
    vm.memory.store(iterator, 4, 0 if error else start - 1)
    vm.memory.store(iterator + 4, 4, 0 if error else end)
    return error


def iter_num_next(vm: Machine, iterator: int) -> int:
    """Return the address of the next number, or 0."""
    now, end = (signed(vm.memory.load(iterator + at, 4), 32) for at in (0, 4))
    if now + 1 >= end:
        vm.memory.store(iterator, 8, 0)
        return 0
    vm.memory.store(iterator, 4, now + 1)
    return iterator


def iter_num_destroy(vm: Machine, iterator: int) -> int:
    """End it."""
    vm.memory.store(iterator, 8, 0)
    return 0


def dynptr_from_skb(vm: Machine, ctx: int, flags: int, place: int) -> int:
    """Make a dynptr to the packet of an sk_buff."""
    return _from_packet(vm, skb_of(vm, ctx).packet, flags, place)


def dynptr_from_xdp(vm: Machine, ctx: int, flags: int, place: int) -> int:
    """Make a dynptr to a frame."""
    return _from_packet(vm, xdp_of(vm, ctx).packet, flags, place)


def _from_packet(vm: Machine, packet: Packet, flags: int, place: int) -> int:
    make(vm, place, 0 if flags else packet.data, 0 if flags else packet.length)
    return -EINVAL if flags else 0


def dynptr_slice(vm: Machine, place: int, offset: int, _buffer: int, size: int) -> int:
    """Return the address of bytes of a dynptr, or 0."""
    address, length, _ = bounds(vm, place)
    if not address or outside(length, offset & U32, size & U32):
        return 0
    return address + (offset & U32)


def dynptr_slice_rdwr(vm: Machine, place: int, offset: int, buffer: int, size: int) -> int:
    """Return the address of bytes that may be written, or 0."""
    return 0 if bounds(vm, place)[2] else dynptr_slice(vm, place, offset, buffer, size)


def dynptr_adjust(vm: Machine, place: int, start: int, end: int) -> int:
    """Leave of a dynptr what lies from ``start`` to before ``end``."""
    address, size, read_only = bounds(vm, place)
    start, end = start & U32, end & U32
    if not address or start > end:
        return -EINVAL
    if start > size or end > size:
        return -ERANGE
    make(vm, place, address + start, end - start, read_only=read_only)
    return 0


def dynptr_clone(vm: Machine, place: int, other: int) -> int:
    """Make another dynptr to the same memory."""
    address, size, read_only = bounds(vm, place)
    make(vm, other, address, size if address else 0, read_only=read_only)
    return 0 if address else -EINVAL


def dynptr_size(vm: Machine, place: int) -> int:
    """Return a dynptr's size."""
    address, size, _ = bounds(vm, place)
    return size if address else -EINVAL


def _same(arguments: int) -> Helper:
    return Helper(arguments, lambda _vm, value, *_: value)


KFUNCS: Mapping[str, Helper] = MappingProxyType(
    {
        "bpf_iter_num_new": Helper(3, iter_num_new),
        "bpf_iter_num_next": Helper(1, iter_num_next),
        "bpf_iter_num_destroy": Helper(1, iter_num_destroy),
        "bpf_dynptr_from_skb": Helper(3, dynptr_from_skb),
        "bpf_dynptr_from_xdp": Helper(3, dynptr_from_xdp),
        "bpf_dynptr_slice": Helper(4, dynptr_slice),
        "bpf_dynptr_slice_rdwr": Helper(4, dynptr_slice_rdwr),
        "bpf_dynptr_adjust": Helper(3, dynptr_adjust),
        "bpf_dynptr_clone": Helper(2, dynptr_clone),
        "bpf_dynptr_size": Helper(1, dynptr_size),
        "bpf_dynptr_is_null": Helper(1, lambda vm, place: int(not bounds(vm, place)[0])),
        "bpf_dynptr_is_rdonly": Helper(1, lambda vm, place: int(bounds(vm, place)[2])),
        "bpf_cast_to_kern_ctx": _same(1),
        "bpf_rdonly_cast": _same(2),
        "bpf_rcu_read_lock": returning(0),
        "bpf_rcu_read_unlock": returning(0),
        "bpf_preempt_disable": returning(0),
        "bpf_preempt_enable": returning(0),
    }
)
