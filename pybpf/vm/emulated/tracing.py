"""Helpers of tracing programs beyond those that scripts use. Source: kernel/trace/bpf_trace.c."""

from __future__ import annotations

from collections.abc import Mapping
from errno import E2BIG, EAGAIN, EINVAL, ENOENT, EOPNOTSUPP, EPERM
from types import MappingProxyType

from pybpf.vm import reading
from pybpf.vm.collections import Targets
from pybpf.vm.emulated.arguments import U32, map_of, returning
from pybpf.vm.helpers import copy_from_user, get_stack
from pybpf.vm.machine import Helper, Machine

_TAI_AHEAD = 37 * 10**9
_SIGNALS = 64


def get_func_arg(vm: Machine, ctx: int, number: int, place: int) -> int:
    """Write an argument of the traced function."""
    vm.check_context(ctx)
    if number & U32 >= len(vm.world.arguments):
        return -EINVAL
    vm.memory.store(place, 8, vm.world.arguments[number & U32])
    return 0


def get_func_ret(vm: Machine, ctx: int, place: int) -> int:
    """Write what the traced function returns, which only a program behind it can know."""
    vm.check_context(ctx)
    if vm.world.retval is None:
        return -EOPNOTSUPP
    vm.memory.store(place, 8, vm.world.retval)
    return 0


def _of_context(name: str) -> Helper:
    """Make a helper that returns a field of the world."""

    def helper(vm: Machine, ctx: int) -> int:
        vm.check_context(ctx)
        value: int = getattr(vm.world, name)
        return value

    return Helper(1, helper)


def get_func_arg_cnt(vm: Machine, ctx: int) -> int:
    """Return how many arguments the traced function has."""
    vm.check_context(ctx)
    return len(vm.world.arguments)


def send_signal(vm: Machine, signal: int) -> int:
    """Send a signal to the process (or thread), into the world's ``signals``."""
    if not 0 < signal & U32 <= _SIGNALS:
        return -EINVAL
    if vm.world.pid == 1:
        return -EPERM
    vm.world.signals.append(signal & U32)
    return 0


def probe_write_user(vm: Machine, to: int, data: int, size: int) -> int:
    """Write user memory: pieces of the world's memory that lie in the lower half."""
    content = vm.memory.read(data, size & U32)
    if reading.read_user(vm, to, len(content)) is None:
        return -EPERM
    pieces = dict(vm.world.memory)
    for start, piece in vm.world.memory.items():
        low, high = max(start, to), min(start + len(piece), to + len(content))
        if low < high:
            changed = bytearray(piece)
            changed[low - start : high - start] = content[low - to : high - to]
            pieces[start] = bytes(changed)
    vm.world.memory = pieces
    return 0


def current_task_under_cgroup(vm: Machine, table: int, index: int) -> int:
    """Return whether the task is in a cgroup of an array: those that the world's path names."""
    found = map_of(vm, table, Targets)
    if index & U32 >= found.spec.max_entries:
        return -E2BIG
    value = found.at(index & U32)
    if value is None:
        return -EAGAIN
    number = int.from_bytes(value, vm.memory.byteorder)
    return int(number in {vm.world.cgroup, *vm.world.ancestors})


def get_current_ancestor_cgroup_id(vm: Machine, level: int) -> int:
    """Return the cgroup's ancestor at a level; the root is at 0."""
    path = (*vm.world.ancestors, vm.world.cgroup)
    return path[level] if level & U32 < len(path) else 0


def kallsyms_lookup_name(vm: Machine, name: int, size: int, flags: int, place: int) -> int:
    """Write the address of a kernel symbol."""
    vm.memory.store(place, 8, 0)
    text = vm.memory.read(name, size & U32)
    if flags or len(text) <= 1 or text[-1]:
        return -EINVAL
    address = vm.world.symbols.get(text[:-1].decode("latin-1"))
    if address is None:
        return -ENOENT
    vm.memory.store(place, 8, address)
    return 0


def per_cpu_ptr(vm: Machine, address: int, cpu: int) -> int:
    """Return a CPU's copy of a kernel variable; all CPUs have one here."""
    return address if cpu & U32 < vm.world.cpus else 0


def perf_event_read_value(vm: Machine, _table: int, _flags: int, place: int, size: int) -> int:
    """Read a counter: there are none."""
    vm.memory.clear(place, size & U32)
    return -EINVAL if size & U32 != 24 else -ENOENT


def read_branch_records(vm: Machine, ctx: int, _to: int, _size: int, flags: int) -> int:
    """Read the processor's records of branches: there are none."""
    vm.check_context(ctx)
    return -EINVAL if flags & ~1 else -ENOENT


def get_task_stack(vm: Machine, _task: int, to: int, size: int, flags: int) -> int:
    """Write the stack of a task, which is the current one."""
    return get_stack(vm, vm.ctx, to, size, flags)


def copy_from_user_task(
    vm: Machine, to: int, size: int, address: int, _task: int, flags: int
) -> int:
    """Read user memory of a task."""
    return -EINVAL if flags else copy_from_user(vm, to, size, address)


def set_retval(vm: Machine, value: int) -> int:
    """Set what the hook returns."""
    vm.world.hook_result = value & U32
    return 0


TABLE: Mapping[str, Helper] = MappingProxyType(
    {
        "bpf_get_func_arg": Helper(3, get_func_arg),
        "bpf_get_func_ret": Helper(2, get_func_ret),
        "bpf_get_func_arg_cnt": Helper(1, get_func_arg_cnt),
        "bpf_get_func_ip": _of_context("function"),
        "bpf_get_attach_cookie": _of_context("cookie"),
        "bpf_get_socket_cookie": Helper(1, lambda vm, _: vm.world.cookie),
        "bpf_get_socket_uid": Helper(1, lambda vm, _: vm.world.uid),
        "bpf_get_netns_cookie": Helper(1, lambda *_: 1),
        "bpf_send_signal": Helper(1, send_signal),
        "bpf_send_signal_thread": Helper(1, send_signal),
        "bpf_probe_write_user": Helper(3, probe_write_user),
        "bpf_current_task_under_cgroup": Helper(2, current_task_under_cgroup),
        "bpf_get_current_ancestor_cgroup_id": Helper(1, get_current_ancestor_cgroup_id),
        "bpf_kallsyms_lookup_name": Helper(4, kallsyms_lookup_name),
        "bpf_per_cpu_ptr": Helper(2, per_cpu_ptr),
        "bpf_this_cpu_ptr": Helper(1, lambda vm, address: address),  # noqa: ARG005
        "bpf_perf_event_read": returning(2, -ENOENT),
        "bpf_perf_event_read_value": Helper(4, perf_event_read_value),
        "bpf_read_branch_records": Helper(4, read_branch_records),
        "bpf_get_branch_snapshot": returning(3, -ENOENT),
        "bpf_get_task_stack": Helper(4, get_task_stack),
        "bpf_copy_from_user_task": Helper(5, copy_from_user_task),
        "bpf_task_pt_regs": Helper(1, lambda vm, task: vm.world.registers),  # noqa: ARG005
        "bpf_find_vma": returning(5, -ENOENT),
        "bpf_ktime_get_tai_ns": Helper(
            0, lambda vm: vm.world.time + vm.world.suspended + _TAI_AHEAD
        ),
        "bpf_override_return": Helper(2, lambda vm, _, value: set_retval(vm, value)),
        "bpf_get_retval": Helper(0, lambda vm: vm.world.hook_result),
        "bpf_set_retval": Helper(1, set_retval),
    }
)
