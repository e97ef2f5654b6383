"""What a register or a byte of stack may hold: numbers, and the kernel's words for them.

A register's kind is one integer: the base in the low byte, flags above. Only the core compares
kinds, with ``kind & BASE`` where flags do not matter. Source of the names and words:
include/linux/bpf.h and reg_type_str in kernel/bpf/log.c (verifier.c before Linux 6.8).
"""

from __future__ import annotations

from functools import cache

# Bases.
(
    NOT_INIT, SCALAR, CTX, MAP_PTR, MAP_VALUE, MAP_KEY, STACK, PACKET_META, PACKET, PACKET_END,
    FLOW_KEYS, SOCKET, SOCK_COMMON, TCP_SOCK, TP_BUFFER, XDP_SOCK, BTF_ID, MEM, ARENA, BUF, FUNC,
    DYNPTR, INSN,
) = range(23)  # fmt: skip
BASE = 0xFF

# Flags.
MAYBE_NULL = 1 << 8
RDONLY = 1 << 9
RINGBUF = 1 << 10
USER = 1 << 11
PERCPU = 1 << 12
UNTRUSTED = 1 << 13
ALLOC = 1 << 14
TRUSTED = 1 << 15
RCU = 1 << 16
NON_OWN_REF = 1 << 17
SLICE = 1 << 18
"""Of MEM: a part of a packet that a dynptr gave (DYNPTR_TYPE_SKB and _XDP)."""

PACKETS = frozenset({PACKET, PACKET_META})

_WORDS = {
    NOT_INIT: "?", SCALAR: "scalar", CTX: "ctx", MAP_PTR: "map_ptr", MAP_VALUE: "map_value",
    MAP_KEY: "map_key", STACK: "fp", PACKET_META: "pkt_meta", PACKET: "pkt",
    PACKET_END: "pkt_end", FLOW_KEYS: "flow_keys", SOCKET: "sock", SOCK_COMMON: "sock_common",
    TCP_SOCK: "tcp_sock", TP_BUFFER: "tp_buffer", XDP_SOCK: "xdp_sock", BTF_ID: "ptr_",
    MEM: "mem", ARENA: "arena", BUF: "buf", FUNC: "func", DYNPTR: "dynptr_ptr", INSN: "insn",
}  # fmt: skip
_PREFIXES = (
    (RDONLY, "rdonly_"), (RINGBUF, "ringbuf_"), (USER, "user_"), (PERCPU, "percpu_"),
    (RCU, "rcu_"), (UNTRUSTED, "untrusted_"), (TRUSTED, "trusted_"),
)  # fmt: skip


@cache
def words(kind: int) -> str:
    """Return what the kernel's messages call a kind (``map_value_or_null``), since Linux 6.2."""
    text = _WORDS[kind & BASE]
    prefix = "".join(word for flag, word in _PREFIXES if kind & flag)
    if kind & MAYBE_NULL:
        text += "or_null_" if kind & BASE == BTF_ID else "_or_null"
    return prefix + text


# What a byte of a stack slot holds (``slot_type``).
INVALID, SPILL, MISC, ZERO, DYNPTR_SLOT, ITER_SLOT, IRQ_SLOT = range(7)
SLOT_LETTERS = "?rm0dif"
