"""Program types that programs are generated for: what their contexts hold, and what they may do.

The tables need not be complete: they are what generated programs do on purpose. Everything else
they do by mistake. Source: include/uapi/linux/bpf.h, and the functions called is_valid_access in
net/core/filter.c and kernel/trace/bpf_trace.c.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pybpf.isa.abi import ProgType

# offset, size in bytes, whether it may be written
Field = tuple[int, int, bool]


@dataclass(frozen=True, slots=True)
class Flavour:
    """A program type as it is generated.

    ``packet`` are the offsets of the pointers to a packet's data and its end, and the size of these
    fields; ``writes`` says whether the packet may be written. ``returns`` are the least and the
    greatest allowed result. ``socket`` is the field of a socket.
    """

    name: str
    prog_type: ProgType
    fields: tuple[Field, ...]
    attach: tuple[int, ...] = (0,)
    packet: tuple[int, int, int] | None = None
    writes: bool = False
    returns: tuple[int, int] = (0, 0x7FFFFFFF)
    tracing: bool = False
    skb: bool = False
    absolute: bool = False
    socket: int | None = None
    ctx_size: int = 192


def _words(offsets: Iterable[int], *, writable: Iterable[int] = ()) -> tuple[Field, ...]:
    written = set(writable)
    return tuple((offset, 4, offset in written) for offset in offsets)


_CB = range(48, 68, 4)
_SKB = (0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, *_CB, 68, 84, 164, 176)
_REGS = tuple((offset, 8, False) for offset in range(0, 168, 8))

FLAVOURS: tuple[Flavour, ...] = (
    Flavour(
        "socket_filter",
        ProgType.SOCKET_FILTER,
        _words(_SKB, writable=_CB),
        skb=True,
        absolute=True,
    ),
    Flavour("kprobe", ProgType.KPROBE, _REGS, tracing=True, ctx_size=168),
    Flavour(
        "tracepoint",
        ProgType.TRACEPOINT,
        tuple((offset, 8, False) for offset in range(8, 96, 8))
        + tuple((offset, 4, False) for offset in range(8, 96, 12)),
        tracing=True,
        ctx_size=8192,
    ),
    Flavour(
        "raw_tracepoint",
        ProgType.RAW_TRACEPOINT,
        tuple((offset, 8, False) for offset in range(0, 96, 8)),
        tracing=True,
        ctx_size=96,
    ),
    Flavour(
        "perf_event",
        ProgType.PERF_EVENT,
        (*_REGS, (168, 8, False), (176, 8, False), (168, 4, False)),
        tracing=True,
        ctx_size=184,
    ),
    Flavour(
        "xdp",
        ProgType.XDP,
        _words((12, 16)),
        packet=(0, 4, 4),
        writes=True,
        ctx_size=24,
    ),
    Flavour(
        "sched_cls",
        ProgType.SCHED_CLS,
        (*_words((*_SKB, 72, 160), writable=(*_CB, 8, 12, 32, 44, 72)), (152, 8, True)),
        packet=(76, 80, 4),
        writes=True,
        skb=True,
        absolute=True,
        socket=168,
    ),
    Flavour(
        "cgroup_skb",
        ProgType.CGROUP_SKB,
        (*_words(_SKB, writable=(*_CB, 8, 32)), (152, 8, False)),
        attach=(0, 1),
        packet=(76, 80, 4),
        returns=(0, 1),
        skb=True,
        socket=168,
    ),
    Flavour(
        "sk_msg",
        ProgType.SK_MSG,
        _words((16, 20, 24, 28, 32, 44, 48, 60, 64, 68)),
        attach=(7,),
        packet=(0, 8, 8),
        returns=(0, 1),
        socket=72,
        ctx_size=80,
    ),
    Flavour(
        "sock_ops",
        ProgType.SOCK_OPS,
        _words((0, 4, 8, 12, 16, 20, 24, 28, 64, 68, 72, 76, 80, 84, 88), writable=(4, 8, 12, 16)),
        attach=(3,),
        returns=(0, 1),
        socket=184,
        ctx_size=200,
    ),
    Flavour(
        "cgroup_sock_addr",
        ProgType.CGROUP_SOCK_ADDR,
        _words((0, 4, 24, 28, 32, 36), writable=(4, 24)),
        attach=(8, 10),
        returns=(0, 1),
        socket=64,
        ctx_size=72,
    ),
)
BY_NAME = {flavour.name: flavour for flavour in FLAVOURS}
