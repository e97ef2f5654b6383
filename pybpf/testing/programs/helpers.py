"""Idioms that call helpers by their signatures: those that take numbers, memory and the context."""

from __future__ import annotations

from pybpf.corpus import CorpusMap
from pybpf.isa.abi import MapType, ProgType
from pybpf.testing.programs.state import Mem, Packet, PacketEnd
from pybpf.testing.programs.writer import Writer

_TRACING = frozenset(
    {ProgType.KPROBE, ProgType.TRACEPOINT, ProgType.RAW_TRACEPOINT, ProgType.PERF_EVENT}
)
_SKB = frozenset({ProgType.SOCKET_FILTER, ProgType.SCHED_CLS, ProgType.CGROUP_SKB})
_TC = frozenset({ProgType.SCHED_CLS})
_XDP = frozenset({ProgType.XDP})
_ALL = frozenset(ProgType)

# helper, its arguments, the types that may call it, whether its outcome is the same in every run.
# Of the arguments, c is the context, n a number, r memory to be read and its size, w memory to be
# written and its size, W and R the same without a size of their own, and a number is itself.
_Arg = str | int
_HELPERS: tuple[tuple[int, tuple[_Arg, ...], frozenset[ProgType], bool], ...] = (
    (5, (), _ALL, False),  # ktime_get_ns
    (7, (), _ALL, False),  # get_prandom_u32
    (8, (), _ALL, True),  # get_smp_processor_id
    (42, (), _ALL, True),  # get_numa_node_id
    (118, (), _ALL, False),  # jiffies64
    (125, (), _ALL, False),  # ktime_get_boot_ns
    (14, (), _TRACING, False),  # get_current_pid_tgid
    (15, (), _TRACING, False),  # get_current_uid_gid
    (16, ("w",), _TRACING, False),  # get_current_comm
    (35, (), _ALL, False),  # get_current_task
    (80, (), _TRACING, False),  # get_current_cgroup_id
    (4, ("w", "n"), _TRACING, False),  # probe_read
    (113, ("w", "n"), _ALL, False),  # probe_read_kernel
    (45, ("w", "n"), _TRACING, False),  # probe_read_str
    (112, ("w", "n"), _ALL, False),  # probe_read_user
    (27, ("c", "stacks", 0), _TRACING, False),  # get_stackid
    (67, ("c", "w", 0), _TRACING, False),  # get_stack
    (25, ("c", "events", 0, "r"), _TRACING | _TC | _XDP, False),  # perf_event_output
    (6, ("text", "n"), _ALL, False),  # trace_printk
    (26, ("c", "n", "w"), _SKB, True),  # skb_load_bytes
    (9, ("c", 4, "r", 0), _TC, True),  # skb_store_bytes
    (39, ("c", 0), _TC, False),  # skb_pull_data
    (34, ("c",), _TC, False),  # get_hash_recalc
    (28, (0, 0, "r", 0), _TC | _XDP, True),  # csum_diff
    (10, ("c", 10, 0, "n", 2), _TC, True),  # l3_csum_replace
    (23, ("n", 0), _TC | _XDP, False),  # redirect
    (44, ("c", -8), _XDP, True),  # xdp_adjust_head
    (65, ("c", -4), _XDP, True),  # xdp_adjust_tail
    (188, ("c",), _XDP, True),  # xdp_get_buff_len
    (189, ("c", 0, "w"), _XDP, True),  # xdp_load_bytes
    (46, ("c",), _SKB, False),  # get_socket_cookie
    (3, ("n",), frozenset(), False),  # map_delete_elem of no map
    (50, ("n",), frozenset(), False),  # skb_adjust_room of no buffer
    (105, ("r", 0, "w"), frozenset(), False),  # strtol
    (182, ("r", "r"), frozenset(), False),  # strncmp
    (300, (), frozenset(), False),  # there is none
)
# They make pointers into the packet invalid.
_INVALIDATES = frozenset({9, 39, 10, 44, 65})


def helper(w: Writer) -> None:
    """Call a helper with arguments that fit, mostly."""
    prog_type = w.flavour.prog_type
    if w.wrong():
        number, arguments, _, _ = w.pick(_HELPERS)
    else:
        usable = [row for row in _HELPERS if prog_type in row[2] and (row[3] or not w.exact)]
        number, arguments, _, _ = w.pick(usable)
    if "c" in arguments and w.context() is None and not w.wrong():
        return
    register = 1
    written: list[tuple[int, int]] = []
    for argument in arguments:
        if register > 5:
            break
        if w.wrong():
            w.load_imm(register, w.imm())
            register += 2 if argument in {"r", "w", "text"} else 1
        else:
            register = _argument(w, register, argument, written)
    w.call(number)
    for off, size in written:
        w.scribbled(off, size)
    if number in _INVALIDATES:
        for held in w.holding(Packet, PacketEnd):
            w.set(held, None)
        w.state.stack = {
            slot: kind
            for slot, kind in w.state.stack.items()
            if not isinstance(kind, Packet | PacketEnd)
        }


def _argument(w: Writer, register: int, argument: _Arg, written: list[tuple[int, int]]) -> int:
    """Load an argument, and its size; return the register of the next."""
    if isinstance(argument, int):
        w.load_imm(register, argument)
        return register + 1
    if argument == "c":
        ctx = w.context()
        if ctx is None:
            w.load_imm(register, 0)
        else:
            w.copy(register, ctx)
        return register + 1
    if argument == "n":
        others = [n for n in (6, 7, 8, 9) if n in w.state.regs and n not in w.state.pinned]
        source = w.pick(others) if others and not w.exact else None
        if source is not None and not isinstance(w.get(source), Mem) and w.wrong():
            w.copy(register, source)
        else:
            w.load_imm(register, w.below(40))
        return register + 1
    if argument in {"stacks", "events"}:
        spec = (
            CorpusMap(MapType.STACK_TRACE, 4, 80, 16)
            if argument == "stacks"
            else CorpusMap(MapType.PERF_EVENT_ARRAY, 4, 4, 4)
        )
        w.code.map(register, w.code.new_map(spec))
        w.set(register, None)
        return register + 1
    return _memory(w, register, argument, written)


def _memory(w: Writer, register: int, argument: str, written: list[tuple[int, int]]) -> int:
    size = w.pick((4, 8, 16))
    off = w.free_slots(size)
    if argument in {"r", "text"}:
        w.fill_stack(off, size)
    values = [n for n, kind in w.state.regs.items()
              if isinstance(kind, Mem) and not kind.null and n >= 6 and kind.size - kind.off >= size
              and kind.map >= 0]  # fmt: skip
    if values and w.chance(0.4):
        w.copy(register, w.pick(values))
    else:
        w.stack_pointer(register, off)
        if argument == "w":
            written.append((off, size))
    if w.wrong():
        size = w.pick((0, -1, 513, size + 8))
    elif w.chance(0.15) and (found := [n for n in (6, 7, 8, 9) if n in w.state.regs]) and w.slips:
        w.copy(register + 1, w.pick(found))
        return register + 2
    w.load_imm(register + 1, size)
    return register + 2


IDIOMS = ((7, helper),)
