"""The number of a helper, or of a type or flag of programs and maps, in; its first release out.

Each is the first kernel that has it, not an older stable series that it was brought back to.
Source: the history of include/uapi/linux/bpf.h, and of the functions that check what is loaded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from pybpf.isa.abi import AttachType, MapFlag, MapType, ProgFlag, ProgType

Release = tuple[int, int]

_HELPERS: Mapping[Release, int] = {
    (3, 19): 1, (4, 1): 4, (4, 2): 12, (4, 3): 17, (4, 4): 23, (4, 5): 26, (4, 6): 27, (4, 8): 31,
    (4, 9): 37, (4, 10): 42, (4, 11): 45, (4, 12): 46, (4, 13): 48, (4, 14): 51, (4, 15): 54,
    (4, 16): 58, (4, 17): 60, (4, 18): 65, (4, 19): 81, (4, 20): 84, (5, 0): 91, (5, 1): 93,
    (5, 2): 99, (5, 3): 109, (5, 5): 111, (5, 6): 116, (5, 7): 119, (5, 8): 125, (5, 9): 136,
    (5, 10): 142, (5, 11): 156, (5, 12): 163, (5, 13): 164, (5, 14): 166, (5, 15): 169,
    (5, 16): 176, (5, 17): 180, (5, 18): 186, (5, 19): 194, (6, 0): 204, (6, 1): 208, (6, 2): 210,
}  # fmt: skip
"""The first helper that a release brought: the list only ever grew at its end."""
_LAST_HELPER = 211

_TRACING = frozenset(
    {
        ProgType.KPROBE, ProgType.TRACEPOINT, ProgType.PERF_EVENT, ProgType.RAW_TRACEPOINT,
        ProgType.RAW_TRACEPOINT_WRITABLE, ProgType.TRACING,
    }
)  # fmt: skip
_TRAFFIC = frozenset({ProgType.SCHED_CLS, ProgType.SCHED_ACT})
_EVERYWHERE = frozenset({1, 2, 3, 7, 8, 12, *range(130, 135)})
_OF_TRACING = frozenset(
    {4, 5, 6, 14, 15, 16, 22, 25, 27, 35, 36, 37, 45, 67, 109, *range(112, 116)}
)
_OF_TRAFFIC = frozenset(
    {9, 10, 11, 13, *range(17, 22), 23, 24, 25, 26, *range(28, 35), *range(38, 42), 46, 47, 48, 50,
     66, 69, 79, 83, 84, 85, 86, 95, 96, 97, 98}
)  # fmt: skip
_OF_XDP = frozenset({25, 44, 51, 54, 65, 69})

PROGRAM_TYPES: Mapping[int, Release] = {
    ProgType.SOCKET_FILTER: (3, 19), ProgType.KPROBE: (4, 1), ProgType.SCHED_CLS: (4, 1),
    ProgType.SCHED_ACT: (4, 1), ProgType.TRACEPOINT: (4, 7), ProgType.XDP: (4, 8),
    ProgType.PERF_EVENT: (4, 9), ProgType.CGROUP_SKB: (4, 10), ProgType.CGROUP_SOCK: (4, 10),
    ProgType.LWT_IN: (4, 10), ProgType.LWT_OUT: (4, 10), ProgType.LWT_XMIT: (4, 10),
    ProgType.SOCK_OPS: (4, 13), ProgType.SK_SKB: (4, 14), ProgType.CGROUP_DEVICE: (4, 15),
    ProgType.SK_MSG: (4, 17), ProgType.RAW_TRACEPOINT: (4, 17),
    ProgType.CGROUP_SOCK_ADDR: (4, 17), ProgType.LWT_SEG6LOCAL: (4, 18),
    ProgType.LIRC_MODE2: (4, 18), ProgType.SK_REUSEPORT: (4, 19),
    ProgType.FLOW_DISSECTOR: (4, 20), ProgType.CGROUP_SYSCTL: (5, 2),
    ProgType.RAW_TRACEPOINT_WRITABLE: (5, 2), ProgType.CGROUP_SOCKOPT: (5, 3),
    ProgType.TRACING: (5, 5), ProgType.STRUCT_OPS: (5, 6), ProgType.EXT: (5, 6),
    ProgType.LSM: (5, 7), ProgType.SK_LOOKUP: (5, 9), ProgType.SYSCALL: (5, 14),
    ProgType.NETFILTER: (6, 4),
}  # fmt: skip

MAP_TYPES: Mapping[int, Release] = {
    MapType.HASH: (3, 19), MapType.ARRAY: (3, 19), MapType.PROG_ARRAY: (4, 2),
    MapType.PERF_EVENT_ARRAY: (4, 3), MapType.PERCPU_HASH: (4, 6), MapType.PERCPU_ARRAY: (4, 6),
    MapType.STACK_TRACE: (4, 6), MapType.CGROUP_ARRAY: (4, 8), MapType.LRU_HASH: (4, 10),
    MapType.LRU_PERCPU_HASH: (4, 10), MapType.LPM_TRIE: (4, 11), MapType.ARRAY_OF_MAPS: (4, 12),
    MapType.HASH_OF_MAPS: (4, 12), MapType.DEVMAP: (4, 14), MapType.SOCKMAP: (4, 14),
    MapType.CPUMAP: (4, 15), MapType.XSKMAP: (4, 18), MapType.SOCKHASH: (4, 18),
    MapType.CGROUP_STORAGE: (4, 19), MapType.REUSEPORT_SOCKARRAY: (4, 19),
    MapType.PERCPU_CGROUP_STORAGE: (4, 20), MapType.QUEUE: (4, 20), MapType.STACK: (4, 20),
    MapType.SK_STORAGE: (5, 2), MapType.DEVMAP_HASH: (5, 4), MapType.STRUCT_OPS: (5, 6),
    MapType.RINGBUF: (5, 8), MapType.INODE_STORAGE: (5, 10), MapType.TASK_STORAGE: (5, 11),
    MapType.BLOOM_FILTER: (5, 16), MapType.USER_RINGBUF: (6, 1), MapType.CGRP_STORAGE: (6, 2),
    MapType.ARENA: (6, 9),
}  # fmt: skip

MAP_FLAGS: Mapping[MapFlag, Release] = {
    MapFlag.NO_PREALLOC: (4, 6), MapFlag.NO_COMMON_LRU: (4, 10), MapFlag.NUMA_NODE: (4, 14),
    MapFlag.RDONLY: (4, 15), MapFlag.WRONLY: (4, 15), MapFlag.STACK_BUILD_ID: (4, 17),
    MapFlag.ZERO_SEED: (5, 0), MapFlag.RDONLY_PROG: (5, 2), MapFlag.WRONLY_PROG: (5, 2),
    MapFlag.CLONE: (5, 4), MapFlag.MMAPABLE: (5, 5), MapFlag.PRESERVE_ELEMS: (5, 10),
    MapFlag.INNER_MAP: (5, 10), MapFlag.LINK: (6, 4), MapFlag.PATH_FD: (6, 7),
    MapFlag.VTYPE_BTF_OBJ_FD: (6, 9), MapFlag.TOKEN_FD: (6, 9), MapFlag.SEGV_ON_FAULT: (6, 9),
    MapFlag.NO_USER_CONV: (6, 9),
}  # fmt: skip

_ATTACH_TYPES: Mapping[Release, str] = {
    (4, 17): "CGROUP_INET4_BIND CGROUP_INET6_BIND CGROUP_INET4_CONNECT CGROUP_INET6_CONNECT "
    "CGROUP_INET4_POST_BIND CGROUP_INET6_POST_BIND",
    (4, 18): "CGROUP_UDP4_SENDMSG CGROUP_UDP6_SENDMSG",
    (5, 2): "CGROUP_UDP4_RECVMSG CGROUP_UDP6_RECVMSG",
    (5, 7): "MODIFY_RETURN",
    (5, 8): "TRACE_ITER XDP_DEVMAP CGROUP_INET4_GETPEERNAME CGROUP_INET6_GETPEERNAME "
    "CGROUP_INET4_GETSOCKNAME CGROUP_INET6_GETSOCKNAME",
    (5, 9): "CGROUP_INET_SOCK_RELEASE XDP_CPUMAP",
    (5, 13): "SK_SKB_VERDICT",
    (5, 14): "SK_REUSEPORT_SELECT_OR_MIGRATE",
    (5, 18): "TRACE_KPROBE_MULTI",
    (6, 0): "LSM_CGROUP",
    (6, 6): "TCX_INGRESS TCX_EGRESS TRACE_UPROBE_MULTI",
    (6, 7): "CGROUP_UNIX_CONNECT CGROUP_UNIX_SENDMSG CGROUP_UNIX_RECVMSG CGROUP_UNIX_GETPEERNAME "
    "CGROUP_UNIX_GETSOCKNAME NETKIT_PRIMARY NETKIT_PEER",
    (6, 10): "TRACE_KPROBE_SESSION",
    (6, 13): "TRACE_UPROBE_SESSION",
}
ATTACH_TYPES: Mapping[int, Release] = {
    AttachType[name]: release for release, names in _ATTACH_TYPES.items() for name in names.split()
}
"""Attach types that are newer than their types of programs; others came with these.

