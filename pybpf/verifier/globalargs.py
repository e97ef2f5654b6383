"""Arguments of global functions, by their types: a prototype in; what is known of each, out.

``scalar``; ``ctx``, the program's own context; ``mem:SIZE``, memory or NULL; and ``other``, which
is not modelled. Source: btf_prepare_func_args, btf_check_func_arg_match and check_mem_reg in
kernel/bpf/btf.c and verifier.c.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pybpf.isa.abi import ProgType
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import CTX, MAYBE_NULL, MEM, SCALAR
from pybpf.verifier.nulls import not_null
from pybpf.verifier.pointers import check_ptr_off
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.regions import check_region
from pybpf.verifier.state import UNKNOWN_REG, Reg, State

if TYPE_CHECKING:
    from pybpf.btf.reader import Btf
    from pybpf.verifier.progbtf import Function

_EXPLAINED = re.compile(r"allowed memory range|dereference of modified")
_SKB = (
    ProgType.SOCKET_FILTER, ProgType.SCHED_CLS, ProgType.SCHED_ACT, ProgType.CGROUP_SKB,
    ProgType.LWT_IN, ProgType.LWT_OUT, ProgType.LWT_XMIT, ProgType.LWT_SEG6LOCAL, ProgType.SK_SKB,
    ProgType.FLOW_DISSECTOR,
)  # fmt: skip
_CONTEXTS = {
    **dict.fromkeys(_SKB, "__sk_buff"),
    ProgType.XDP: "xdp_md",
    ProgType.CGROUP_SOCK: "bpf_sock",
    ProgType.CGROUP_SOCK_ADDR: "bpf_sock_addr",
    ProgType.SOCK_OPS: "bpf_sock_ops",
    ProgType.SK_MSG: "sk_msg_md",
    ProgType.PERF_EVENT: "bpf_perf_event_data",
    ProgType.RAW_TRACEPOINT: "bpf_raw_tracepoint_args",
    ProgType.CGROUP_SYSCTL: "bpf_sysctl",
    ProgType.CGROUP_SOCKOPT: "bpf_sockopt",
    ProgType.CGROUP_DEVICE: "bpf_cgroup_dev_ctx",
    ProgType.SK_REUSEPORT: "sk_reuseport_md",
    ProgType.SK_LOOKUP: "bpf_sk_lookup",
}
"""What the structure of a context is called, where only that name says that it is one."""


def argument(types: Btf, number: int, prog_type: int, *, tagged: bool) -> str:
    """Return what is known of an argument whose type has that number.

    ``tagged``: a tag of the declaration says more, which is not modelled.
    """
    from pybpf.btf.reader import Kind

    number = types.skip(number)
    kind = types.kind(number)
    if kind in {Kind.INT, Kind.ENUM, Kind.ENUM64}:
        return "scalar"
    context = _CONTEXTS.get(ProgType(prog_type))
    if kind is not Kind.PTR or context is None or tagged:
        return "other"
    target = types.target(number)
    inner = types.skip(target)
    name = types.name(inner)
    if types.kind(inner) in {Kind.STRUCT, Kind.FWD} and name == context:
        return "ctx"
    if types.kind(target) is Kind.TYPE_TAG or name == "bpf_dynptr":
        return "other"
    size = types.size(inner)
    return f"mem:{size}" if size else "other"


def returns(env: Env, function: Function) -> bool:
    """Whether a global function may return what it does: a number, or nothing in newer kernels."""
    return function.returns_scalar or (function.returns_void and env.rules.since(7, 1))


def entered(env: Env, function: Function) -> list[Reg]:
    """Return the registers, from r1 on, with which a global function is verified."""
    regs = []
    for kind in function.args:
        word, _, size = kind.partition(":")
        if word == "scalar":
            regs.append(UNKNOWN_REG)
        elif word == "ctx":
            regs.append(Reg(CTX))
        elif word == "mem":
            made = Reg(MEM | MAYBE_NULL)
            made.size = int(size)
            made.id = env.new_id()
            regs.append(made)
        else:
            raise Unmodelled("a global function's argument that is no number, context or memory")
    return regs


def check_passed(env: Env, state: State, subprog: int, function: Function) -> None:
    """Raise Refusal where a caller passes what a global function does not take."""
    args = [*enumerate(function.args, start=1)]
    if not returns(env, function) and env.rules.since(6, 8):
        args.insert(0, (0, "void"))
    for number, kind in args:
        try:
            _check(env, state, number, kind)
        except Refusal as refusal:
            # After lines that say which argument, and why; what Linux 7 explains is the reason.
            if env.rules.since(7, 1) and _EXPLAINED.search(refusal.message):
                raise
            name = f" ('{function.name}')" if env.rules.since(6, 8) else ""
            raise Refusal(
                f"Caller passes invalid args into func#{subprog}{name}", errno=refusal.errno
            ) from None


def _check(env: Env, state: State, number: int, kind: str) -> None:
    regs = state.frame.regs
    reg = regs[number]
    word, _, size = kind.partition(":")
    if word == "scalar":
        if reg.kind != SCALAR:
            raise Refusal("")
    elif word == "void":
        raise Refusal("")
    elif word == "ctx":
        if reg.kind != CTX:
            raise Refusal("")
        check_ptr_off(env, reg, number)
    elif word == "mem":
        if reg.is_null:
            return
        regs[number] = not_null(reg)
        try:
            check_region(env, state, number, int(size), zero_ok=True)
            check_region(env, state, number, int(size), zero_ok=True, write=True)
        finally:
            regs[number] = reg
    else:
        raise Unmodelled("a global function's argument that is no number, context or memory")
