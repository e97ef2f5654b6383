"""Loads and stores through pointers to structures of the kernel: sockets, BTF types, maps, buffers.

Source: check_sock_access, check_ptr_to_btf_access, check_ptr_to_map_access and
__check_buffer_access in kernel/bpf/verifier.c; the is_valid_access functions of sockets in
net/core/filter.c.
"""

from __future__ import annotations

from pybpf.isa.abi import MapType
from pybpf.verifier.allowed import is_gpl
from pybpf.verifier.contexts import layout
from pybpf.verifier.env import Env
from pybpf.verifier.kerneltypes import Found, says_nothing
from pybpf.verifier.kinds import (
    ALLOC,
    BASE,
    BTF_ID,
    BUF,
    MAYBE_NULL,
    MEM,
    NON_OWN_REF,
    PERCPU,
    RCU,
    RDONLY,
    SOCK_COMMON,
    TCP_SOCK,
    TRUSTED,
    UNTRUSTED,
    USER,
    XDP_SOCK,
)
from pybpf.verifier.owned import Local, access_object
from pybpf.verifier.pointers import before_start, only_privileged, prohibit, shown
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.registers import EACCES, is_trusted
from pybpf.verifier.state import UNKNOWN_REG, Reg, State
from pybpf.verifier.structwrites import check_write

_MAP_STRUCTS: dict[int, str] = {
    MapType[kind]: name
    for name, kinds in (
        ("bpf_htab", "HASH PERCPU_HASH LRU_HASH LRU_PERCPU_HASH HASH_OF_MAPS"),
        ("bpf_array", "ARRAY PERCPU_ARRAY PROG_ARRAY PERF_EVENT_ARRAY CGROUP_ARRAY ARRAY_OF_MAPS"),
        ("bpf_stack_map", "STACK_TRACE"),
        ("lpm_trie", "LPM_TRIE"),
        ("bpf_queue_stack", "QUEUE STACK"),
        ("bpf_ringbuf_map", "RINGBUF USER_RINGBUF"),
        ("bpf_stab", "SOCKMAP"),
        ("bpf_shtab", "SOCKHASH"),
        ("bpf_dtab", "DEVMAP DEVMAP_HASH"),
        ("bpf_cpu_map", "CPUMAP"),
        ("xsk_map", "XSKMAP"),
        ("reuseport_array", "REUSEPORT_SOCKARRAY"),
        ("bpf_cgroup_storage_map", "CGROUP_STORAGE PERCPU_CGROUP_STORAGE"),
        ("bpf_local_storage_map", "SK_STORAGE INODE_STORAGE TASK_STORAGE CGRP_STORAGE"),
        ("bpf_bloom_filter", "BLOOM_FILTER"),
        ("bpf_arena", "ARENA"),
    )
    for kind in kinds.split()
}
_TCP_SOCK_SIZE = 112
_TRUST = TRUSTED | ALLOC | NON_OWN_REF | RCU
_TCP_SOCK_LONG = frozenset({80, 88})
_FULL_SOCKS_ONLY = frozenset({"type", "protocol", "mark", "priority"})


def access_socket(env: Env, state: State, number: int, reg: Reg, off: int, size: int) -> Reg:
    """Check a load of a field of a socket; return what it leaves in its register."""
    del state
    if reg.val.smin < 0:
        raise before_start(number)
    whole = off + reg.off
    if reg.val.const is None:
        raise Unmodelled("variable offset into a socket")
    whole += reg.val.smin
    if not _socket_field(env, reg.kind, whole, size):
        raise prohibit(number, f"invalid {env.words(reg.kind)} access off={whole} size={size}")
    return UNKNOWN_REG


def _socket_field(env: Env, kind: int, off: int, size: int) -> bool:
    if kind == TCP_SOCK:
        if not 0 <= off < _TCP_SOCK_SIZE or off % size:
            return False
        return size == (8 if off in _TCP_SOCK_LONG else 4)
    if kind == XDP_SOCK:
        return off == 0 and size == 4
    found = layout("bpf_sock", env.rules.version).access(off, size, write=False)
    if isinstance(found, str):
        return False
    return kind != SOCK_COMMON or found.field.name not in _FULL_SOCKS_ONLY


