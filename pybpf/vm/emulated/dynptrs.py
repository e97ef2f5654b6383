"""Dynptrs: memory whose size is known at run time only.

A dynptr is 16 bytes that programs hold but cannot read:

     0                    8                 12              16
    +--------------------+-----------------+---------------+
    |      address       | read-only, size |    offset     |
    +--------------------+-----------------+---------------+

Source: struct bpf_dynptr_kern, and kernel/bpf/helpers.c.
"""

from __future__ import annotations

from collections.abc import Mapping
from errno import E2BIG, EINVAL
from types import MappingProxyType

from pybpf.vm.buffers import RingBuffer, finish_record
from pybpf.vm.emulated.arguments import U32, map_of
from pybpf.vm.machine import Helper, Machine

_MAX = (1 << 24) - 1
_READ_ONLY = 1 << 31


def make(vm: Machine, place: int, address: int, size: int, *, read_only: bool = False) -> None:
    """Write a dynptr."""
    vm.memory.store(place, 8, address)
    vm.memory.store(place + 8, 4, size | (_READ_ONLY if read_only else 0))
    vm.memory.store(place + 12, 4, 0)


def bounds(vm: Machine, place: int) -> tuple[int, int, bool]:
    """Return a dynptr's address, its size and whether it is read-only; the address 0 for none."""
    word = vm.memory.load(place + 8, 4)
    address = vm.memory.load(place, 8)
    return address and address + vm.memory.load(place + 12, 4), word & _MAX, word >= _READ_ONLY


def from_mem(vm: Machine, data: int, size: int, flags: int, place: int) -> int:
    """Make a dynptr to memory."""
    size &= U32
    if flags or size > _MAX:
        make(vm, place, 0, 0)
        return -E2BIG if size > _MAX else -EINVAL
    make(vm, place, data, size)
    return 0


def reserve(vm: Machine, table: int, size: int, flags: int, place: int) -> int:
    """Make a dynptr to a new record of a ring buffer."""
    ring = map_of(vm, table, RingBuffer)
    size &= U32
    if size > _MAX:
        make(vm, place, 0, 0)
        return -E2BIG
    address = 0 if flags else ring.reserve(size)
    make(vm, place, address, size if address else 0)
    return 0 if address else -EINVAL


def _finish(vm: Machine, place: int, *, discard: bool) -> int:
    address, _, _ = bounds(vm, place)
    if address:
        finish_record(vm.maps.values(), address, discard=discard)
    make(vm, place, 0, 0)
    return 0


def outside(size: int, offset: int, length: int) -> bool:
    """Whether bytes are not all within a size."""
    return offset > size or length > size - offset


def read(vm: Machine, to: int, length: int, place: int, offset: int, flags: int) -> int:
    """Copy from a dynptr."""
    address, size, _ = bounds(vm, place)
    length, offset = length & U32, offset & U32
    if not address or flags:
        return -EINVAL
    if outside(size, offset, length):
        return -E2BIG
    vm.memory.write(to, vm.memory.read(address + offset, length))
    return 0


def write(vm: Machine, place: int, offset: int, data: int, length: int, flags: int) -> int:
    """Copy to a dynptr."""
    address, size, read_only = bounds(vm, place)
    length, offset = length & U32, offset & U32
    if not address or read_only or flags:
        return -EINVAL
    if outside(size, offset, length):
        return -E2BIG
    vm.memory.write(address + offset, vm.memory.read(data, length))
    return 0


def data(vm: Machine, place: int, offset: int, length: int) -> int:
    """Return the address of bytes of a dynptr, or 0."""
    address, size, read_only = bounds(vm, place)
    length, offset = length & U32, offset & U32
    if not address or read_only or outside(size, offset, length):
        return 0
    return address + offset


TABLE: Mapping[str, Helper] = MappingProxyType(
    {
        "bpf_dynptr_from_mem": Helper(4, from_mem),
        "bpf_dynptr_read": Helper(5, read),
        "bpf_dynptr_write": Helper(5, write),
        "bpf_dynptr_data": Helper(3, data),
        "bpf_ringbuf_reserve_dynptr": Helper(4, reserve),
        "bpf_ringbuf_submit_dynptr": Helper(2, lambda vm, p, _: _finish(vm, p, discard=False)),
        "bpf_ringbuf_discard_dynptr": Helper(2, lambda vm, p, _: _finish(vm, p, discard=True)),
    }
)
