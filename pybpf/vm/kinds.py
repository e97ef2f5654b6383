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


def make_map(spec: MapSpec, memory: AddressSpace, cpus: int) -> Map:
    """Return a new map; raises PybpfError for a type that is not emulated."""
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