def access_btf(
    env: Env, state: State, number: int, reg: Reg, off: int, size: int, *, write: bool
) -> Reg:
    """Check an access to a structure that BTF describes; return what a load leaves.

    ``off`` holds the pointer's fixed part.
    """
    if isinstance(reg.extra, Local):
        return access_object(env, number, reg, off, size, write=write)
    name = reg.extra if isinstance(reg.extra, str) else ""
    if not env.rules.allow_leaks:
        raise only_privileged(env, name)
    if env.rules.since(6, 2) and not is_gpl(env.program.subject.licence):
        raise Refusal(f"Cannot access kernel 'struct {name}' from non-GPL compatible program")
    if env.rules.folds_offsets and reg.val.const is not None:
        off += reg.val.smin
    elif reg.val.const != 0:
        text = f"is ptr_{name} invalid variable offset: off={off}, var_off={shown(env, reg.val)}"
        raise prohibit(number, text)
    if off < 0:
        raise prohibit(number, f"is ptr_{name} invalid negative access: off={off}")
    for flag, word in ((USER, "user"), (PERCPU, "percpu")):
        if reg.kind & flag:
            raise prohibit(number, f"is ptr_{name} access {word} memory: off={off}")
    struct = env.types.struct_of(reg)
    if not struct:
        raise says_nothing(name)
    if write:
        check_write(env, struct, off, size)
        return UNKNOWN_REG
    found = env.types.walk(struct, off, size, env.rules.version)
    if not found.pointer:
        return UNKNOWN_REG
    if not found.struct:
        return Reg(MEM | RDONLY | UNTRUSTED)
    return _pointer(env, found, _flags(env, state, reg, struct, found))


def _pointer(env: Env, found: Found, flags: int) -> Reg:
    made = Reg(BTF_ID | flags)
    env.types.point(made, found.struct)
    if flags & MAYBE_NULL:
        made.id = env.new_id()
    return made


def _flags(env: Env, state: State, reg: Reg, struct: int, found: Found) -> int:
    """Return how far a pointer can be trusted that is read through another.

    Linux commit 6fcd486b3a0a ("bpf: Refactor RCU enforcement in the verifier.") (in v6.4)
    """
    flags, types = found.flags, env.types
    if not env.rules.since(6, 4):
        return flags | reg.kind & UNTRUSTED
    if reg.kind & UNTRUSTED:
        return UNTRUSTED
    if not is_trusted(reg) and not reg.kind & RCU:
        return flags & ~_TRUST
    if types.is_listed(struct, found, "__safe_trusted"):
        return flags | TRUSTED
    if types.is_listed(struct, found, "__safe_trusted_or_null"):
        return flags | TRUSTED | MAYBE_NULL
    if not _in_rcu(env, state):
        return UNTRUSTED
    if types.is_listed(struct, found, "__safe_rcu"):
        return flags | RCU
    listed = types.is_listed(struct, found, "__safe_rcu_or_null")
    if flags & RCU or listed:
        return (flags & ~UNTRUSTED if listed else flags) | RCU | MAYBE_NULL
    return flags if flags & (PERCPU | USER) else flags & ~_TRUST


def _in_rcu(env: Env, state: State) -> bool:
    """Whether what RCU protects stays where it is (in_rcu_cs)."""
    locked = state.lock is not None and env.rules.since(6, 10)
    return bool(state.rcu) or locked or not env.sleepable or state.frame.is_async


def access_map_struct(
    env: Env, state: State, number: int, reg: Reg, off: int, size: int, *, write: bool
) -> Reg:
    """Check an access to the kernel's structure of a map; return what a load leaves."""
    del state
    assert reg.map is not None
    name = _MAP_STRUCTS.get(reg.map.type, "bpf_map")
    if not env.rules.allow_leaks:
        raise only_privileged(env, name)
    if off < 0:
        raise prohibit(number, f"is {name} invalid negative access: off={off}")
    if write:
        raise Refusal(f"only read from {name} is supported", errno=EACCES)
    struct = env.types.struct(name)
    if struct is None:
        raise says_nothing(name)
    found = env.types.walk(struct, off, size, env.rules.version)
    if not found.pointer:
        return UNKNOWN_REG
    if not found.struct:
        return Reg(MEM | RDONLY | UNTRUSTED)
    return _pointer(env, found, found.flags)


def access_trace_buffer(env: Env, number: int, reg: Reg, off: int, size: int) -> None:
    """Check an access to a buffer of which only the start is known."""
    word = "tracepoint"
    if reg.kind & BASE == BUF:
        word = "rdonly" if reg.kind & RDONLY else "rdwr"
    if off < 0:
        raise prohibit(number, f"invalid {word} buffer access: off={off}, size={size}")
    if reg.val.const != 0:
        raise prohibit(
            number, f"invalid variable buffer offset: off={off}, var_off={shown(env, reg.val)}"
        )
