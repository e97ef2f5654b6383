"""The maps of the run time, and the pieces of code that use them: records and failure counters."""

from __future__ import annotations

from pybpf.compiler import ir
from pybpf.compiler.builder import Builder

EVENTS = ".events"
"""Records to user space: a ring buffer, or a perf event array on older kernels."""
LOST = ".lost"
"""One array value of u64: counters of lost records, of refused updates by map; then a 1."""
ZERO = ".zero"
"""One array value of zero bytes: what a histogram starts from."""
CGROUP = ".cgroup"
"""One cgroup: only what happens to tasks in it, or below it, is traced."""
TARGET = ".target"
"""One array value, a number of 32 bits: the process of ``$target`` where the run decides on it."""

CURRENT_CPU = 0xFFFFFFFF
"""BPF_F_CURRENT_CPU."""
ANY = 0
"""BPF_ANY: insert the entry, or replace it."""


def leave_unless_in_cgroup(b: Builder) -> None:
    """End the program where the running task is not in the cgroup, nor below it."""
    inside = b.call("bpf_current_task_under_cgroup", ir.MapRef(CGROUP), 0)
    traced = b.label("traced")
    b.branch(ir.Cmp.EQ, inside, 1, traced, b.leave_label)
    b.start(traced)


def word(b: Builder, index: int) -> ir.VReg:
    """Return the address of a word of the LOST map."""
    address = b.register()
    b.add(ir.MapValueAddr(address, LOST, 8 * index))
    return address


def count_failure(b: Builder, index: int) -> None:
    """Add one to a counter of the LOST map. Atomic: CPUs share it, as failures are rare."""
    counter = word(b, index)
    b.add(ir.AtomicAdd(counter, 0, 8, b.copy(1)))


def count_if_negative(b: Builder, index: int, result: ir.VReg) -> None:
    """Add one to a counter where an int is negative: for where events seldom come.

    It takes no branch, but an atomic operation in any case.
    """
    # Before Linux 6.4 map operations return an int: the upper half of r0 is not its sign.
    failed = b.bin(ir.BinOp.RSH, result, 31, 32)
    b.add(ir.AtomicAdd(word(b, index), 0, 8, failed))


def reserve(b: Builder, size: int, *, ring: bool) -> tuple[ir.Base, ir.Label]:
    """Return room for a record of ``size`` bytes, and the label to go on at after ``submit``."""
    done = b.label("sent")
    if not ring:
        return ir.SlotRef(b.slot(size)), done
    record = b.call("bpf_ringbuf_reserve", ir.MapRef(EVENTS), size, 0)
    lost, room = b.label("lost"), b.label("room")
    b.branch(ir.Cmp.EQ, record, 0, lost, room)
    b.start(lost)
    count_failure(b, 0)
    b.goto(done)
    b.start(room)
    return record, done


def submit(b: Builder, record: ir.Base, size: int, done: ir.Label) -> None:
    """Hand a finished record over."""
    if isinstance(record, ir.SlotRef):
        result = b.call(
            "bpf_perf_event_output", ir.CTX, ir.MapRef(EVENTS), CURRENT_CPU, record, size
        )
        lost = b.label("lost")
        b.branch(ir.Cmp.SLT, result, 0, lost, done)
        b.start(lost)
        count_failure(b, 0)
    else:
        b.call_void("bpf_ringbuf_submit", record, 0)
    b.start(done)