``XDP``, ``PERF_EVENT``, ``SK_REUSEPORT_SELECT`` and ``STRUCT_OPS`` are not here: they are names
that were given later to what these programs had always been attached to.
"""

_FLAGS: Mapping[ProgFlag, Release] = {
    ProgFlag.SLEEPABLE: (5, 10),
    ProgFlag.XDP_HAS_FRAGS: (5, 18),
    ProgFlag.XDP_DEV_BOUND_ONLY: (6, 3),
    ProgFlag.TOKEN_FD: (6, 9),
}
_SLEEPING_LATER: Mapping[tuple[ProgType, int | None], Release] = {
    (ProgType.TRACING, AttachType.TRACE_ITER): (5, 18),
    (ProgType.KPROBE, None): (6, 0),
    (ProgType.STRUCT_OPS, None): (6, 3),
}


def flag(number: ProgFlag, prog_type: ProgType, attach: int | None = None) -> Release | None:
    """Return the first release in which programs of a type may have a flag; None: not known."""
    if number is ProgFlag.SLEEPABLE:
        later = _SLEEPING_LATER.get((prog_type, attach))
        return later or _FLAGS[number]
    return _FLAGS.get(number)


def helper(number: int) -> Release | None:
    """Return the first release that has a helper, for whatever programs; None: not known."""
    if not 0 < number <= _LAST_HELPER:
        return None
    return [*_HELPERS][bisect_right([*_HELPERS.values()], number) - 1]


def born_with(number: int, prog_type: ProgType) -> bool:
    """Whether programs of a type, where they are older, could call a helper from the first on."""
    return (
        number in _EVERYWHERE
        or (prog_type in _TRACING and number in _OF_TRACING)
        or (prog_type in _TRAFFIC and number in _OF_TRAFFIC)
        or (prog_type is ProgType.XDP and number in _OF_XDP)
    )
