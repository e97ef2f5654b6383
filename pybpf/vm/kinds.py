"""Which class emulates a map: a MapSpec in, an empty map out."""

from __future__ import annotations

from pybpf.errors import PybpfError
from pybpf.isa.abi import MapType
from pybpf.script import MapSpec
from pybpf.vm.buffers import PerfEventArray, RingBuffer, StackTraces
from pybpf.vm.collections import Bloom, LpmTrie, Queue, Storage, Targets, UserRing
from pybpf.vm.maps import ArrayMap, HashMap, Map, MapOfMaps, ProgArray
from pybpf.vm.memory import AddressSpace

_STORAGE = frozenset(
    {
        MapType.SK_STORAGE,
        MapType.INODE_STORAGE,
        MapType.TASK_STORAGE,
        MapType.CGRP_STORAGE,
        MapType.CGROUP_STORAGE,
        MapType.PERCPU_CGROUP_STORAGE,
    }
)
_TARGETS = frozenset(
    {
        MapType.CGROUP_ARRAY,
        MapType.DEVMAP,
        MapType.DEVMAP_HASH,
        MapType.CPUMAP,
        MapType.XSKMAP,
        MapType.SOCKMAP,
        MapType.SOCKHASH,
        MapType.REUSEPORT_SOCKARRAY,
    }
)


_KEYS_OF_4 = frozenset({MapType.ARRAY, MapType.PERCPU_ARRAY})
_KEY_AT_MOST, _VALUE_AT_MOST, _RING_AT_MOST = 4 << 20, 256 << 20, 256 << 20
_RINGS = frozenset({MapType.RINGBUF, MapType.USER_RINGBUF})
_LPM_KEYS = range(5, 261)


def _check_sizes(spec: MapSpec) -> None:
    """Refuse what no kernel makes, and what would take more memory than a machine shall have."""
    problem = None
    if spec.type in _KEYS_OF_4 and spec.key_size != 4:
        problem = f"keys have 4 bytes, not {spec.key_size}"
    elif spec.type is MapType.LPM_TRIE and spec.key_size not in _LPM_KEYS:
        problem = f"keys have 5 to 260 bytes, not {spec.key_size}"
    elif spec.key_size > _KEY_AT_MOST:
        problem = f"keys of {spec.key_size} bytes are more than {_KEY_AT_MOST >> 20} MiB"
    elif spec.value_size > _VALUE_AT_MOST:
        problem = f"values of {spec.value_size} bytes are more than {_VALUE_AT_MOST >> 20} MiB"
    elif spec.type in _RINGS and spec.max_entries > _RING_AT_MOST:
        problem = f"{spec.max_entries} bytes are more than {_RING_AT_MOST >> 20} MiB"
    if problem is not None:
        raise PybpfError(f"map {spec.name} of type {spec.type.name}: {problem}")


def make_map(spec: MapSpec, memory: AddressSpace, cpus: int) -> Map:
    """Return a new map; raises PybpfError for a type or size that is not emulated."""
    _check_sizes(spec)
    match spec.type:
        case MapType.HASH | MapType.PERCPU_HASH | MapType.LRU_HASH | MapType.LRU_PERCPU_HASH:
            return HashMap(spec, memory, cpus)
        case MapType.ARRAY | MapType.PERCPU_ARRAY:
            return ArrayMap(spec, memory, cpus)
        case MapType.ARRAY_OF_MAPS | MapType.HASH_OF_MAPS:
            return MapOfMaps(spec, memory)
        case MapType.PROG_ARRAY:
            return ProgArray(spec, memory)
        case MapType.RINGBUF:
            return RingBuffer(spec, memory)
        case MapType.PERF_EVENT_ARRAY:
            return PerfEventArray(spec, memory, cpus)
        case MapType.STACK_TRACE:
            return StackTraces(spec, memory)
        case MapType.LPM_TRIE:
            return LpmTrie(spec, memory)
        case MapType.QUEUE | MapType.STACK:
            return Queue(spec, memory)
        case MapType.BLOOM_FILTER:
            return Bloom(spec, memory)
        case MapType.USER_RINGBUF:
            return UserRing(spec, memory)
        case kind if kind in _STORAGE:
            return Storage(spec, memory)
        case kind if kind in _TARGETS:
            return Targets(spec, memory)
        case _:
            raise PybpfError(
                f"map {spec.name}: the VM does not emulate maps of type {spec.type.name}"
            )
