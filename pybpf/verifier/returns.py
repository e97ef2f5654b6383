"""The end of a program: what it may leave behind, and what it may return.

Source: check_return_code and check_reference_leak in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.isa.abi import AttachType, ProgType
from pybpf.verifier.attach_table import BOOL_HOOKS
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import SCALAR
from pybpf.verifier.pointers import prohibit, shown
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.registers import leaks, read
from pybpf.verifier.results import Range, lsm_result_range, result_range
from pybpf.verifier.state import POINTER, Reg, State

_VOID = "Note, BPF_LSM_CGROUP that attach to void LSM hooks can't modify return value!"


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
    if not state.frame.subprog and _returns_nothing(env):
        return
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
        narrow = env.prog_type == ProgType.LSM and env.rules.since(6, 12)
        try:
            check_range(env, state, reg, allowed, "program exit", narrow=narrow)
        except Refusal:
            if env.prog_type == ProgType.LSM and allowed == (1, 1):
                raise Refusal(_VOID) from None
            raise


def _returns_nothing(env: Env) -> bool:
    """Whether nobody looks at a program's result, as what it is attached to has none."""
    if env.target is None or env.target.returns:
        return False
    if env.prog_type == ProgType.LSM:
        return env.program.subject.expected_attach_type == AttachType.LSM_MAC
    return env.prog_type == ProgType.STRUCT_OPS


def check_range(
    env: Env, state: State, reg: Reg, allowed: Range, where: str, *, narrow: bool = False
) -> None:
    """Raise Refusal unless r0 is known to be in a range; ``narrow``: the low half of it."""
    if reg.kind != SCALAR:
        raise Refusal(f"At {where} the register R0 is not a known value ({env.words(reg.kind)})")
    env.precise(state, 0)
    low, high = allowed
    val = reg.val
    least, most = (val.smin32, val.smax32) if narrow else (val.smin, val.smax)
    if low <= least and most <= high:
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
    found = result_range(env.rules.version, kind, attach)
    if kind != ProgType.LSM or env.target is None:
        return found
    if attach == AttachType.LSM_CGROUP:
        return found if env.target.returns else (1, 1)
    return lsm_result_range(
        env.rules.version,
        returns_bool=env.program.subject.attach_to in BOOL_HOOKS,
        returns_void=not env.target.returns,
    )
