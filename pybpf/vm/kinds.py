"""Which class emulates a map: a MapSpec in, an empty map out."""

from __future__ import annotations

from pybpf.errors import PybpfError
from pybpf.isa.abi import MapType
from pybpf.script import MapSpec
from pybpf.vm.buffers import PerfEventArray, RingBuffer, StackTraces
from pybpf.vm.maps import ArrayMap, HashMap, Map, MapOfMaps, ProgArray
from pybpf.vm.memory import AddressSpace


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
        case _:
            raise PybpfError(
                f"map {spec.name}: the VM does not emulate maps of type {spec.type.name}"
            )
