"""Built-in values: facts about the event and the process it happened in. One row each.

A row says the type, where the name may be used (None: everywhere) and how it is lowered.
"""

from __future__ import annotations

from collections.abc import Callable

from pybpf.compiler import ir
from pybpf.compiler.builder import Builder
from pybpf.compiler.runtime import TARGET
from pybpf.dataclass import dataclass
from pybpf.types import CHAR, INT, S32, S64, U32, U64, VOID, Array, Ptr, Show, Space, Type, Typedef

PID = Typedef("pid_t", U32, Show.PID)
UID = Typedef("uid_t", U32, Show.UID)
CPU = Typedef("cpu_t", U32, Show.CPU)
TIME = Typedef("time_t", S64, Show.TIME)
WALLTIME = Typedef("walltime_t", S64, Show.WALLTIME)
HEX = Typedef("reg_t", U64, Show.HEX)
SYMBOL = Typedef("symbol_t", U64, Show.SYMBOL)
STACK = Typedef("stack_t", S32, Show.STACK)
COMM = Array(CHAR, 16)

STACKS = ".stacks"
"""The name of the map of stack traces."""

_IDS = "bpf_get_current_pid_tgid"


def _high_half(helper: str) -> Callable[[Builder], ir.Operand]:
    return lambda b: b.bin(ir.BinOp.RSH, b.call(helper), 32)


def _low_half(helper: str) -> Callable[[Builder], ir.Operand]:
    return lambda b: b.extend(b.call(helper), 32, signed=False)


def _pid(b: Builder) -> ir.Operand:
    if b.pid_namespace is None:
        return b.bin(ir.BinOp.RSH, b.call(_IDS), 32)
    return _in_namespace(b, b.pid_namespace, 4)


def _kpid(b: Builder) -> ir.Operand:
    if b.pid_namespace is None:
        return b.extend(b.call(_IDS), 32, signed=False)
    return _in_namespace(b, b.pid_namespace, 0)


def _in_namespace(b: Builder, namespace: tuple[int, int], offset: int) -> ir.Operand:
    """Return a field of struct bpf_pidns_info: the thread id at 0, the process id at 4.

    For a task of any other namespace the helper fails, having set both to 0.
    """

    def ask() -> ir.SlotRef:
        numbers = ir.SlotRef(b.slot(8))
        b.call_void("bpf_get_ns_current_pid_tgid", *namespace, numbers, 8)
        return numbers

    return b.load(b.once("ids in the namespace", ask), offset, 4)


def _now(b: Builder) -> ir.Operand:
    return b.call("bpf_ktime_get_ns")


def _stack(b: Builder) -> ir.Operand:
    return b.extend(b.call("bpf_get_stackid", ir.CTX, ir.MapRef(STACKS), 0), 32, signed=True)


@dataclass(frozen=True, slots=True)
class ValueRow:
    """A name that stands for a value. ``lower`` None: it fills memory (see lower.into).

    ``steady``: the value is the same whenever the handling of one event asks for it.
    """

    name: str
    type: Type
    lower: Callable[[Builder], ir.Operand] | None
    doc: str
    steady: bool = True


VALUES: dict[str, ValueRow] = {
    row.name: row
    for row in (
        ValueRow("pid", PID, _pid, "process id (tgid)"),
        ValueRow("kpid", PID, _kpid, "thread id"),
        ValueRow("uid", UID, _low_half("bpf_get_current_uid_gid"), "user id"),
        ValueRow("gid", UID, _high_half("bpf_get_current_uid_gid"), "group id"),
        ValueRow("cpu", CPU, lambda b: b.call("bpf_get_smp_processor_id"), "processor"),
        ValueRow("comm", COMM, None, "name of the running thread"),
        ValueRow("execname", COMM, None, "the same as comm"),
        ValueRow("time", TIME, _now, "ns since boot", steady=False),
        ValueRow("walltime", WALLTIME, _now, "time of day", steady=False),
        ValueRow("stack", STACK, _stack, "kernel stack trace"),
        ValueRow("ctx", Ptr(VOID, Space.CTX), lambda _: ir.CTX, "the program's context"),
    )
}

TASK = ValueRow(
    "task", U64, lambda b: b.call("bpf_get_current_task"), "address of the thread's task_struct"
)
"""What eprobes ask for beyond what scripts can name."""


def _target(b: Builder) -> ir.Operand:
    address = b.register()
    b.add(ir.MapValueAddr(address, TARGET))
    return b.load(address, 0, 4)


FOUND = ValueRow("$target", INT, _target, "what -c or the environment of the run says")
"""What ``$target`` is where that is not known when compiling."""

LOWERED = VALUES | {TASK.name: TASK, FOUND.name: FOUND}
"""All that a tast.Context may name."""
