"""The emulated helpers: a machine and the arguments in r1 to r5 in, r0 out.

Each does what the kernel's helper of that name does, down to its errno values. Where the verifier
would keep a program from making such a call at all, it raises Trap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from errno import E2BIG, EAGAIN, EFAULT, EINVAL
from types import MappingProxyType

from pybpf.isa.insn import R3, R6
from pybpf.vm import reading
from pybpf.vm.buffers import PerfEventArray, RingBuffer, StackTraces, finish_record
from pybpf.vm.collections import LpmTrie, Targets
from pybpf.vm.emulated.arguments import U32, as_released, map_of, wrong_map
from pybpf.vm.machine import MAX_LOOPS, Helper, Machine
from pybpf.vm.maps import ArrayMap, HashMap, MapOfMaps
from pybpf.vm.printk import format_message

_NS_PER_JIFFY = 4_000_000
_CURRENT_CPU = U32
_COMM_SIZE = 16
_NO_WAKEUP, _FORCE_WAKEUP = 1, 2
_SKIP_FRAMES, _USER_STACK = 0xFF, 1 << 8
_STACKID_FLAGS = 0x7FF
_PACKET_MOST = 0xF_FFFF
_RECORD_LIMIT = U32 // 4


def _keyed(vm: Machine, address: int) -> HashMap | ArrayMap:
    found = vm.map_at(address)
    if isinstance(found, HashMap | ArrayMap):
        return found
    raise wrong_map(found)


def _changing(vm: Machine, address: int) -> HashMap | ArrayMap | LpmTrie | Targets:
    found = vm.map_at(address)
    if isinstance(found, HashMap | ArrayMap | LpmTrie | Targets):
        return found
    raise wrong_map(found)


def map_lookup_elem(vm: Machine, table: int, key: int) -> int:
    """Return the address of the value, or 0."""
    found = vm.map_at(table)
    if not isinstance(found, HashMap | ArrayMap | MapOfMaps | LpmTrie | Targets):
        raise wrong_map(found)
    return found.lookup(vm.memory.read(key, found.spec.key_size), vm.world.cpu)


def map_lookup_percpu_elem(vm: Machine, table: int, key: int, cpu: int) -> int:
    """Return the address of another CPU's value, or 0."""
    found = _keyed(vm, table)
    if cpu & U32 >= vm.world.cpus:
        return 0
    return found.lookup(vm.memory.read(key, found.spec.key_size), cpu & U32)


def map_update_elem(vm: Machine, table: int, key: int, value: int, flags: int) -> int:
    """Set the value of the current CPU."""
    found = _changing(vm, table)
    content = vm.memory.read(key, found.spec.key_size)
    new = vm.memory.read(value, found.spec.value_size)
    return as_released(vm, found.update(content, new, flags, vm.world.cpu))


def map_delete_elem(vm: Machine, table: int, key: int) -> int:
    """Remove an element."""
    found = _changing(vm, table)
    return as_released(vm, found.delete(vm.memory.read(key, found.spec.key_size)))


def for_each_map_elem(vm: Machine, table: int, function: int, ctx: int, flags: int) -> int:
    """Call ``function(map, key, value, ctx)`` until it returns 1; return the number of calls."""
    found = _keyed(vm, table)
    if flags:
        return -EINVAL
    calls = 0
    for key in found.keys():  # noqa: SIM118 - a map, no dict
        address = found.lookup(key, vm.world.cpu)
        if not address:
            continue
        region = vm.memory.add(bytearray(key), "a map key", writable=False)
        stop = vm.call(function, table, region.address, address, ctx)
        vm.memory.retire(region)
        calls += 1
        if stop:
            break
    return calls


_Reader = Callable[[Machine, int, int], bytes | None]


def _reads(read: _Reader) -> Callable[[Machine, int, int, int], int]:
    """Make a helper that copies memory: (to, size, from); what cannot be read is zeroed."""

    def helper(vm: Machine, to: int, size: int, address: int) -> int:
        data = read(vm, address, size & U32)
        if data is None:
            vm.memory.clear(to, size & U32)
            return -EFAULT
        vm.memory.write(to, data)
        return 0

    return helper


copy_from_user = _reads(reading.read_user)


def _reads_string(read: _Reader) -> Callable[[Machine, int, int, int], int]:
    """Make a helper that copies a string: (to, size, from); returns its length with the NUL."""

    def helper(vm: Machine, to: int, size: int, address: int) -> int:
        size &= U32
        if size == 0:
            return 0
        text = read(vm, address, size - 1)
        if text is None:
            vm.memory.clear(to, size)
            return -EFAULT
        vm.memory.write(to, text + b"\0")
        return len(text) + 1

    return helper


def strncmp(vm: Machine, text: int, size: int, other: int) -> int:
    """Compare a string of at most ``size`` bytes with a constant one."""
    for index in range(size & U32):
        a, b = vm.memory.load(text + index, 1), vm.memory.load(other + index, 1)
        if a != b:
            return a - b
        if a == 0:
            break
    return 0


