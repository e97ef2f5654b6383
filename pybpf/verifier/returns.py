"""The end of a program: what it may leave behind, and what it may return.

Source: check_return_code and check_reference_leak in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.isa.abi import ProgType
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import SCALAR
from pybpf.verifier.pointers import prohibit, shown
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.registers import leaks, read
from pybpf.verifier.results import Range, result_range
from pybpf.verifier.state import POINTER, Reg, State


def check_references(env: Env, state: State, what: str) -> None:
    """Raise Refusal where a reference is still held at ``what``.

    That is "BPF_EXIT", "BPF_LD_[ABS|IND]", "tail_call" or "bpf_throw".
    """
    if not state.refs:
        return
    # Since Linux 6.13 one function checks for all that may be left open (check_resource_leak).
    new = env.rules.since(6, 13)
    inner = len(state.frames) > 1 and what != "bpf_throw"
    if inner and (new or state.frame.callback is None) and (new or what != "BPF_LD_[ABS|IND]"):
        return
    left = [ref for ref in state.refs if ref.kind == POINTER]
    if inner and what != "BPF_LD_[ABS|IND]":
        left = [ref for ref in left if ref.frame == state.frame.index]
    if not left:
        return
    if new and not env.rules.since(7, 0):
        where = "BPF_EXIT instruction in main prog" if what == "BPF_EXIT" else what
        raise Refusal(f"{where} would lead to reference leak")
    if what == "tail_call" and not new:
        raise Refusal("tail_call would lead to reference leak")
    if what == "BPF_LD_[ABS|IND]" and not new:
        raise Refusal(f"{what} cannot be mixed with socket references")
    raise Refusal(f"Unreleased reference id={left[-1].id} alloc_insn={left[-1].insn}")


def check_return(env: Env, state: State) -> None:
    """Raise Refusal for a value of r0 that the main program may not return."""
    function = env.program.functions.get(state.frame.subprog)
    catches = state.frame.subprog and state.frame.subprog == env.program.catching
    called = state.frame.subprog and not state.frame.is_async and not catches
    if called and function is not None and function.returns_void:
        return
    reg = read(state.frame.regs, 0)
    if leaks(env, reg):
        raise prohibit(0, "leaks addr as return value")
    if state.frame.is_async:
        check_range(
            env,
            state,
            reg,
            state.frame.result or (0, 0),
            "async callback return" if env.rules.since(6, 8) else "async callback",
        )
        return
    if called:
        if reg.kind != SCALAR:
            raise Refusal(
                f"At subprogram exit the register R0 is not a scalar value ({env.words(reg.kind)})"
            )
        return
    allowed = allowed_range(env)
    if allowed is not None:
        check_range(env, state, reg, allowed, "program exit")


def check_range(env: Env, state: State, reg: Reg, allowed: Range, where: str) -> None:
    """Raise Refusal unless r0 is known to be in a range."""
    if reg.kind != SCALAR:
        raise Refusal(f"At {where} the register R0 is not a known value ({env.words(reg.kind)})")
    env.precise(state, 0)
    low, high = allowed
    val = reg.val
    if low <= val.smin and val.smax <= high:
        return
    if env.rules.since(6, 8):
        found = "".join(
            f" {name}={bound}"
            for name, bound, no in (
                ("smin", val.smin, -1 << 63), ("smax", val.smax, (1 << 63) - 1),
            )
            if bound != no
        ) or " unknown scalar value"  # fmt: skip
        raise Refusal(f"At {where} the register R0 has{found} should have been in [{low}, {high}]")
    known = f"has value {shown(env, val)}"
    if val.mask == (1 << 64) - 1:
        known = "has unknown scalar value"
    raise Refusal(
        f"At {where} the register R0 {known} should have been in ({low:#x}; {high - low:#x})"
    )


def allowed_range(env: Env) -> Range | None:
    """Return what programs of this type may return; None: anything."""
    kind, attach = env.prog_type, env.program.subject.expected_attach_type
    if kind in {ProgType.LSM, ProgType.STRUCT_OPS, ProgType.EXT}:
        raise Unmodelled(f"return values of program type {kind}")
    return result_range(env.rules.version, kind, attach)
