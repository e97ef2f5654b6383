"""Instructions that reach beyond registers, as Python: loads, stores, atomics and calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pybpf.isa.helpers import HELPERS
from pybpf.isa.insn import R0, STACK_SIZE, Insn
from pybpf.isa.semantics import MASK32, MASK64
from pybpf.isa.table import Effect, Form
from pybpf.vm.fast.values import ANY64, Frame, Values, at_most
from pybpf.vm.memory import Trap
from pybpf.vm.steps import constant, no_helper, no_kfunc

if TYPE_CHECKING:
    from pybpf.vm.machine import Helper, Machine

CALL_BACK = frozenset(
    HELPERS[name] for name in ("bpf_loop", "bpf_for_each_map_elem", "bpf_user_ringbuf_drain")
)
"""The helpers that call functions of the program."""
LOOK = frozenset({HELPERS["bpf_trace_printk"]})
"""The helpers that read more registers than they have arguments."""
TAIL_CALL = HELPERS["bpf_tail_call"]


class Words:
    """Writes the instructions of a function for one machine; ``known`` is what its calls find set.

    ``names`` collects what the text refers to.
    """

    def __init__(
        self, machine: Machine, known: Mapping[int, frozenset[int]], names: dict[str, object]
    ) -> None:
        self._machine = machine
        self._known = known
        self._names = names

    def write(self, insn: Insn, pc: int, goal: int | None, values: Values, cost: int) -> bool:
        """Write an instruction; return whether it may have run others, and used up budget."""
        emit = values.emit
        match insn.op.form:
            case Form.LOAD | Form.LOAD_ACQUIRE:
                self._load(insn, values)
            case Form.STORE_REG | Form.STORE_RELEASE | Form.STORE_IMM:
                self._store(insn, values)
            case Form.ATOMIC:
                self._atomic(insn, values)
            case Form.ADDR_SPACE_CAST:
                values.set(insn.dst, f"r{insn.src}", values.state[insn.src])
            case Form.LOAD_IMM64:
                try:
                    value = constant(self._machine, insn, pc if goal is None else goal)
                except Trap as trap:
                    emit(f"vm.trap({str(trap)!r})")
                    value = 0
                values.set(insn.dst, f"{value}", (value, value))
            case Form.PACKET_ABS | Form.PACKET_IND:
                self._packet(insn, values, cost)
            case Form.CALL_LOCAL:
                passed = ", ".join(self._set(pc, range(1, 6), values))
                emit(f"vm.left = <left {cost}>")
                emit(f"r0 = vm.call(f{goal}, {passed})")
                self._returned(values, cost)
                return True
            case Form.CALL_HELPER if insn.imm == TAIL_CALL:
                self._pass(values, (1, 2, 3))
                emit(f"t = vm.tail_call(r1, r2, r3 & {MASK32})")
                emit(f"if t is not None: vm.left = <left {cost}>; return vm.jump(t)")
                self._returned(values, None)
            case Form.CALL_HELPER:
                helper = self._machine.helpers.get(insn.imm)
                if helper is None:
                    emit(f"vm.trap({no_helper(insn.imm)!r})")
                    return False
                if insn.imm in LOOK:
                    emit(f"m.regs[3:6] = {', '.join(self._set(pc, range(3, 6), values))}")
                nested = insn.imm in CALL_BACK
                self._call(helper, f"h{insn.imm}", values, cost if nested else None)
                return nested
            case Form.CALL_REG:
                values.tight(insn.dst)
                passed = ", ".join(self._set(pc, range(1, 6), values))
                emit(f"vm.left = <left {cost}>")
                emit(f"r0 = vm.call_helper(r{insn.dst}, {passed})")
                self._returned(values, cost)
                return True
            case _:
                name, kfunc = self._machine.kfunc(insn)
                if kfunc is None:
                    emit(f"vm.trap({no_kfunc(name)!r})")
                    return False
                self._call(kfunc, f"k{pc}", values, cost)
                return True
        return False

    def _address(self, reg: int, off: int, values: Values) -> str:
        values.tight(reg)
        if off == 0:
            return f"r{reg}"
        return f"r{reg} + {off}" if off > 0 else f"r{reg} - {-off}"

    @staticmethod
    def _slot(reg: int, off: int, size: int, values: Values) -> str | None:
        """Return a place in the function's own stack, where an access is aligned and inside."""
        base = values.state[reg]
        if not isinstance(base, Frame):
            return None
        place = STACK_SIZE + base.offset + off
        if not 0 <= place <= STACK_SIZE - size or place % size:
            return None
        return f"s{size}[{place // size}]"

    def _load(self, insn: Insn, values: Values) -> None:
        width = insn.op.width
        size = width // 8
        text = self._slot(insn.src, insn.off, size, values)
        if text is None:
            text = f"load{size}({self._address(insn.src, insn.off, values)})"
        if insn.op.effect is Effect.LOAD_SIGNED:
            sign = 1 << (width - 1)
            values.set(insn.dst, f"({text} ^ {sign}) - {sign}", None)
        else:
            values.set(insn.dst, text, (0, (1 << width) - 1))

    def _store(self, insn: Insn, values: Values) -> None:
        width = insn.op.width
        size, mask = width // 8, (1 << width) - 1
        if insn.op.form is Form.STORE_IMM:
            value = f"{insn.imm & mask}"
        else:
            fits = at_most(values.state[insn.src], mask)
            value = f"r{insn.src}" if fits else f"r{insn.src} & {mask:#x}"
        slot = self._slot(insn.dst, insn.off, size, values)
        if slot is not None:
            values.emit(f"{slot} = {value}")
        else:
            address = self._address(insn.dst, insn.off, values)
            values.emit(f"store{size}({address}, {value})")

    def _atomic(self, insn: Insn, values: Values) -> None:
        op, src, emit = insn.op, insn.src, values.emit
        size, mask = op.width // 8, (1 << op.width) - 1
        emit(f"a = {self._address(insn.dst, insn.off, values)}")
        emit(f"t = load{size}(a)")
        if op.effect is Effect.XCHG:
            emit(f"store{size}(a, r{src} & {mask:#x})")
        elif op.effect is Effect.CMPXCHG:
            emit(f"store{size}(a, r{src} & {mask:#x} if t == r0 & {mask:#x} else t)")
        else:
            emit(f"store{size}(a, (t {op.effect} r{src}) & {mask:#x})")
        if op.effect is Effect.CMPXCHG:
            values.set(R0, "t", (0, mask))
        elif op.fetch:
            values.set(src, "t", (0, mask))

    def _packet(self, insn: Insn, values: Values, cost: int) -> None:
        values.tight(6)
        indirect = insn.op.form is Form.PACKET_IND
        start = f"r{insn.src} + {insn.imm}" if indirect else f"{insn.imm}"
        values.emit(f"t = m.load_packet(r6, {start}, {insn.op.width // 8})")
        values.emit(f"if t is None: vm.left = <left {cost}>; return vm.leave(0)")
        values.set(R0, "t", (0, (1 << insn.op.width) - 1))
        values.state[1:6] = [ANY64] * 5

    def _call(self, helper: Helper, name: str, values: Values, cost: int | None) -> None:
        """Call a helper; one that calls back (``cost``) shares the budget."""
        self._names[name] = helper.run
        self._pass(values, range(1, helper.arguments + 1))
        arguments = "".join(f", r{n}" for n in range(1, helper.arguments + 1))
        if cost is not None:
            values.emit(f"vm.left = <left {cost}>")
        values.emit(f"r0 = {name}(m{arguments}) & {MASK64:#x}")
        self._returned(values, cost)

    def _set(self, pc: int, registers: range, values: Values) -> list[str]:
        """Return the registers, or where nothing has set one what stands for that."""
        known = [reg for reg in registers if reg in self._known[pc]]
        self._pass(values, known)
        return [f"r{reg}" if reg in known else f"unset[{reg}]" for reg in registers]

    @staticmethod
    def _pass(values: Values, registers: Iterable[int]) -> None:
        for reg in registers:
            values.tight(reg)

    def _returned(self, values: Values, cost: int | None) -> None:
        if cost is not None:
            values.emit(f"left = vm.left + {cost}")
        values.state[0] = ANY64
        values.state[1:6] = [ANY64] * 5
