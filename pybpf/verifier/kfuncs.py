"""Calls of the kernel's own functions, by name: a call in; the slot to go on with out.

Names come from the program (``CorpusProgram.kfuncs``), prototypes from kfuncs_table, and who may
call which, with what flags, from the kernel's profile. What has no row there is not modelled.
Source: check_kfunc_call, check_kfunc_args and check_special_kfunc in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from functools import cache

from pybpf.btf.reader import Kind
from pybpf.dataclass import dataclass
from pybpf.isa.abi import ProgType
from pybpf.verifier import iterators
from pybpf.verifier.callbacks import begin
from pybpf.verifier.dynptrs import SKB, XDP, Dynptr
from pybpf.verifier.env import END, Env
from pybpf.verifier.exceptions import check_throw
from pybpf.verifier.graphs import adds_to_tree, compared
from pybpf.verifier.kfuncargs import ITERATOR, KfuncCall, check_kfunc_argument
from pybpf.verifier.kinds import BTF_ID, MAYBE_NULL, MEM, NON_OWN_REF, RDONLY, SLICE, TRUSTED
from pybpf.verifier.locks import check_may_call_kfunc, may_lock
from pybpf.verifier.objectargs import object_result
from pybpf.verifier.owned import fields_of, share, without_rcu
from pybpf.verifier.packet import each_reg, may_write_packet
from pybpf.verifier.program import Checked
from pybpf.verifier.references import release
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.registers import EACCES
from pybpf.verifier.scalar import UNKNOWN
from pybpf.verifier.sections import sleepless
from pybpf.verifier.state import UNINIT, UNKNOWN_REG, ZERO_REG, Reg, State, scalar_reg

_MAX_ERRNO = 4095


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
        elif adds_to_tree(name):
            program.forced.add(at)
            program.pruning.add(at)
            program.joins.add(at)


def kfunc_call(env: Env, state: State, btf_id: int, module: int) -> int:
    """Do what a call of the kfunc with that type id (of that BTF object) does."""
    name = _name(env, state.at, btf_id, module)
    if name is None:
        # A call of nothing does nothing, and must not be left in the end.
        env.calls_nothing = True
        return state.at + 1
    row = _rows().get(name)
    known = env.rules.profile.kfuncs(ProgType(env.prog_type))
    if not _exists(env, name):
        _refuse_missing(env, name)
    if row is None:
        raise Unmodelled(f"kfunc {name}")
    flags = known[name].flags if name in known else frozenset()
    check_may_call_kfunc(env, state, name, flags)
    if name not in known:
        raise Refusal(f"calling kernel function {name} is not allowed", errno=EACCES)
    call = KfuncCall(name, row.args, flags)
    if row.ret == "int" and "lock" in row.args:
        _fail_to_lock(env, state)
    _check_place(env, call)
    for index in range(len(row.args)):
        check_kfunc_argument(env, state, call, index)
    if "release" in call.flags and not call.release:
        raise Refusal(f"release kernel function {name} expects refcounted PTR_TO_BTF_ID")
    if adds_to_tree(name):
        assert call.member is not None
        begin(env, state, call.subprog, compared(env, call.member))
    _change_sections(env, state, call)
    if call.release and not release(env, state, call.ref):
        raise Refusal(f"kfunc {name}#{btf_id} reference has not been acquired before")
    if call.given:
        share(state, call.given)
    if name == "bpf_throw":
        check_throw(env, state)
        return END
    result = _result(env, state, call, row.ret)
    index = state.frame.regs[1].frame
    state.frame.regs[0:6] = [result, *[UNINIT] * 5]
    if "iter_next" in call.flags:
        return iterators.advance(env, state, index, call.iterator, result)
    return state.at + 1


def _name(env: Env, at: int, btf_id: int, module: int) -> str | None:
    """Return the name of what is called at a slot; None where the kernel has none such."""
    name, types = env.program.kfuncs.get(at), env.known_types
    if name is not None:
        return None if types is not None and types.find(Kind.FUNC, name) is None else name
    if not btf_id and not module:
        return None
    if types is None or module:
        raise Unmodelled(f"kfunc {btf_id} of BTF object {module}, whose name is not known")
    if types.btf.kind(btf_id) is not Kind.FUNC:
        raise Refusal(f"kernel btf_id {btf_id} is not a function")
    return types.btf.name(btf_id)


def _exists(env: Env, name: str) -> bool:
    """Whether any type of program may call a function in this kernel."""
    return any(name in env.rules.profile.kfuncs(kind) for kind in env.rules.profile.program_types)


def _refuse_missing(env: Env, name: str) -> None:
    """Raise Refusal for a call of what this kernel has not, as loaders do, or Unmodelled."""
    if not env.rules.has_kfuncs:
        raise Unmodelled(f"kfunc {name}, in a kernel without such calls")
    raise Refusal(f"extern (func ksym) '{name}': not found in kernel or module BTFs", errno=3)


def _fail_to_lock(env: Env, state: State) -> None:
    """Put off the path on which a lock could not be taken."""
    other = env.push(state, state.at + 1)
    val = env.rules.math.clamp(UNKNOWN, -_MAX_ERRNO, -1)
    other.frame.regs[0:6] = [scalar_reg(val), *[UNINIT] * 5]


def _check_place(env: Env, call: KfuncCall) -> None:
    if "sleepable" in call.flags and not env.sleepable:
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
            each_reg(state, without_rcu)
    elif name == "bpf_preempt_disable":
        state.preempt += 1
    elif name == "bpf_preempt_enable":
        if not state.preempt:
            raise Refusal(f"unmatched attempt to enable preemption (kernel function {name})")
        state.preempt -= 1
    elif "sleepable" in call.flags and (region := sleepless(state)):
        raise Refusal(f"kernel func {name} is sleepable within {region} region", errno=EACCES)


def _result(env: Env, state: State, call: KfuncCall, ret: str) -> Reg:
    word, _, rest = ret.partition(":")
    if word == "void":
        return UNINIT
    if word == "int":
        return ZERO_REG if "lock" in call.args else UNKNOWN_REG
    if word in {"new", "same", "member"}:
        made = object_result(env, call, word, rest)
    elif word == "mem":
        made = Reg(MEM | RDONLY)
        made.size = int(rest)
    elif word == "slice":
        made = _slice(env, call)
    else:
        valid = "iter_next" in call.flags or ("acquire" in call.flags and env.rules.since(7, 1))
        made = Reg(BTF_ID | (TRUSTED if valid else 0))
        made.extra = rest
    null = "ret_null" in call.flags and not (word == "same" and call.owns)
    if null:
        made.kind |= MAYBE_NULL
        made.id = env.new_id()
    if "acquire" in call.flags:
        made.ref = env.new_id()
        state.acquire(made.ref, state.at)
        if null:
            made.id = made.ref
    elif word == "member":
        made.kind |= NON_OWN_REF
    if not made.id and may_lock(fields_of(env, made)):
        made.id = env.new_id()
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
