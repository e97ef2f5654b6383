"""Calls of the kernel's own functions, by name: a call in; the slot to go on with out.

Names come from the program (``CorpusProgram.kfuncs``), prototypes from kfuncs_table, and who may
call which, with what flags, from the kernel's profile. What has no row there is not modelled.
Source: check_kfunc_call, check_kfunc_args and check_special_kfunc in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from functools import cache

from pybpf.dataclass import dataclass
from pybpf.isa.abi import ProgType
from pybpf.verifier import iterators
from pybpf.verifier.allowed import is_gpl
from pybpf.verifier.dynptrs import SKB, XDP, Dynptr
from pybpf.verifier.env import END, Env
from pybpf.verifier.kfuncargs import ITERATOR, KfuncCall, check_kfunc_argument
from pybpf.verifier.kinds import BTF_ID, MAYBE_NULL, MEM, RCU, RDONLY, SLICE, TRUSTED, UNTRUSTED
from pybpf.verifier.packet import each_reg, may_write_packet
from pybpf.verifier.program import SLEEPABLE, Checked
from pybpf.verifier.references import release
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.registers import EACCES, leaks
from pybpf.verifier.returns import allowed_range
from pybpf.verifier.sections import check_leftovers, sleepless
from pybpf.verifier.state import POINTER, UNINIT, UNKNOWN_REG, Reg, State

_NUMBERS = frozenset({"bpf_iter_num_new", "bpf_iter_num_next", "bpf_iter_num_destroy"})


@dataclass(frozen=True, slots=True)
class Row:
    """A function's arguments and result, as the words of the table."""

    args: tuple[str, ...]
    ret: str


@cache
def _rows() -> dict[str, Row]:
    from pybpf.verifier.kfuncs_table import ROWS

    rows = {}
    for line in filter(None, ROWS.split("\n")):
        head, _, ret = line.partition(" -> ")
        name, *args = head.split()
        rows[name] = Row(tuple(args), ret)
    return rows


def mark_kfuncs(program: Checked) -> None:
    """Note where iterators are advanced: states are kept and compared there."""
    for at, name in program.kfuncs.items():
        match = ITERATOR.fullmatch(name)
        if match and match[2] == "next":
            program.iter_next.add(at)
            program.forced.add(at)
            program.pruning.add(at)
            program.joins.add(at)
        elif name.startswith("bpf_wq_set_callback"):
            program.pruning.add(at)


def kfunc_call(env: Env, state: State, btf_id: int, module: int) -> int:
    """Do what a call of the kfunc with that type id (of that BTF object) does."""
    name = env.program.kfuncs.get(state.at)
    if name is None:
        raise Unmodelled(f"kfunc {btf_id} of BTF object {module}, whose name is not known")
    row = _rows().get(name)
    known = env.rules.profile.kfuncs(ProgType(env.prog_type))
    if row is None:
        raise Unmodelled(f"kfunc {name}")
    if not is_gpl(env.program.subject.licence):
        raise Refusal("cannot call kernel function from non-GPL compatible program")
    if name not in known:
        if not _exists(env, name):
            raise Unmodelled(f"kfunc {name}, which this kernel does not have")
        raise Refusal(f"calling kernel function {name} is not allowed", errno=EACCES)
    call = KfuncCall(name, row.args, known[name].flags)
    _check_place(env, state, call)
    for index in range(len(row.args)):
        check_kfunc_argument(env, state, call, index)
    if "release" in call.flags and not call.release:
        raise Refusal(f"release kernel function {name} expects refcounted PTR_TO_BTF_ID")
    _change_sections(env, state, call)
    if call.release and not release(env, state, call.ref):
        raise Refusal(f"kfunc {name}#{btf_id} reference has not been acquired before")
    if name == "bpf_throw":
        return _throw(env, state)
    result = _result(env, state, call, row.ret)
    index = state.frame.regs[1].frame
    state.frame.regs[0:6] = [result, *[UNINIT] * 5]
    if "iter_next" in call.flags:
        return iterators.advance(env, state, index, call.iterator, result)
    return state.at + 1


