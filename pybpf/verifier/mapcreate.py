"""Rules for making maps: a map's type, sizes and flags in; the errno of bpf(2) or 0 out.

Source: the map_alloc_check and map_alloc functions in kernel/bpf/*.c and net/. What depends on the
machine (memory, a NUMA node, a capability, types of values) is not judged.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence

from pybpf.corpus import CorpusMap
from pybpf.dataclass import dataclass
from pybpf.isa.abi import MapFlag, MapType, name_of
from pybpf.target.profile import Profile
from pybpf.verifier.refusal import Refusal

_F = MapFlag
_USER = _F.RDONLY | _F.WRONLY
_PROGRAM = _F.RDONLY_PROG | _F.WRONLY_PROG
_ACCESS = _USER | _PROGRAM
_PERCPU_VALUE = 32 << 10
_PAGE = 4096
_STACK_DEPTH = 127
_LPM_KEY = range(5, 261)
_SOCKHASH_KEY = 512
_ENOTSUPP = 524


@dataclass(frozen=True, slots=True)
class _Rule:
    """Sizes are exact where tuples are given, at least 1 where None is. ``flags`` may be set."""

    key: tuple[int, ...] | None
    value: tuple[int, ...] | None
    flags: int
    needs: int = 0
    entries: bool = True
    """Whether there must be entries; else there must be none."""


_FD = (4,)
_FD_OR_COOKIE = (4, 8)
_RULES: Mapping[MapType, _Rule] = {
    MapType.HASH: _Rule(None, None, _F.NO_PREALLOC | _F.NUMA_NODE | _ACCESS | _F.ZERO_SEED),
    MapType.PERCPU_HASH: _Rule(None, None, _F.NO_PREALLOC | _ACCESS | _F.ZERO_SEED),
    MapType.LRU_HASH: _Rule(None, None, _F.NO_COMMON_LRU | _F.NUMA_NODE | _ACCESS | _F.ZERO_SEED),
    MapType.LRU_PERCPU_HASH: _Rule(None, None, _F.NO_COMMON_LRU | _ACCESS | _F.ZERO_SEED),
    MapType.HASH_OF_MAPS: _Rule(None, _FD, _F.NO_PREALLOC | _F.NUMA_NODE | _USER | _F.ZERO_SEED),
    MapType.ARRAY: _Rule((4,), None, _F.NUMA_NODE | _ACCESS | _F.MMAPABLE | _F.INNER_MAP),
    MapType.PERCPU_ARRAY: _Rule((4,), None, _ACCESS),
    MapType.PROG_ARRAY: _Rule((4,), _FD, _F.NUMA_NODE | _USER),
    MapType.PERF_EVENT_ARRAY: _Rule((4,), _FD, _F.NUMA_NODE | _USER | _F.PRESERVE_ELEMS),
    MapType.CGROUP_ARRAY: _Rule((4,), _FD, _F.NUMA_NODE | _USER),
    MapType.ARRAY_OF_MAPS: _Rule((4,), _FD, _F.NUMA_NODE | _USER),
    MapType.STACK_TRACE: _Rule((4,), None, _F.NUMA_NODE | _USER | _F.STACK_BUILD_ID),
    MapType.LPM_TRIE: _Rule(None, None, _F.NO_PREALLOC | _F.NUMA_NODE | _ACCESS, _F.NO_PREALLOC),
    MapType.DEVMAP: _Rule((4,), _FD_OR_COOKIE, _F.NUMA_NODE | _USER),
    MapType.DEVMAP_HASH: _Rule((4,), _FD_OR_COOKIE, _F.NUMA_NODE | _USER),
    MapType.CPUMAP: _Rule((4,), _FD_OR_COOKIE, _F.NUMA_NODE),
    MapType.XSKMAP: _Rule((4,), _FD, _F.NUMA_NODE | _USER),
    MapType.SOCKMAP: _Rule((4,), _FD_OR_COOKIE, _F.NUMA_NODE | _USER),
    MapType.SOCKHASH: _Rule(None, _FD_OR_COOKIE, _F.NUMA_NODE | _USER),
    MapType.REUSEPORT_SOCKARRAY: _Rule((4,), _FD_OR_COOKIE, _F.NUMA_NODE | _ACCESS),
    MapType.CGROUP_STORAGE: _Rule((8, 16), None, _F.NUMA_NODE | _ACCESS, entries=False),
    MapType.PERCPU_CGROUP_STORAGE: _Rule((8, 16), None, _F.NUMA_NODE | _ACCESS, entries=False),
    MapType.QUEUE: _Rule((0,), None, _F.NUMA_NODE | _ACCESS),
    MapType.STACK: _Rule((0,), None, _F.NUMA_NODE | _ACCESS),
    MapType.BLOOM_FILTER: _Rule((0,), None, _F.NUMA_NODE | _ACCESS | _F.ZERO_SEED),
    MapType.RINGBUF: _Rule((0,), (0,), _F.NUMA_NODE),
    MapType.USER_RINGBUF: _Rule((0,), (0,), _F.NUMA_NODE),
    MapType.ARENA: _Rule((0,), (0,), _F.SEGV_ON_FAULT | _F.MMAPABLE | _F.NO_USER_CONV, _F.MMAPABLE),
}
_PERCPU = frozenset(
    {
        MapType.PERCPU_HASH,
        MapType.LRU_PERCPU_HASH,
        MapType.PERCPU_ARRAY,
        MapType.PERCPU_CGROUP_STORAGE,
    }
)
_LRU = frozenset({MapType.LRU_HASH, MapType.LRU_PERCPU_HASH})
_RINGS = frozenset({MapType.RINGBUF, MapType.USER_RINGBUF})


def refuse_maps(maps: Sequence[CorpusMap], kernel: Profile) -> None:
    """Raise Refusal for the first map that a kernel does not make, and so not its program."""
    for number, spec in enumerate(maps):
        name = name_of(MapType, spec.type, "type {}")
        if spec.type not in kernel.map_types:
            raise Refusal(f"cannot create map {number}: Linux {kernel.release} has no {name} maps")
        wrong = refuse_creation(
            spec.type, spec.key_size, spec.value_size, spec.max_entries, spec.map_flags
        )
        if wrong is not None:
            sizes = f"{spec.key_size}:{spec.value_size}:{spec.max_entries}"
            flags = f", flags {spec.map_flags:#x}" if spec.map_flags else ""
            raise Refusal(f"cannot create map {number}: {name}:{sizes}{flags}", errno=wrong)


def refuse_creation(
    map_type: int, key_size: int, value_size: int, max_entries: int, flags: int = 0
) -> int | None:
    """Return the errno with which the kernel refuses to make such a map; None where it makes one.

    Sizes in bytes. Of types that need more than sizes (storage of sockets and tasks, struct_ops,
    maps in maps without one of these) nothing is known: they are None, too.
    """
    rule = _RULES.get(MapType(map_type))
    if rule is None:
        return None
    if map_type in _LRU and flags & _F.NO_PREALLOC:
        return _ENOTSUPP
    both = flags & _USER == _USER or flags & _PROGRAM == _PROGRAM
    if flags & ~rule.flags or flags & rule.needs != rule.needs or both:
        return errno.EINVAL
    if not (_fits(key_size, rule.key) and _fits(value_size, rule.value)):
        return errno.EINVAL
    if bool(max_entries) != rule.entries:
        return errno.EINVAL
    return _particular(map_type, key_size, value_size, max_entries, flags)


def _fits(size: int, allowed: tuple[int, ...] | None) -> bool:
    return size in allowed if allowed is not None else size > 0


def _particular(
    map_type: int, key_size: int, value_size: int, max_entries: int, flags: int
) -> int | None:
    """Return the errno of what only one type, or a few, ask for."""
    if map_type in _PERCPU and -(-value_size // 8) * 8 > _PERCPU_VALUE:
        return errno.E2BIG
    if map_type in _RINGS and (max_entries & (max_entries - 1) or max_entries % _PAGE):
        return errno.EINVAL
    if map_type == MapType.STACK_TRACE:
        each = 32 if flags & _F.STACK_BUILD_ID else 8
        if value_size % 8 or value_size % each or value_size // each > _STACK_DEPTH:
            return errno.EINVAL
    if map_type == MapType.LPM_TRIE and key_size not in _LPM_KEY:
        return errno.EINVAL
    if map_type == MapType.SOCKHASH and key_size > _SOCKHASH_KEY:
        return errno.E2BIG
    return None