def get_current_pid_tgid(vm: Machine) -> int:
    """Return the process (tgid) in the high, the thread (pid) in the low half."""
    return (vm.world.pid << 32) | (vm.world.tid & U32)


def get_current_uid_gid(vm: Machine) -> int:
    """Return the gid in the high, the uid in the low half."""
    return (vm.world.gid << 32) | (vm.world.uid & U32)


def get_current_comm(vm: Machine, to: int, size: int) -> int:
    """Copy the task's name, cut to 15 characters, and pad it with NULs."""
    size &= U32
    if size == 0:
        return -EINVAL
    text = vm.world.comm[: min(size, _COMM_SIZE) - 1]
    vm.memory.clear(to, size)
    vm.memory.write(to, text)
    return 0


def get_ns_current_pid_tgid(vm: Machine, device: int, inode: int, to: int, size: int) -> int:
    """Write (pid, tgid), two u32, as a pid namespace numbers them."""
    if size & U32 != 8:
        return -EINVAL
    known = (device, inode) == vm.world.pid_namespace
    vm.memory.store(to, 4, vm.world.tid if known else 0)
    vm.memory.store(to + 4, 4, vm.world.pid if known else 0)
    return 0 if known else -EINVAL


def _frames(vm: Machine, flags: int) -> tuple[int, ...]:
    stack = vm.world.user_stack if flags & _USER_STACK else vm.world.stack
    return stack[flags & _SKIP_FRAMES :]


def get_stackid(vm: Machine, ctx: int, table: int, flags: int) -> int:
    """Return the id of the current stack in a STACK_TRACE map."""
    vm.check_context(ctx)
    found = map_of(vm, table, StackTraces)
    return -EINVAL if flags & ~_STACKID_FLAGS else found.record(_frames(vm, flags))


