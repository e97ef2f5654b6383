"""What a helper leaves in r0: a checked call in; the register set, or Refusal, out.

Source: the second half of check_helper_call, and do_refine_retval_range, in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.isa.helpers import HELPERS
from pybpf.verifier.arguments import CONST_KEYED, SOCK_MAPS
from pybpf.verifier.callmeta import Call
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import (
    BTF_ID,
    MAP_PTR,
    MAP_VALUE,
    MAYBE_NULL,
    MEM,
    RDONLY,
    RINGBUF,
    SOCK_COMMON,
    SOCKET,
    TCP_SOCK,
    TRUSTED,
)
from pybpf.verifier.kptrs import exchanged, of_this_cpu
from pybpf.verifier.locks import may_lock
from pybpf.verifier.mapcompat import refuse_helper
from pybpf.verifier.nulls import inner_uid
from pybpf.verifier.owned import Local
from pybpf.verifier.protos import CallFlag, Ret, TypeFlag
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.scalar import UNKNOWN
from pybpf.verifier.state import UNINIT, UNKNOWN_REG, Frame, Reg, State, scalar_reg

_LOOKUP = HELPERS["bpf_map_lookup_elem"]
_DYNPTR_DATA = HELPERS["bpf_dynptr_data"]
_CPU = HELPERS["bpf_get_smp_processor_id"]
_CASTS = frozenset(
    HELPERS[f"bpf_{name}"]
    for name in (
        "tcp_sock", "sk_fullsock", "skc_to_tcp_sock", "skc_to_tcp6_sock", "skc_to_udp6_sock",
        "skc_to_mptcp_sock", "skc_to_tcp_timewait_sock", "skc_to_tcp_request_sock",
    )
)  # fmt: skip
"""Helpers that give another pointer to what they were given, with its reference."""
_SIZED = frozenset(
    HELPERS[f"bpf_{name}"]
    for name in (
        "get_stack", "get_task_stack", "probe_read_str", "probe_read_kernel_str",
        "probe_read_user_str",
    )
)  # fmt: skip
"""Helpers whose result is an error or no more than the size that they were given."""
_MAX_ERRNO = 4095
_MAX_CPUS = 8192
_FLAGS = (
    (TypeFlag.NULL, MAYBE_NULL), (TypeFlag.RDONLY, RDONLY), (TypeFlag.RINGBUF, RINGBUF),
    (TypeFlag.TRUSTED, TRUSTED),
)  # fmt: skip
_KINDS = {
    Ret.PTR_TO_MAP_VALUE: MAP_VALUE, Ret.PTR_TO_SOCKET: SOCKET, Ret.PTR_TO_TCP_SOCK: TCP_SOCK,
    Ret.PTR_TO_SOCK_COMMON: SOCK_COMMON, Ret.PTR_TO_MEM: MEM, Ret.PTR_TO_BTF_ID: BTF_ID,
}  # fmt: skip


def set_result(env: Env, state: State, frame: Frame, call: Call) -> None:
    """Set r0 of the calling frame."""
    ret = call.proto.ret
    if ret.kind is Ret.INTEGER:
        frame.regs[0] = _integer(env, call)
        return
    if ret.kind is Ret.VOID:
        frame.regs[0] = UNINIT
        return
    if call.pointer is not None:
        made = exchanged(env, call.pointer)
        made.id = env.new_id()
        made.id = made.ref = env.new_id()
        state.acquire(made.ref, state.at)
        frame.regs[0] = made
        return
    if call.percpu is not None:
        if isinstance(call.percpu.extra, Local):
            frame.regs[0] = of_this_cpu(env, call.percpu)
        else:
            frame.regs[0] = _variable(env, call.percpu, call)
        return
    kind = _KINDS.get(ret.kind)
    if kind is None:
        raise Unmodelled(f"the result of {call.word}")
    for flag, bit in _FLAGS:
        if flag in ret.flags:
            kind |= bit
    made = Reg(kind)
    number = call.proto.number
    if ret.kind is Ret.PTR_TO_MAP_VALUE:
        made.map, made.uid = call.map, call.uid
        if _is_there(call):
            made.kind &= ~MAYBE_NULL
        if not made.kind & MAYBE_NULL and call.map and may_lock(call.map.fields):
            made.id = env.new_id()
    elif ret.kind is Ret.PTR_TO_MEM:
        made.size = call.mem_size
    elif ret.kind is Ret.PTR_TO_BTF_ID:
        made.extra = ret.btf
    if made.kind & MAYBE_NULL:
        made.id = env.new_id()
    inner = None if made.map is None else made.map.inner
    if inner is not None and env.rules.since(7, 1):
        made.kind = MAP_PTR | MAYBE_NULL
        made.map, made.uid = inner, inner_uid(inner, made.id)
    if number == _DYNPTR_DATA:
        made.root = call.root
    if number in _CASTS or number == _DYNPTR_DATA:
        made.ref = call.ref
    elif CallFlag.ACQUIRE in call.proto.flags or _finds_socket(call):
        made.id = made.ref = env.new_id()
        state.acquire(made.ref, state.at)
    frame.regs[0] = made


def _variable(env: Env, variable: Reg, call: Call) -> Reg:
    """Return a pointer to a processor's copy of a variable of the kernel."""
    types = env.types
    made = types.variable(types.btf.skip(variable.btf))
    if TypeFlag.NULL in call.proto.ret.flags:
        made.kind |= MAYBE_NULL
        made.id = env.new_id()
    return made


def _finds_socket(call: Call) -> bool:
    return call.proto.number == _LOOKUP and call.map is not None and call.map.type in SOCK_MAPS


def _is_there(call: Call) -> bool:
    """Whether an array is known to have the entry that is looked up."""
    known = call.map
    return (
        call.proto.number == _LOOKUP
        and known is not None
        and known.type in CONST_KEYED
        and 0 <= call.key < known.max_entries
    )


def _integer(env: Env, call: Call) -> Reg:
    number = call.proto.number
    if number in _SIZED:
        return scalar_reg(env.rules.math.clamp(UNKNOWN, -_MAX_ERRNO, call.most))
    # How many there are is the machine's; that many are the most that kernels are built for.
    if number == _CPU and env.rules.since(6, 10):
        return scalar_reg(env.rules.math.clamp(UNKNOWN, 0, _MAX_CPUS - 1))
    return UNKNOWN_REG


def check_kinds(env: Env, call: Call) -> None:
    """Raise Refusal where the helper does not take a map of that type."""
    if call.map is None:
        return
    subject = env.program.subject
    message = refuse_helper(
        call.map.type, call.proto.number, env.rules.version, env.prog_type,
        subject.expected_attach_type,
    )  # fmt: skip
    if message:
        raise Refusal(message)
