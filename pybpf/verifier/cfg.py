"""Control flow: a program with subprograms in; reachability, successors and pruning points noted.

Source: check_cfg and visit_insn in kernel/bpf/verifier.c. Slots are walked depth first, the path
that falls through last, as the kernel does, so that the first fault found is the same.
"""

from __future__ import annotations

from functools import cache

from pybpf.verifier import opcodes as op
from pybpf.verifier.program import Checked, Raw
from pybpf.verifier.protos import CallFlag, proto
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.rules import Rules

_CALL_BACK_NOW = frozenset({164, 180, 181, 209})
"""for_each_map_elem, find_vma, loop, user_ringbuf_drain."""
_CALL_BACK_LATER = frozenset({170})
"""timer_set_callback."""

_UNSEEN, _OPEN, _DONE = range(3)


def walk(program: Checked, rules: Rules) -> None:
    """Note of each slot where control goes; raises Refusal for code nobody reaches.

    Without privileges also for a jump back to where a path is still open.
    """
    count = len(program.slots)
    program.successors = [()] * count
    seen = [_UNSEEN] * count
    program.order.clear()
    stack: list[tuple[int, list[int]]] = []

    def enter(at: int) -> None:
        seen[at] = _OPEN
        onward, called = _edges(program, at)
        program.successors[at] = tuple(onward)
        stack.append((at, [*reversed([*onward, *called])]))

    enter(0)
    catching = program.subprograms[program.catching].start
    while stack or (catching and seen[catching] == _UNSEEN):
        if not stack:
            program.pruning.add(catching)
            enter(catching)
        at, rest = stack[-1]
        if not rest:
            seen[at] = _DONE
            program.order.append(at)
            stack.pop()
            continue
        target = rest.pop()
        if target >= count:
            raise Refusal(f"jump out of range from insn {at} to {target}", at)
        if seen[target] == _UNSEEN:
            enter(target)
        elif seen[target] == _OPEN and (
            not rules.privileged or (not rules.since(6, 8) and _calls(program, at, target))
        ):
            raise Refusal(f"back-edge from insn {at} to {target}", at)
    _check_reached(program, seen)
    if rules.since(7, 0):
        _check_recursion(program)
    _spread_changes(program)
    program.pruning.add(0)


@cache
def _moves_packets(number: int) -> bool:
    """Whether a helper makes pointers into packets invalid."""
    known = proto(number, (99, 0))
    return known is not None and CallFlag.PACKET in known.flags


def _spread_changes(program: Checked) -> None:
    """Let callers of what changes packets change them, too."""
    changed = program.changes_packet
    before = -1
    while before != len(changed):
        before = len(changed)
        for sub in program.subprograms:
            if any(callee in changed for _, callee in sub.calls + sub.takes):
                changed.add(sub.index)


def _calls(program: Checked, at: int, target: int) -> bool:
    return program.slots[at].code == op.CALL and target != at + 1


def _check_recursion(program: Checked) -> None:
    """Raise Refusal for a subprogram that calls itself (sort_subprogs_topo, since Linux 7.0)."""
    path: list[int] = []
    done: set[int] = set()

    def descend(index: int) -> None:
        path.append(index)
        for at, callee in program.subprograms[index].calls:
            if callee in path:
                names = [_name(program, number) for number in (index, callee)]
                raise Refusal(f"recursive call from {names[0]}() to {names[1]}()", at)
            if callee not in done:
                descend(callee)
        done.add(path.pop())

    for sub in program.subprograms:
        if sub.index not in done:
            descend(sub.index)


def _name(program: Checked, index: int) -> str:
    function = program.functions.get(index)
    return function.name if function else ""


def _check_reached(program: Checked, seen: list[int]) -> None:
    at = 0
    while at < len(seen):
        if seen[at] == _UNSEEN:
            raise Refusal(f"unreachable insn {at}", at)
        if program.slots[at].code == op.LDDW:
            at += 1
            if seen[at] != _UNSEEN:
                raise Refusal(f"jump into the middle of ldimm64 insn {at - 1}", at - 1)
        at += 1


def _edges(program: Checked, at: int) -> tuple[list[int], list[int]]:
    """Return where control goes from a slot, and what it calls; notes where states are compared."""
    slot = program.slots[at]
    code = slot.code
    if code == op.LDDW:
        called = [at + 1 + slot.imm] if slot.src == op.FUNC else []
        if called:
            program.pruning.update((at, at + 2))
            program.joins.update((at + 2, *called))
            index = program.subprogram_at[called[0]]
            program.subprograms[program.subprogram_of[at]].takes.append((at, index))
        return [at + 2], called
    if code & op.CLASS not in {op.JMP, op.JMP32}:
        return [at + 1], []
    operation = code & op.OP
    if operation == op.OP_EXIT:
        return [], []
    if operation == op.OP_CALL:
        return [at + 1], _called(program, at, slot)
    if operation == op.OP_JA:
        target = at + 1 + (slot.imm if code == op.GOTOL else slot.off)
        program.pruning.add(target)
        program.joins.add(target)
        return [target], []
    target = at + 1 + slot.off
    program.pruning.update((at, target))
    program.joins.add(target)
    if operation == op.OP_MAY_GOTO:
        program.forced.add(at)
    return [at + 1, target], []


def _called(program: Checked, at: int, slot: Raw) -> list[int]:
    program.pruning.add(at + 1)
    program.joins.add(at + 1)
    if slot.src == 0:
        if _moves_packets(slot.imm):
            program.changes_packet.add(program.subprogram_of[at])
        if slot.imm in _CALL_BACK_LATER:
            program.pruning.add(at)
        if slot.imm in _CALL_BACK_NOW:
            program.pruning.add(at)
            program.forced.add(at)
            program.joins.add(at)
        return []
    if slot.src != op.CALL_LOCAL:
        return []
    target = at + 1 + slot.imm
    caller = program.subprograms[program.subprogram_of[at]]
    caller.calls.append((at, program.subprogram_at[target]))
    program.pruning.update((at, target))
    program.joins.add(target)
    return [target]