def get_stack(vm: Machine, ctx: int, to: int, size: int, flags: int) -> int:
    """Write the current stack, innermost frame first; return how many bytes it takes."""
    vm.check_context(ctx)
    size &= U32
    if flags & ~(_SKIP_FRAMES | _USER_STACK) or size % 8:
        vm.memory.clear(to, size)
        return -EINVAL
    frames = _frames(vm, flags)[: size // 8]
    data = b"".join(frame.to_bytes(8, vm.memory.byteorder) for frame in frames)
    vm.memory.clear(to, size)
    vm.memory.write(to, data)
    return len(data) or -EFAULT


def ringbuf_reserve(vm: Machine, table: int, size: int, flags: int) -> int:
    """Return the address of a new record, or 0 where there is no room."""
    ring = map_of(vm, table, RingBuffer)
    return 0 if flags or size > _RECORD_LIMIT else ring.reserve(size)


def _finish(vm: Machine, address: int, *, discard: bool) -> int:
    finish_record(vm.maps.values(), address, discard=discard)
    return 0


def ringbuf_submit(vm: Machine, address: int, _flags: int) -> int:
    """Pass a reserved record on."""
    return _finish(vm, address, discard=False)


def ringbuf_discard(vm: Machine, address: int, _flags: int) -> int:
    """Give a reserved record up."""
    return _finish(vm, address, discard=True)


def ringbuf_output(vm: Machine, table: int, data: int, size: int, flags: int) -> int:
    """Copy a record in; EAGAIN where there is no room."""
    ring = map_of(vm, table, RingBuffer)
    if flags & ~(_NO_WAKEUP | _FORCE_WAKEUP):
        return -EINVAL
    record = vm.memory.read(data, size)
    address = ring.reserve(size)
    if not address:
        return -EAGAIN
    vm.memory.write(address, record)
    ring.finish(address, discard=False)
    return 0


def ringbuf_query(vm: Machine, table: int, what: int) -> int:
    """Return pending bytes (0), the size (1), the consumer's (2) or producer's position (3)."""
    ring = map_of(vm, table, RingBuffer)
    values = (ring.pending, ring.size, ring.consumed, ring.produced)
    return values[what] if what < len(values) else 0


def perf_event_output(vm: Machine, ctx: int, table: int, flags: int, data: int, size: int) -> int:
    """Append a sample to the buffer of a CPU, ``flags`` being its number or BPF_F_CURRENT_CPU.

    The high half says how many bytes of the packet to append.
    """
    vm.check_context(ctx)
    found = map_of(vm, table, PerfEventArray)
    of_packet = flags >> 32
    if of_packet and (vm.buff is None or of_packet > _PACKET_MOST):
        return -EINVAL
    if vm.buff is not None and of_packet > vm.buff.packet.length:
        return -EFAULT
    cpu = vm.world.cpu if flags & U32 == _CURRENT_CPU else flags & U32
    sample = vm.memory.read(data, size)
    if vm.buff is not None:
        sample += vm.buff.packet.content()[:of_packet]
    return found.output(cpu, sample)


def text_at(vm: Machine, address: int) -> bytes:
    """Return the kernel's string at an address, as %s prints it."""
    text = reading.read_kernel_string(vm, address, U32)
    return b"(efault)" if text is None else text


def trace_printk(vm: Machine, template: int, size: int) -> int:
    """Print a line into the world's ``printed``; return its length."""
    # Only the format says how many of r3 to r5 are arguments; the others may hold nothing.
    arguments = vm.regs[R3:R6]
    text = format_message(
        vm.memory.read(template, size & U32), arguments, lambda address: text_at(vm, address)
    )
    if text is None:
        return -EINVAL
    vm.world.print(text)
    return len(text)


def snprintf(vm: Machine, to: int, size: int, template: int, data: int, length: int) -> int:
    """Format into memory; return the length with its NUL before cutting."""
    if length & 7 or length > 12 * 8:
        return -EINVAL
    arguments = [vm.memory.load(data + offset, 8) for offset in range(0, length & U32, 8)]
    text = format_message(
        text_at(vm, template) + b"\0", arguments, lambda address: text_at(vm, address)
    )
    if text is None:
        return -EINVAL
    if size & U32:
        vm.memory.write(to, text[: (size & U32) - 1] + b"\0")
    return len(text) + 1


def loop(vm: Machine, count: int, function: int, ctx: int, flags: int) -> int:
    """Call ``function(index, ctx)`` until it returns 1; return the number of calls."""
    count &= U32
    if flags:
        return -EINVAL
    if count > MAX_LOOPS:
        return -E2BIG
    for index in range(count):
        if vm.call(function, index, ctx):
            return index + 1
    return count


EMULATED: Mapping[str, Helper] = MappingProxyType(
    {
        "bpf_map_lookup_elem": Helper(2, map_lookup_elem),
        "bpf_map_update_elem": Helper(4, map_update_elem),
        "bpf_map_delete_elem": Helper(2, map_delete_elem),
        "bpf_map_lookup_percpu_elem": Helper(3, map_lookup_percpu_elem),
        "bpf_for_each_map_elem": Helper(4, for_each_map_elem),
        "bpf_probe_read": Helper(3, _reads(reading.read_any)),
        "bpf_probe_read_kernel": Helper(3, _reads(reading.read_kernel)),
        "bpf_probe_read_user": Helper(3, copy_from_user),
        "bpf_copy_from_user": Helper(3, copy_from_user),
        "bpf_probe_read_str": Helper(3, _reads_string(reading.read_any_string)),
        "bpf_probe_read_kernel_str": Helper(3, _reads_string(reading.read_kernel_string)),
        "bpf_probe_read_user_str": Helper(3, _reads_string(reading.read_user_string)),
        "bpf_strncmp": Helper(3, strncmp),
        "bpf_ktime_get_ns": Helper(0, lambda vm: vm.world.time),
        "bpf_ktime_get_coarse_ns": Helper(0, lambda vm: vm.world.time),
        "bpf_ktime_get_boot_ns": Helper(0, lambda vm: vm.world.time + vm.world.suspended),
        "bpf_jiffies64": Helper(0, lambda vm: vm.world.time // _NS_PER_JIFFY),
        "bpf_get_current_pid_tgid": Helper(0, get_current_pid_tgid),
        "bpf_get_current_uid_gid": Helper(0, get_current_uid_gid),
        "bpf_get_current_comm": Helper(2, get_current_comm),
        "bpf_get_ns_current_pid_tgid": Helper(4, get_ns_current_pid_tgid),
        "bpf_get_current_task": Helper(0, lambda vm: vm.world.task),
        "bpf_get_current_task_btf": Helper(0, lambda vm: vm.world.task),
        "bpf_get_current_cgroup_id": Helper(0, lambda vm: vm.world.cgroup),
        "bpf_get_smp_processor_id": Helper(0, lambda vm: vm.world.cpu),
        "bpf_get_numa_node_id": Helper(0, lambda _: 0),
        "bpf_get_prandom_u32": Helper(0, lambda vm: vm.world.random() & U32),
        "bpf_get_stackid": Helper(3, get_stackid),
        "bpf_get_stack": Helper(4, get_stack),
        "bpf_ringbuf_reserve": Helper(3, ringbuf_reserve),
        "bpf_ringbuf_submit": Helper(2, ringbuf_submit),
        "bpf_ringbuf_discard": Helper(2, ringbuf_discard),
        "bpf_ringbuf_output": Helper(4, ringbuf_output),
        "bpf_ringbuf_query": Helper(2, ringbuf_query),
        "bpf_perf_event_output": Helper(5, perf_event_output),
        "bpf_skb_output": Helper(5, perf_event_output),
        "bpf_xdp_output": Helper(5, perf_event_output),
        "bpf_trace_printk": Helper(2, trace_printk),
        "bpf_snprintf": Helper(5, snprintf),
        "bpf_loop": Helper(4, loop),
    }
)
