"""A program and a kernel's profile in; the verdict of that kernel's verifier out.

    verify(program, profile("6.12"))   # Report(verdict="reject", insn=4, message="R0 !read_ok", …)

The order is that of bpf_check in kernel/bpf/verifier.c: structure, all paths of the main program,
then the stack that chains of calls need.
"""

from __future__ import annotations

from pybpf.corpus import CorpusProgram
from pybpf.isa.abi import ProgFlag, ProgType
from pybpf.target.profile import Profile
from pybpf.verifier.attach import find_target
from pybpf.verifier.contexts import TYPED
from pybpf.verifier.env import Env, Log
from pybpf.verifier.exceptions import check_callbacks, check_parameters
from pybpf.verifier.explore import explore
from pybpf.verifier.globalargs import entered, returns
from pybpf.verifier.kerneltypes import KernelTypes
from pybpf.verifier.kinds import CTX, STACK
from pybpf.verifier.limits import DEFAULT_LIMITS, Limits
from pybpf.verifier.liveness import find_live
from pybpf.verifier.mapcreate import refuse_maps
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.removal import check_addresses, check_calls
from pybpf.verifier.report import Report
from pybpf.verifier.rules import Rules
from pybpf.verifier.stackdepth import check_stack_depth
from pybpf.verifier.state import Frame, Reg, State
from pybpf.verifier.structure import check_structure


def verify(
    program: CorpusProgram,
    profile: Profile,
    *,
    limits: Limits = DEFAULT_LIMITS,
    privileged: bool = True,
    log: Log | None = None,
    types: KernelTypes | None = None,
) -> Report:
    """Return what the kernel's verifier would say of a program.

    ``types`` are those of the kernel, for programs that need them. Raises what their loading
    raises, and nothing else.
    """
    rules = Rules(profile, privileged=privileged)
    env: Env | None = None
    try:
        refuse_maps(program.maps, profile)
        refuse_load(program, rules)
        checked = check_structure(program, rules, types)
        find_live(checked, rules.version)
        target = find_target(program, rules, types) if program.prog_type in TYPED else None
        env = Env(checked, rules, limits, log, types, target)
        _explore_all(env)
        check_callbacks(env)
        check_stack_depth(env)
        check_addresses(env)
        check_calls(env)
    except Refusal as refusal:
        at = refusal.insn if refusal.insn is not None or env is None else env.at
        at = at if refusal.message else None
        return _report("reject", at, refusal.message, env, refusal.errno)
    except Unmodelled as unknown:
        at = None if env is None else env.at
        reason = unknown.reason
        text = reason if reason.startswith("limit: ") else f"not modelled: {reason}"
        return _report("unknown", at, text, env, 0)
    return _report("accept", None, "", env, 0)


def _report(verdict: str, at: int | None, message: str, env: Env | None, errno: int) -> Report:
    assert verdict in {"accept", "reject", "unknown"}
    if env is None:
        return Report(verdict, at, message, errno=errno)  # type: ignore[arg-type]
    return Report(
        verdict,  # type: ignore[arg-type]
        at, message, env.processed, errno, env.total_states,
        tuple(sub.depth for sub in env.program.subprograms),
    )  # fmt: skip


def refuse_load(program: CorpusProgram, rules: Rules) -> None:
    """Raise Refusal for what bpf(2) refuses before the verifier looks at the program."""
    try:
        kind = ProgType(program.prog_type)
    except ValueError:
        raise Refusal("") from None
    if kind not in rules.profile.program_types:
        raise Refusal("")
    if program.prog_flags & ~rules.known_flags:
        raise Refusal("")
    attach = rules.profile.attach_types(kind)
    if attach and program.expected_attach_type not in attach:
        raise Refusal("")
    # A program for a device, or one loaded with a token, needs one, which a corpus cannot name.
    if program.prog_flags & (ProgFlag.XDP_DEV_BOUND_ONLY | ProgFlag.TOKEN_FD):
        raise Refusal("")
    if program.prog_flags & ProgFlag.TEST_REG_INVARIANTS:
        raise Unmodelled("BPF_F_TEST_REG_INVARIANTS")
    sleeps = bool(program.prog_flags & ProgFlag.SLEEPABLE)
    if kind is ProgType.SYSCALL and not sleeps:
        raise Refusal("Syscall programs can only be sleepable")
    if sleeps and not rules.may_sleep(kind, program.expected_attach_type):
        raise Refusal(
            "Program of this type cannot be sleepable"
            if rules.since(7, 0)
            else "Only fentry/fexit/fmod_ret, lsm, iter, uprobe, and struct_ops programs can be "
            "sleepable"
        )


def _explore_all(env: Env) -> None:
    """Follow the main program and the global functions, in the kernel's order.

    Since Linux 6.8 the main program comes first, and functions that nobody calls never.
    """
    functions = env.program.functions
    todo = [number for number, function in functions.items() if number and function.is_global]
    lazy = env.rules.since(6, 8)
    if lazy:
        explore(env, first_state())
    done: set[int] = set()
    env.called |= {env.program.catching} - {0}
    while True:
        ready = [n for n in todo if n not in done and (n in env.called or not lazy)]
        if not ready:
            break
        done.add(ready[0])
        env.restart()
        explore(env, _function_state(env, ready[0]))
    if not lazy:
        env.restart()
        explore(env, first_state())


def _function_state(env: Env, number: int) -> State:
    frame = Frame(0, number, -1)
    frame.regs[10] = Reg(STACK)
    function = env.program.functions[number]
    if not returns(env, function):
        wrong = (
            "return value not void or scalar" if env.rules.since(7, 1) else "doesn't return scalar"
        )
        raise Refusal(f"Global function {function.name}() {wrong}. Only those are supported.")
    if number == env.program.catching:
        check_parameters(function.args)
    regs = entered(env, function)
    frame.regs[1 : 1 + len(regs)] = regs
    state = State(frame)
    state.at = env.program.subprograms[number].start
    return state


def first_state() -> State:
    """Return the state in which the main program begins: r1 points to the context."""
    frame = Frame(0, 0, -1)
    frame.regs[1] = Reg(CTX)
    frame.regs[10] = Reg(STACK)
    return State(frame)
