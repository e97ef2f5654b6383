"""Which maps go with which helpers and programs: types in, the kernel's refusal or None out.

Source: check_map_func_compatibility, check_map_prog_compatibility and map_check_btf in
kernel/bpf/verifier.c and syscall.c. tests/guest/test_verifier_tables.py
holds the first to a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Protocol

from pybpf.isa.abi import AttachType, MapFlag, MapType, ProgFlag, ProgType
from pybpf.isa.helpers import HELPER_NAMES, HELPERS
from pybpf.verifier.records import Fields

Version = tuple[int, int]

# Map type -> the only helpers that take it, without bpf_. Other types go with any.
_HELPERS_OF: Mapping[MapType, str] = {
    MapType.PROG_ARRAY: "tail_call",
    MapType.PERF_EVENT_ARRAY: (
        "perf_event_read perf_event_output skb_output perf_event_read_value xdp_output"
    ),
    MapType.RINGBUF: "ringbuf_output ringbuf_reserve ringbuf_query ringbuf_reserve_dynptr",
    MapType.USER_RINGBUF: "user_ringbuf_drain",
    MapType.STACK_TRACE: "get_stackid",
    MapType.CGROUP_ARRAY: "skb_under_cgroup current_task_under_cgroup",
    MapType.CGROUP_STORAGE: "get_local_storage",
    MapType.PERCPU_CGROUP_STORAGE: "get_local_storage",
    MapType.DEVMAP: "redirect_map map_lookup_elem",
    MapType.DEVMAP_HASH: "redirect_map map_lookup_elem",
    MapType.CPUMAP: "redirect_map",
    MapType.XSKMAP: "redirect_map map_lookup_elem",
    MapType.ARRAY_OF_MAPS: "map_lookup_elem",
    MapType.HASH_OF_MAPS: "map_lookup_elem",
    MapType.SOCKMAP: (
        "sk_redirect_map sock_map_update msg_redirect_map sk_select_reuseport map_lookup_elem"
    ),
    MapType.SOCKHASH: (
        "sk_redirect_hash sock_hash_update msg_redirect_hash sk_select_reuseport map_lookup_elem"
    ),
    MapType.REUSEPORT_SOCKARRAY: "sk_select_reuseport",
    MapType.QUEUE: "map_peek_elem map_pop_elem map_push_elem",
    MapType.STACK: "map_peek_elem map_pop_elem map_push_elem",
    MapType.SK_STORAGE: "sk_storage_get sk_storage_delete kptr_xchg",
    MapType.INODE_STORAGE: "inode_storage_get inode_storage_delete kptr_xchg",
    MapType.TASK_STORAGE: "task_storage_get task_storage_delete kptr_xchg",
    MapType.CGRP_STORAGE: "cgrp_storage_get cgrp_storage_delete kptr_xchg",
    MapType.BLOOM_FILTER: "map_peek_elem map_push_elem",
}

# Helpers, without bpf_ -> the only map types they take. Other helpers take any.
_TYPES_OF: Mapping[str, str] = {
    "tail_call": "PROG_ARRAY",
    "perf_event_read perf_event_output perf_event_read_value skb_output xdp_output": (
        "PERF_EVENT_ARRAY"
    ),
    "ringbuf_output ringbuf_reserve ringbuf_query ringbuf_reserve_dynptr": "RINGBUF",
    "user_ringbuf_drain": "USER_RINGBUF",
    "get_stackid": "STACK_TRACE",
    "current_task_under_cgroup skb_under_cgroup": "CGROUP_ARRAY",
    "redirect_map": "DEVMAP DEVMAP_HASH CPUMAP XSKMAP",
    "sk_redirect_map msg_redirect_map sock_map_update": "SOCKMAP",
    "sk_redirect_hash msg_redirect_hash sock_hash_update": "SOCKHASH",
    "get_local_storage": "CGROUP_STORAGE PERCPU_CGROUP_STORAGE",
    "sk_select_reuseport": "REUSEPORT_SOCKARRAY SOCKMAP SOCKHASH",
    "map_pop_elem": "QUEUE STACK",
    "map_peek_elem map_push_elem": "QUEUE STACK BLOOM_FILTER",
    "map_lookup_percpu_elem": "PERCPU_ARRAY PERCPU_HASH LRU_PERCPU_HASH",
    "sk_storage_get sk_storage_delete": "SK_STORAGE",
    "inode_storage_get inode_storage_delete": "INODE_STORAGE",
    "task_storage_get task_storage_delete": "TASK_STORAGE",
    "cgrp_storage_get cgrp_storage_delete": "CGRP_STORAGE",
}

# Program types that may change the sockets of a map; TRACING ones only as iterators.
_SOCKET_MAPS = frozenset({MapType.SOCKMAP, MapType.SOCKHASH})
_SOCKET_WRITERS = frozenset(
    {
        ProgType.SOCKET_FILTER,
        ProgType.SCHED_CLS,
        ProgType.SCHED_ACT,
        ProgType.XDP,
        ProgType.SK_REUSEPORT,
        ProgType.FLOW_DISSECTOR,
        ProgType.SK_LOOKUP,
    }
)
_NO_DELETION = (7, 0)
"""Since when programs that see packets may not take sockets out of maps: seen in 7.3."""
_UPDATE, _DELETE = HELPERS["bpf_map_update_elem"], HELPERS["bpf_map_delete_elem"]

ITERABLE = frozenset(
    {
        MapType.HASH,
        MapType.PERCPU_HASH,
        MapType.LRU_HASH,
        MapType.LRU_PERCPU_HASH,
        MapType.ARRAY,
        MapType.PERCPU_ARRAY,
    }
)
"""Map types whose entries bpf_for_each_map_elem goes through."""

_TRACING = frozenset(
    {
        ProgType.KPROBE,
        ProgType.TRACEPOINT,
        ProgType.PERF_EVENT,
        ProgType.RAW_TRACEPOINT,
        ProgType.RAW_TRACEPOINT_WRITABLE,
    }
)
_PLAIN_HASHES = frozenset(
    {MapType.HASH, MapType.PERCPU_HASH, MapType.HASH_OF_MAPS}
)  # those that may be without preallocation

# What programs that sleep may use, and since when.
_SLEEPABLE: Mapping[MapType, Version] = {
    MapType.HASH: (5, 10),
    MapType.LRU_HASH: (5, 10),
    MapType.ARRAY: (5, 10),
    MapType.PERCPU_HASH: (5, 13),
    MapType.PERCPU_ARRAY: (5, 13),
    MapType.LRU_PERCPU_HASH: (5, 13),
    MapType.ARRAY_OF_MAPS: (5, 13),
    MapType.HASH_OF_MAPS: (5, 13),
    MapType.RINGBUF: (5, 12),
    MapType.INODE_STORAGE: (5, 18),
    MapType.SK_STORAGE: (5, 18),
    MapType.TASK_STORAGE: (5, 18),
    MapType.USER_RINGBUF: (6, 1),
    MapType.CGRP_STORAGE: (6, 2),
    MapType.QUEUE: (6, 5),
    MapType.STACK: (6, 5),
    MapType.ARENA: (6, 9),
}


def refuse_helper(
    map_type: int,
    helper: int,
    version: Version,
    prog_type: int = ProgType.UNSPEC,
    attach_type: int = 0,
) -> str | None:
    """Return why a helper does not take maps of a type, in the kernel's words; None if it does.

    ``helper`` is its number; program and attach type matter where sockets in maps are changed.
    """
    name = HELPER_NAMES[helper].removeprefix("bpf_")
    only = _helpers_of().get(map_type)
    types = _types_of().get(name)
    fits = (only is None or name in only) and (types is None or map_type in types)
    if map_type in _SOCKET_MAPS and helper in {_UPDATE, _DELETE}:
        fits = _changes_sockets(helper, version, prog_type, attach_type)
    return None if fits else f"cannot pass map_type {map_type} into func bpf_{name}#{helper}"


def _changes_sockets(helper: int, version: Version, prog_type: int, attach_type: int) -> bool:
    """Whether programs may put sockets into maps, or take them out of them.

    Taking out was for everyone before Linux 6.10, and the stable releases from 6.1 on; later both
    were taken from the programs that see packets.
    """
    if helper == _DELETE and (version < (6, 1) or prog_type == ProgType.SOCK_OPS):
        return True
    if prog_type == ProgType.TRACING:
        return attach_type == AttachType.TRACE_ITER
    if version >= _NO_DELETION:
        return prog_type in {ProgType.SK_REUSEPORT, ProgType.SK_LOOKUP}
    return prog_type in _SOCKET_WRITERS


@cache
def _helpers_of() -> Mapping[int, frozenset[str]]:
    return {kind: frozenset(names.split()) for kind, names in _HELPERS_OF.items()}


@cache
def _types_of() -> Mapping[str, frozenset[int]]:
    return {
        name: frozenset(MapType[kind] for kind in kinds.split())
        for names, kinds in _TYPES_OF.items()
        for name in names.split()
    }


def refuse_program(
    map_type: int,
    version: Version,
    prog_type: int,
    *,
    map_flags: int = 0,
    sleepable: bool = False,
    fields: Iterable[str] = (),
    inner_flags: int | None = None,
) -> str | None:
    """Return why a program cannot use a map, in the kernel's words; None where it can.

    ``fields`` are the kinds of special members of the map's values (``spin_lock``,
    ``res_spin_lock``, ``timer``, ``workqueue``, ``list_head``, ``rb_root``); ``inner_flags`` the
    flags of the maps in a map of hashes.
    """
    tracing = prog_type in _TRACING
    held = frozenset(fields)
    if map_type == MapType.STRUCT_OPS:
        return "bpf_struct_ops map cannot be used in prog"
    if tracing and (message := _refuse_tracing(held)):
        return message
    if "spin_lock" in held and prog_type == ProgType.SOCKET_FILTER:
        return "socket filter progs cannot use bpf_spin_lock yet"
    if "spin_lock" in held and sleepable and version < (6, 2):
        return "sleepable progs cannot use bpf_spin_lock yet"
    if version < (6, 1) and prog_type == ProgType.PERF_EVENT and map_type in _PLAIN_HASHES:
        if map_flags & MapFlag.NO_PREALLOC:
            return "perf_event programs can only use preallocated hash map"
        if inner_flags is not None and inner_flags & MapFlag.NO_PREALLOC:
            return "perf_event programs can only use preallocated inner hash map"
    if sleepable and _SLEEPABLE.get(MapType(map_type), (99, 0)) > version:
        return (
            "Sleepable programs can only use array, hash, ringbuf and local storage maps"
            if version >= (6, 1)
            else "Sleepable programs can only use array, hash, and ringbuf maps"
        )
    return None


def _refuse_tracing(fields: frozenset[str]) -> str | None:
    if fields & {"list_head", "rb_root"}:
        return "tracing progs cannot use bpf_{list_head,rb_root} yet"
    if fields & {"spin_lock", "res_spin_lock"}:
        return "tracing progs cannot use bpf_spin_lock yet"
    if "timer" in fields:
        return "tracing progs cannot use bpf_timer yet"
    if "workqueue" in fields:
        return "tracing progs cannot use bpf_wq yet"
    return None


class _Map(Protocol):
    """What refuse_map asks of a map."""

    @property
    def type(self) -> int: ...
    @property
    def flags(self) -> int: ...
    @property
    def inner(self) -> _Map | None: ...
    @property
    def fields(self) -> Fields: ...


class _Subject(Protocol):
    """What refuse_map asks of a program."""

    @property
    def prog_type(self) -> int: ...
    @property
    def prog_flags(self) -> int: ...


class _Rules(Protocol):
    """What refuse_map asks of a kernel."""

    @property
    def version(self) -> Version: ...


def refuse_map(known: _Map, subject: _Subject, rules: _Rules) -> str | None:
    """Return why a program cannot use a map: ``refuse_program`` for the verifier's own values."""
    return refuse_program(
        known.type,
        rules.version,
        subject.prog_type,
        map_flags=known.flags,
        sleepable=bool(subject.prog_flags & ProgFlag.SLEEPABLE),
        fields=[one.kind for one in known.fields.values()],
        inner_flags=known.inner.flags if known.inner else None,
    )
