"""Helpers of queues, filters, storage, spin locks, timers and kernel pointers in maps."""

from __future__ import annotations

from collections.abc import Mapping
from errno import EBUSY, EINVAL, ENOENT
from types import MappingProxyType

from pybpf.vm.collections import Bloom, Queue, Storage, UserRing
from pybpf.vm.emulated.arguments import as_released, map_of, wrong_map
from pybpf.vm.emulated.dynptrs import make
from pybpf.vm.machine import Helper, Machine
from pybpf.vm.memory import Trap

_CREATE = 1
_CLOCKS = frozenset({0, 1, 7})
_NO_WAKEUP, _FORCE_WAKEUP = 1, 2


def map_push_elem(vm: Machine, table: int, value: int, flags: int) -> int:
    """Add a value to a queue, a stack or a Bloom filter."""
    found = vm.map_at(table)
    if not isinstance(found, Queue | Bloom):
        raise wrong_map(found)
    return as_released(vm, found.push(vm.memory.read(value, found.spec.value_size), flags))


def map_pop_elem(vm: Machine, table: int, value: int) -> int:
    """Take the next value."""
    found = map_of(vm, table, Queue)
    return _given(vm, found, value, found.pop())


def map_peek_elem(vm: Machine, table: int, value: int) -> int:
    """Look at the next value; for a Bloom filter ask whether it may hold this one."""
    found = vm.map_at(table)
    if isinstance(found, Bloom):
        known = found.contains(vm.memory.read(value, found.spec.value_size))
        return as_released(vm, 0 if known else -ENOENT)
    queue = map_of(vm, table, Queue)
    return _given(vm, queue, value, queue.peek())


def _given(vm: Machine, queue: Queue, address: int, value: bytes | None) -> int:
    vm.memory.write(address, bytes(queue.spec.value_size) if value is None else value)
    return as_released(vm, -ENOENT if value is None else 0)


def storage_get(vm: Machine, table: int, owner: int, value: int, flags: int) -> int:
    """Return the address of what belongs to a task, a socket, an inode or a cgroup, or 0."""
    found = map_of(vm, table, Storage)
    if not owner or flags & ~_CREATE:
        return 0
    initial = None
    if flags & _CREATE:
        size = found.spec.value_size
        initial = vm.memory.read(value, size) if value else bytes(size)
    return found.get(owner, initial)


def storage_delete(vm: Machine, table: int, owner: int) -> int:
    """Remove it."""
    return map_of(vm, table, Storage).drop(owner) if owner else -EINVAL


def get_local_storage(vm: Machine, table: int, _flags: int) -> int:
    """Return the address of what belongs to the cgroup that the program is attached to."""
    found = map_of(vm, table, Storage)
    return found.get(vm.world.cgroup, bytes(found.spec.value_size))


def user_ringbuf_drain(vm: Machine, table: int, function: int, ctx: int, flags: int) -> int:
    """Call ``function(dynptr, ctx)`` for each sample until it returns 1; return how many."""
    found = map_of(vm, table, UserRing)
    if flags & ~(_NO_WAKEUP | _FORCE_WAKEUP):
        return -EINVAL
    calls = 0
    while (sample := found.take()) is not None:
        data = vm.memory.add(bytearray(sample), "a sample", writable=False)
        pointer = vm.memory.add(bytearray(16), "a dynptr")
        make(vm, pointer.address, data.address, len(sample), read_only=True)
        stop = vm.call(function, pointer.address, ctx)
        vm.memory.retire(data)
        vm.memory.retire(pointer)
        calls += 1
        if stop:
            break
    return calls


def spin_lock(vm: Machine, lock: int) -> int:
    """Take a lock; raises Trap where that would never end."""
    if vm.memory.load(lock, 4):
        raise Trap("the lock is held already")
    vm.memory.store(lock, 4, 1)
    return 0


def spin_unlock(vm: Machine, lock: int) -> int:
    """Give a lock back."""
    if not vm.memory.load(lock, 4):
        raise Trap("the lock is not held")
    vm.memory.store(lock, 4, 0)
    return 0


def kptr_xchg(vm: Machine, place: int, pointer: int) -> int:
    """Exchange a kernel pointer in a map."""
    old = vm.memory.load(place, 8)
    vm.memory.store(place, 8, pointer)
    return old


def timer_init(vm: Machine, timer: int, table: int, flags: int) -> int:
    """Make a timer of what lies in a map's value."""
    if flags not in _CLOCKS:
        return -EINVAL
    if timer in vm.timers:
        return -EBUSY
    vm.timers.prepare(timer, vm.map_at(table))
    return 0


def timer_set_callback(vm: Machine, timer: int, function: int) -> int:
    """Say what a timer calls."""
    return vm.timers.set_callback(timer, function)


def timer_start(vm: Machine, timer: int, delay: int, flags: int) -> int:
    """Let a timer expire after ``delay`` ns, or at that time (flag 1)."""
    if flags & ~3:
        return -EINVAL
    return vm.timers.start(timer, delay if flags & 1 else vm.world.time + delay)


def timer_cancel(vm: Machine, timer: int) -> int:
    """Stop a timer; return whether it was running."""
    return vm.timers.cancel(timer)


_STORAGES = {
    f"bpf_{owner}_storage_{verb}": Helper(arguments, run)
    for owner in ("sk", "inode", "task", "cgrp")
    for verb, arguments, run in (("get", 4, storage_get), ("delete", 2, storage_delete))
}
TABLE: Mapping[str, Helper] = MappingProxyType(
    {
        **_STORAGES,
        "bpf_map_push_elem": Helper(3, map_push_elem),
        "bpf_map_pop_elem": Helper(2, map_pop_elem),
        "bpf_map_peek_elem": Helper(2, map_peek_elem),
        "bpf_get_local_storage": Helper(2, get_local_storage),
        "bpf_user_ringbuf_drain": Helper(4, user_ringbuf_drain),
        "bpf_spin_lock": Helper(1, spin_lock),
        "bpf_spin_unlock": Helper(1, spin_unlock),
        "bpf_kptr_xchg": Helper(2, kptr_xchg),
        "bpf_timer_init": Helper(3, timer_init),
        "bpf_timer_set_callback": Helper(2, timer_set_callback),
        "bpf_timer_start": Helper(3, timer_start),
        "bpf_timer_cancel": Helper(1, timer_cancel),
    }
)
