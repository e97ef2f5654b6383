"""Loads and stores of the context: an access in; what a load makes of a register out.

What each type of program may touch is in contexts.py.
"""

from __future__ import annotations

from pybpf.verifier import kinds
from pybpf.verifier.contexts import Context, context
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import MAYBE_NULL
from pybpf.verifier.pointers import check_ptr_off
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.registers import EACCES
from pybpf.verifier.state import UNKNOWN_REG, Reg, State

_KINDS = {
    "pkt": kinds.PACKET, "pkt_meta": kinds.PACKET_META, "pkt_end": kinds.PACKET_END,
    "flow_keys": kinds.FLOW_KEYS, "sock": kinds.SOCKET, "sock_common": kinds.SOCK_COMMON,
    "tp_buffer": kinds.TP_BUFFER,
}  # fmt: skip


def context_of(env: Env) -> Context:
    """Return the context of the program that is verified."""
    if env.context is None:
        subject = env.program.subject
        env.context = context(
            env.rules.version, env.prog_type, subject.expected_attach_type,
            privileged=env.privileged,
        )  # fmt: skip
    if env.context is None or env.context.typed:
        raise Unmodelled(f"contexts of program type {env.prog_type}")
    return env.context


def access_context(
    env: Env, state: State, number: int, reg: Reg, off: int, size: int, *, write: bool, signed: bool
) -> Reg:
    """Check an access at ``off`` from the register; return what a load leaves in its register.

    ``signed``: a load that extends the sign, which no pointer may be loaded with.
    """
    del state
    check_ptr_off(env, reg, number)
    if env.target is not None:
        from pybpf.verifier.typedctx import access_arguments

        return access_arguments(env, off, size, write=write)
    found = context_of(env).access(off, size, write=write)
    if isinstance(found, str):
        raise Refusal(found, errno=EACCES)
    if found.kind == "scalar":
        return UNKNOWN_REG
    if signed:
        raise Refusal(f"invalid bpf_context access off={off} size={size}", errno=EACCES)
    word, null = found.kind.removesuffix("_or_null"), found.kind.endswith("_or_null")
    kind, name = _KINDS.get(word), ""
    if kind is None:
        trusted, _, name = word.partition("ptr_")
        if not name:
            raise Unmodelled(f"a context's field of kind {found.kind}")
        kind = kinds.BTF_ID | (kinds.TRUSTED if trusted == "trusted_" else 0)
    made = Reg(kind | (MAYBE_NULL if null else 0))
    if kind & kinds.BASE == kinds.BTF_ID:
        made.extra = name
    if null:
        made.id = env.new_id()
    return made