def _exists(env: Env, name: str) -> bool:
    """Whether any type of program may call a function in this kernel."""
    return any(name in env.rules.profile.kfuncs(kind) for kind in env.rules.profile.program_types)


def _check_place(env: Env, state: State, call: KfuncCall) -> None:
    if state.lock is not None and not (env.rules.since(6, 15) and call.name in _NUMBERS):
        raise Refusal("function calls are not allowed while holding a lock")
    if "sleepable" in call.flags and not env.program.subject.prog_flags & SLEEPABLE:
        raise Refusal(
            f"program must be sleepable to call sleepable kfunc {call.name}", errno=EACCES
        )
    if "destructive" in call.flags or "rcu_protected" in call.flags:
        raise Unmodelled(f"kfunc {call.name}")


def _change_sections(env: Env, state: State, call: KfuncCall) -> None:
    """Open or close a section in which there is rcu, or no preemption."""
    name = call.name
    if name == "bpf_rcu_read_lock":
        if state.rcu and not env.rules.since(6, 19):
            raise Refusal(f"nested rcu read lock (kernel function {name})")
        state.rcu += 1
    elif name == "bpf_rcu_read_unlock":
        if not state.rcu:
            raise Refusal(f"unmatched rcu read unlock (kernel function {name})")
        state.rcu -= 1
        if not state.rcu:
            each_reg(state, _without_rcu)
    elif name == "bpf_preempt_disable":
        state.preempt += 1
    elif name == "bpf_preempt_enable":
        if not state.preempt:
            raise Refusal(f"unmatched attempt to enable preemption (kernel function {name})")
        state.preempt -= 1
    elif "sleepable" in call.flags and (region := sleepless(state)):
        raise Refusal(f"kernel func {name} is sleepable within {region} region", errno=EACCES)


def _without_rcu(reg: Reg) -> Reg:
    if not reg.kind & RCU:
        return reg
    new = reg.copy()
    new.kind = reg.kind & ~(RCU | MAYBE_NULL) | UNTRUSTED
    return new


def _throw(env: Env, state: State) -> int:
    """End the path by an exception, which gives r1 as the program's result."""
    if b"exception_callback" in env.program.subject.btf:
        raise Unmodelled("a program with an exception callback")
    reg = state.frame.regs[1]
    if leaks(env, reg):
        raise Refusal("R1 leaks addr as return value", errno=EACCES)
    allowed = allowed_range(env)
    if allowed is not None:
        env.precise(state, 1)
        if not allowed[0] <= reg.val.smin <= reg.val.smax <= allowed[1]:
            raise Unmodelled("an exception with a result that the program may not have")
    if state.lock is not None or state.rcu or state.preempt or state.irq:
        if env.rules.since(6, 13):
            check_leftovers(env, state, "bpf_throw")
        raise Unmodelled("an exception in a section")
    left = [ref for ref in state.refs if ref.kind == POINTER]
    if left:
        raise Refusal(f"Unreleased reference id={left[-1].id} alloc_insn={left[-1].insn}")
    return END


def _result(env: Env, state: State, call: KfuncCall, ret: str) -> Reg:
    word, _, rest = ret.partition(":")
    if word == "void":
        return UNINIT
    if word == "int":
        return UNKNOWN_REG
    if word == "mem":
        made = Reg(MEM | RDONLY)
        made.size = int(rest)
    elif word == "slice":
        made = _slice(env, call)
    else:
        made = Reg(BTF_ID | TRUSTED)
        made.extra = rest
    null = "ret_null" in call.flags
    if null:
        made.kind |= MAYBE_NULL
        made.id = env.new_id()
    if "acquire" in call.flags:
        made.ref = env.new_id()
        state.acquire(made.ref, state.at)
        if null:
            made.id = made.ref
    return made


def _slice(env: Env, call: KfuncCall) -> Reg:
    found = call.dynptr
    assert found is not None
    assert isinstance(found.extra, Dynptr)
    made = Reg(MEM | (SLICE if found.extra.kind in {SKB, XDP} else 0))
    if call.name == "bpf_dynptr_slice":
        made.kind |= RDONLY
    elif not may_write_packet(env):
        raise Refusal("the prog does not allow writes to packet data")
    made.size = call.size
    made.root = found.id
    return made
