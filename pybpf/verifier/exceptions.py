"""Exceptions: a program's types in; the function that they end in, and what a throw ends, out.

The tag ``exception_callback:NAME`` of a program names that function; without one, what is thrown is
the program's result. Source: bpf_find_exception_callback_insn_off, check_kfunc_call and
check_max_stack_depth in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.btf.reader import Kind, Linkage
from pybpf.corpus import CorpusProgram
from pybpf.verifier import opcodes as op
from pybpf.verifier.env import Env
from pybpf.verifier.progbtf import function_records
from pybpf.verifier.program import Checked
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.registers import EACCES, leaks
from pybpf.verifier.results import refusal
from pybpf.verifier.returns import allowed_range, check_references
from pybpf.verifier.rules import Rules
from pybpf.verifier.sections import check_leftovers
from pybpf.verifier.state import State

_TAG = "exception_callback:"


def find_catching(program: Checked, subject: CorpusProgram, rules: Rules) -> int:
    """Return the slot of the function that exceptions end in, 0 for none; raises Refusal."""
    types = program.types
    records = function_records(subject)
    if types is None or not records or not rules.since(6, 7):
        return 0
    tags = [
        tag.removeprefix(_TAG) for tag in types.decl_tags(records[0][1]) if tag.startswith(_TAG)
    ]  # fmt: skip
    if not tags:
        return 0
    if len(tags) > 1:
        raise Refusal("multiple exception callback tags for main subprog", errno=17)
    name = tags[0]
    number = types.function_number(name) if name else None
    if number is None or types.kind(number) is not Kind.FUNC:
        raise Refusal(f"exception callback '{name}' could not be found in BTF", errno=2)
    if types.linkage(number) is not Linkage.GLOBAL:
        raise Refusal(f"exception callback '{name}' must have global linkage")
    for slot, kind in records:
        if kind == number:
            if not slot:
                raise Refusal("invalid exception callback insn_off in func_info: 0")
            return int(slot)
    raise Refusal("exception callback type id not found in func_info", errno=2)


def check_parameters(args: tuple[str, ...]) -> None:
    """Raise Refusal unless a function may be what exceptions end in."""
    if args != ("scalar",):
        raise Refusal("exception cb only supports single integer argument")


def throws(program: Checked, at: int) -> bool:
    """Whether the instruction at a slot is a throw."""
    slot = program.slots[at]
    return (
        slot.code == op.CALL and slot.src == op.CALL_KFUNC
        and program.kfuncs.get(at) == "bpf_throw"
    )  # fmt: skip


def check_throw(env: Env, state: State) -> None:
    """Raise Refusal where what r1 holds may not be thrown here."""
    if not env.program.catching:
        reg = state.frame.regs[1]
        if leaks(env, reg):
            raise Refusal("R1 leaks addr as return value", errno=EACCES)
        allowed = allowed_range(env)
        if allowed is not None:
            env.precise(state, 1)
            low, high = reg.val.smin, reg.val.smax
            if not allowed[0] <= low <= high <= allowed[1]:
                text = refusal(env.rules.version, allowed, low, high)
                raise Refusal(text.replace("register R0", "register R1"))
    check_unwound(env, state)


def check_unwound(env: Env, state: State) -> None:
    """Raise Refusal where the program still holds something that an exception would leave."""
    if env.rules.since(6, 13):
        check_references(env, state, "bpf_throw")
        check_leftovers(env, state, "bpf_throw")
    else:
        check_leftovers(env, state, "bpf_throw")
        check_references(env, state, "bpf_throw")


def _throwing(program: Checked) -> dict[int, int]:
    """Return the first throw in each subprogram that has one: numbers to slots."""
    return {
        sub.index: at
        for sub in program.subprograms
        for at in sorted(program.kfuncs, reverse=True)
        if sub.start <= at < sub.end and throws(program, at)
    }


def spread_throws(program: Checked) -> set[int]:
    """Return the subprograms in which something may be thrown, by number."""
    found = set(_throwing(program))
    before = -1
    while before != len(found):
        before = len(found)
        for sub in program.subprograms:
            if any(callee in found for _, callee in sub.calls + sub.takes):
                found.add(sub.index)
    return found


def check_callbacks(env: Env) -> None:
    """Raise Refusal for a throw in a function that is called back, or in what that calls.

    And for a call of what exceptions end in.
    """
    program = env.program
    for sub in program.subprograms:
        for at, index in sub.calls:
            if index and index == program.catching:
                raise Refusal(f"insn {at} cannot call exception cb directly")
    throwing = _throwing(program)
    if not throwing:
        return
    called_back = {index for sub in program.subprograms for _, index in sub.takes}
    called_back |= {program.catching} - {0}
    reached: set[int] = set()
    waiting = sorted(called_back, reverse=True)
    while waiting:
        index = waiting.pop()
        if index in reached:
            continue
        reached.add(index)
        if index in throwing:
            raise Refusal(
                f"bpf_throw kfunc (insn {throwing[index]}) cannot be called from callback subprog "
                f"{index}"
            )
        sub = program.subprograms[index]
        waiting += [callee for _, callee in sub.calls + sub.takes]
