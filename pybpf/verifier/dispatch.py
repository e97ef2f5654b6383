"""A slot in; the step that executes it out (see env), by class of instruction.

Operands are taken out of the slot once, when the step is made, so that a step only looks at the
state. A slot whose reserved fields are in use gets a step that refuses.
"""

from __future__ import annotations

from pybpf.verifier import opcodes as op
from pybpf.verifier.alu import make_alu
from pybpf.verifier.atomics import make_atomic
from pybpf.verifier.branches import make_branch
from pybpf.verifier.env import Env, Step
from pybpf.verifier.flow import make_call, make_exit, make_goto, make_may_goto
from pybpf.verifier.loads import make_lddw, make_load, make_packet_load, make_store
from pybpf.verifier.program import Raw
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.registers import read
from pybpf.verifier.reserved import refuse_fields
from pybpf.verifier.state import State


def make_step(env: Env, at: int) -> Step:
    """Return the step of a slot."""
    slot = env.slots[at]
    if slot.code & op.CLASS == op.LD and slot.code & op.MODE in {op.ABS, op.IND}:
        return make_packet_load(env, at, slot)
    message = refuse_fields(slot, env.rules)
    if message is not None:
        first = slot.dst if _is_branch(slot) and env.rules.since(6, 8) else None
        return _refusing(message, first)
    kind = slot.code & op.CLASS
    if kind in {op.ALU32, op.ALU64}:
        return make_alu(env, at, slot)
    if kind in {op.JMP, op.JMP32}:
        operation = slot.code & op.OP
        if operation == op.OP_CALL:
            return make_call(env, at, slot)
        if operation == op.OP_EXIT:
            return make_exit(env, at)
        if operation == op.OP_JA:
            return make_goto(env, at, slot)
        if operation == op.OP_MAY_GOTO:
            return make_may_goto(env, at, slot)
        return make_branch(env, at, slot)
    if kind == op.LDX:
        return make_load(env, at, slot)
    if kind == op.STX and slot.code & op.MODE == op.ATOMIC:
        return make_atomic(env, at, slot)
    if kind in {op.ST, op.STX}:
        return make_store(env, at, slot)
    return make_lddw(env, at, slot)


def _is_branch(slot: Raw) -> bool:
    return slot.code & op.CLASS in {op.JMP, op.JMP32} and slot.code & op.OP in op.BRANCHES


def _refusing(message: str, first: int | None) -> Step:
    """Return a step that refuses; ``first`` is a register that must be readable before."""

    def step(_env: Env, state: State) -> int:
        if first is not None:
            read(state.frame.regs, first)
        raise Refusal(message)

    return step
