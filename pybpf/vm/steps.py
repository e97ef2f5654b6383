"""Instructions to steps: one Python closure per instruction, which returns the index of the next.

Everything that can be known before the program runs (the function of the row, field values, the
target of a jump) is bound when the closure is made, by the builder of the row's form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pybpf.isa.helpers import HELPER_NAMES, HELPERS
from pybpf.isa.insn import R0, R1, R6, Insn, Program
from pybpf.isa.layout import targets
from pybpf.isa.semantics import COMPARE, MASK64, Alu, alu_function, sign_extend
from pybpf.isa.table import Effect, Form
from pybpf.vm.maps import ArrayMap
from pybpf.vm.memory import Trap
from pybpf.vm.registers import UNSET

if TYPE_CHECKING:
    from pybpf.vm.machine import Helper, Machine

DONE: Final = -1
"""What a step returns when the outermost function exits."""
SWITCH: Final = -2
"""What a step returns when execution goes on in another program: see ``Machine.execute``."""

Step = Callable[[], int]
_Builder = Callable[["Machine", Insn, int, int], Step]

_CLOBBERED = UNSET[R1:R6]
_TAIL_CALL = HELPERS["bpf_tail_call"]


def build_steps(machine: Machine, program: Program) -> list[Step]:
    """Return the steps of a program, bound to a machine, and one more for running off its end.

    Raises EncodingError for a jump to no instruction.
    """
    goals = targets(program)
    steps = []
    for index, (insn, goal) in enumerate(zip(program.insns, goals, strict=True)):
        step = _BUILDERS[insn.op.form](machine, insn, index + 1, index if goal is None else goal)
        steps.append(step)
    steps.append(_trap("the program does not end here: an exit is missing"))
    return steps


def _trap(reason: str) -> Step:
    def step() -> int:
        raise Trap(reason)

    return step


def _operand_function(machine: Machine, insn: Insn) -> Alu:
    if insn.op.effect is Effect.MOV and insn.op.width == 64:
        return lambda _, b: b & MASK64  # unlike a plain b, this stumbles over an unset register
    return alu_function(insn.op, machine.memory.byteorder)


def _alu_imm(machine: Machine, insn: Insn, after: int, _goal: int) -> Step:
    regs, dst, imm = machine.regs, insn.dst, insn.imm & MASK64
    function = _operand_function(machine, insn)

    def step() -> int:
        regs[dst] = function(regs[dst], imm)
        return after

    return step


def _alu_reg(machine: Machine, insn: Insn, after: int, _goal: int) -> Step:
    regs, dst, src = machine.regs, insn.dst, insn.src
    function = _operand_function(machine, insn)

    def step() -> int:
        regs[dst] = function(regs[dst], regs[src])
        return after

    return step


def _cast(machine: Machine, insn: Insn, after: int, _goal: int) -> Step:
    # A machine without an arena has one address space, where a pointer keeps its value.
    regs, dst, src = machine.regs, insn.dst, insn.src

    def step() -> int:
        regs[dst] = regs[src] & MASK64
        return after

    return step


def _load(machine: Machine, insn: Insn, after: int, _goal: int) -> Step:
    regs, dst, src, off = machine.regs, insn.dst, insn.src, insn.off
    size, load = insn.op.width // 8, machine.memory.load

    def step() -> int:
        regs[dst] = load((regs[src] + off) & MASK64, size)
        return after

    def step_signed() -> int:
        regs[dst] = sign_extend(load((regs[src] + off) & MASK64, size), size * 8, 64)
        return after

    return step_signed if insn.op.effect is Effect.LOAD_SIGNED else step


def _store_reg(machine: Machine, insn: Insn, after: int, _goal: int) -> Step:
    regs, dst, src, off = machine.regs, insn.dst, insn.src, insn.off
    size, store = insn.op.width // 8, machine.memory.store

    def step() -> int:
        store((regs[dst] + off) & MASK64, size, regs[src])
        return after

    return step


def _store_imm(machine: Machine, insn: Insn, after: int, _goal: int) -> Step:
    regs, dst, off, imm = machine.regs, insn.dst, insn.off, insn.imm
    size, store = insn.op.width // 8, machine.memory.store

    def step() -> int:
        store((regs[dst] + off) & MASK64, size, imm)
        return after

    return step


def _atomic(machine: Machine, insn: Insn, after: int, _goal: int) -> Step:
    regs, dst, src, off = machine.regs, insn.dst, insn.src, insn.off
    size, memory = insn.op.width // 8, machine.memory
    mask = (1 << insn.op.width) - 1

    def step_exchange() -> int:
        address = (regs[dst] + off) & MASK64
        old = memory.load(address, size)
        memory.store(address, size, regs[src])
        regs[src] = old
        return after

    def step_compare() -> int:
        address = (regs[dst] + off) & MASK64
        old = memory.load(address, size)
        memory.store(address, size, regs[src] if old == regs[R0] & mask else old)
        regs[R0] = old
        return after

    if insn.op.effect is Effect.XCHG:
        return step_exchange
    if insn.op.effect is Effect.CMPXCHG:
        return step_compare
    function, fetch = alu_function(insn.op), insn.op.fetch

    def step() -> int:
        address = (regs[dst] + off) & MASK64
        old = memory.load(address, size)
        memory.store(address, size, function(old, regs[src]))
        if fetch:
            regs[src] = old
        return after

    return step


def _load_imm64(machine: Machine, insn: Insn, after: int, goal: int) -> Step:
    regs, dst = machine.regs, insn.dst
    try:
        value = constant(machine, insn, goal)
    except Trap as trap:
        return _trap(str(trap))

    def step() -> int:
        regs[dst] = value
        return after

    return step


def constant(machine: Machine, insn: Insn, goal: int) -> int:
    """Return what a ``lddw`` loads; raises Trap where there is no such thing."""
    match insn.op.name:
        case "lddw":
            return insn.imm & MASK64
        case "lddw_map_fd" | "lddw_map_idx":
            found = machine.map_named(insn.symbol, insn.imm)
            if found is None:
                raise Trap(_no_map(insn))
            return found.handle.address
        case "lddw_map_value" | "lddw_map_idx_value":
            found = machine.map_named(insn.symbol, insn.imm & 0xFFFFFFFF)
            if found is None:
                raise Trap(_no_map(insn))
            if not isinstance(found, ArrayMap):
                raise Trap(f"map {found.spec.name} is no array, its values have no fixed address")
            return found.value(insn.imm >> 32)
        case "lddw_func":
            return machine.function_address(goal)
        case _:
            raise Trap(f"the VM has no kernel variables, such as that of BTF type {insn.imm}")


def _no_map(insn: Insn) -> str:
    if insn.symbol is not None:
        return f"there is no map {insn.symbol}"
    return f"map descriptor or index {insn.imm & 0xFFFFFFFF} stands for no map"


def _jump(_machine: Machine, _insn: Insn, _after: int, goal: int) -> Step:
    return lambda: goal


def _branch_imm(machine: Machine, insn: Insn, after: int, goal: int) -> Step:
    regs, dst, imm = machine.regs, insn.dst, insn.imm & MASK64
    taken = COMPARE[insn.op.width][insn.op.effect]
    return lambda: goal if taken(regs[dst], imm) else after


def _branch_reg(machine: Machine, insn: Insn, after: int, goal: int) -> Step:
    regs, dst, src = machine.regs, insn.dst, insn.src
    taken = COMPARE[insn.op.width][insn.op.effect]
    return lambda: goal if taken(regs[dst], regs[src]) else after


def _may_goto(machine: Machine, _insn: Insn, after: int, goal: int) -> Step:
    return lambda: after if machine.may_loop() else goal


def _run_helper(machine: Machine, helper: Helper) -> None:
    regs = machine.regs
    # The mask changes nothing but stumbles over an argument that was never set.
    arguments = [value & MASK64 for value in regs[R1 : R1 + helper.arguments]]
    regs[R0] = helper.run(machine, *arguments) & MASK64
    regs[R1:R6] = _CLOBBERED


def _call_helper(machine: Machine, insn: Insn, after: int, _goal: int) -> Step:
    if insn.imm == _TAIL_CALL:
        return _tail_call(machine, after)
    helper = machine.helpers.get(insn.imm)
    if helper is None:
        return _trap(no_helper(insn.imm))

    def step() -> int:
        _run_helper(machine, helper)
        return after

    return step


def no_helper(number: int) -> str:
    """Say that a helper is unknown here."""
    name = HELPER_NAMES.get(number)
    return f"there is no helper {number}" if name is None else f"the VM does not emulate {name}"


def _call_register(machine: Machine, insn: Insn, after: int, _goal: int) -> Step:
    regs, dst = machine.regs, insn.dst

    def step() -> int:
        helper = machine.helpers.get(regs[dst])
        if helper is None:
            raise Trap(no_helper(regs[dst]))
        _run_helper(machine, helper)
        return after

    return step


def _tail_call(machine: Machine, after: int) -> Step:
    regs = machine.regs

    def step() -> int:
        ctx, table, index = (value & MASK64 for value in regs[R1 : R1 + 3])
        regs[R0:R6] = UNSET[R0:R6]
        return machine.tail_call(ctx, table, index & 0xFFFFFFFF, after)

    return step


def _call_local(machine: Machine, _insn: Insn, after: int, goal: int) -> Step:
    def step() -> int:
        machine.enter(after)
        return goal

    return step


def _call_kfunc(machine: Machine, insn: Insn, after: int, _goal: int) -> Step:
    name, kfunc = machine.kfunc(insn)
    if kfunc is None:
        return _trap(no_kfunc(name))

    def step() -> int:
        _run_helper(machine, kfunc)
        return after

    return step


def no_kfunc(name: str) -> str:
    """Say that a kernel function is unknown here."""
    return f"the VM does not emulate kernel function {name}"


def _exit(machine: Machine, _insn: Insn, _after: int, _goal: int) -> Step:
    return machine.leave


def _packet(machine: Machine, insn: Insn, after: int, _goal: int) -> Step:
    # Classic BPF's packet access: r6 holds the context, the data is in network order, and a packet
    # too short for it ends the function with 0.
    regs, src, imm, size = machine.regs, insn.src, insn.imm, insn.op.width // 8
    indirect = insn.op.form is Form.PACKET_IND

    def step() -> int:
        start = imm + regs[src] if indirect else imm
        found = machine.load_packet(regs[R6] & MASK64, start, size)
        regs[R1:R6] = _CLOBBERED
        regs[R0] = 0 if found is None else found
        return machine.leave() if found is None else after

    return step


_BUILDERS: dict[Form, _Builder] = {
    Form.ALU_IMM: _alu_imm,
    Form.ALU_REG: _alu_reg,
    Form.NEG: _alu_imm,
    Form.MOVSX: _alu_reg,
    Form.SWAP: _alu_imm,
    Form.LOAD: _load,
    Form.STORE_REG: _store_reg,
    Form.STORE_IMM: _store_imm,
    Form.ATOMIC: _atomic,
    Form.LOAD_ACQUIRE: _load,
    Form.STORE_RELEASE: _store_reg,
    Form.LOAD_IMM64: _load_imm64,
    Form.JUMP: _jump,
    Form.JUMP_LONG: _jump,
    Form.BRANCH_IMM: _branch_imm,
    Form.BRANCH_REG: _branch_reg,
    Form.MAY_GOTO: _may_goto,
    Form.CALL_HELPER: _call_helper,
    Form.CALL_LOCAL: _call_local,
    Form.CALL_KFUNC: _call_kfunc,
    Form.CALL_REG: _call_register,
    Form.EXIT: _exit,
    Form.ADDR_SPACE_CAST: _cast,
    Form.PACKET_ABS: _packet,
    Form.PACKET_IND: _packet,
}
