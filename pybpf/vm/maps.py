"""Maps that programs look up: MapSpec in, an emulated kernel map out.

Operations return 0 or a negative errno, as the kernel's do. What happens to the pointers that a
program holds into a map is the kernel's doing too: an array changes a value where it is, and so
does a per-CPU hash; a plain hash puts a new element in place of the old one, whose memory lives on
until the program ends. The same holds for deleted elements. Source: kernel/bpf/hashtab.c,
arraymap.c and map_in_map.c.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from errno import E2BIG, EEXIST, EINVAL, ENOENT
from typing import Protocol

from pybpf.isa.abi import MapFlag, MapType
from pybpf.isa.insn import Program
from pybpf.script import MapSpec
from pybpf.vm.memory import AddressSpace, Region

ANY, NOEXIST, EXIST = 0, 1, 2


class Map(Protocol):
    """What every map has: its spec, and the address by which programs name it to helpers."""

    @property
    def spec(self) -> MapSpec:
        """What the map was made from."""

    @property
    def handle(self) -> Region:
        """A region without bytes; a program's map pointer is its address."""


class Kept:
    """What maps have in common: a spec, a handle, and the memory where values are."""

    def __init__(self, spec: MapSpec, memory: AddressSpace) -> None:
        self.spec = spec
        self.handle = memory.add(bytearray(), f"map {spec.name}", writable=False)
        self._memory = memory


class _Values(Kept):
    """The memory of a map's values: ``copies`` for every element, one unless it is per-CPU."""

    def __init__(self, spec: MapSpec, memory: AddressSpace, copies: int) -> None:
        super().__init__(spec, memory)
        self._copies = copies
        self._writable = not spec.flags & MapFlag.RDONLY_PROG

    def _new(self) -> list[Region]:
        """Return a zeroed element."""
        name = f"a value of map {self.spec.name}"
        return [
            self._memory.add(bytearray(self.spec.value_size), name, writable=self._writable)
            for _ in range(self._copies)
        ]

    def _copy(self, element: list[Region], cpu: int) -> Region:
        return element[cpu if self._copies > 1 else 0]


class HashMap(_Values):
    """Hash, per-CPU hash and LRU hash.

    A full LRU hash gives up the element that was longest neither looked up nor updated; the
    kernel's choice is only close to that.
    """

    def __init__(self, spec: MapSpec, memory: AddressSpace, cpus: int) -> None:
        self._per_cpu = spec.type in {MapType.PERCPU_HASH, MapType.LRU_PERCPU_HASH}
        super().__init__(spec, memory, cpus if self._per_cpu else 1)
        self._lru = spec.type in {MapType.LRU_HASH, MapType.LRU_PERCPU_HASH}
        self._elements: dict[bytes, list[Region]] = {}

    def lookup(self, key: bytes, cpu: int) -> int:
        """Return the address of the value of ``cpu``, or 0."""
        element = self._elements.get(key)
        if element is None:
            return 0
        if self._lru:
            self._elements[key] = self._elements.pop(key)
        return self._copy(element, cpu).address

    def update(self, key: bytes, value: bytes, flags: int = ANY, cpu: int = 0) -> int:
        """Set a value; the other CPUs' values of a new element are zero."""
        element = self._elements.get(key)
        if flags > EXIST:
            return -EINVAL
        if element is None and flags == EXIST:
            return -ENOENT
        if element is not None and flags == NOEXIST:
            return -EEXIST
        if element is None and len(self._elements) >= self.spec.max_entries:
            if not self._lru:
                return -E2BIG
            self.delete(next(iter(self._elements)))
        if element is None or not self._per_cpu:
            if element is not None:
                self.delete(key)
            element = self._elements[key] = self._new()
        self._copy(element, cpu).data[:] = value
        return 0

    def delete(self, key: bytes) -> int:
        """Remove an element; ENOENT where there is none."""
        element = self._elements.pop(key, None)
        if element is None:
            return -ENOENT
        for region in element:
            self._memory.retire(region)
        return 0

    def items(self) -> Iterator[tuple[bytes, tuple[bytes, ...]]]:
        """Yield keys and values in the order the elements came."""
        for key, element in self._elements.items():
            yield key, tuple(bytes(region.data) for region in element)

    def keys(self) -> Iterable[bytes]:
        """Return the keys of now; elements may come and go meanwhile."""
        return tuple(self._elements)

    def clear(self) -> None:
        """Remove every element."""
        for key in list(self._elements):
            self.delete(key)


class ArrayMap(_Values):
    """Array and per-CPU array; keys are u32 in the machine's byte order."""

    def __init__(self, spec: MapSpec, memory: AddressSpace, cpus: int) -> None:
        super().__init__(spec, memory, cpus if spec.type is MapType.PERCPU_ARRAY else 1)
        self._elements: dict[int, list[Region]] = {}
        if spec.initial:
            for copy in self._element(0):
                copy.data[:] = spec.initial

    def _element(self, index: int) -> list[Region]:
        """Return an element, making it when it is first asked for."""
        element = self._elements.get(index)
        if element is None:
            element = self._elements[index] = self._new()
        return element

    def _index(self, key: bytes) -> int:
        return int.from_bytes(key, self._memory.byteorder)

    def lookup(self, key: bytes, cpu: int) -> int:
        """Return the address of the value of ``cpu``, or 0 for an index beyond the end."""
        index = self._index(key)
        if index >= self.spec.max_entries:
            return 0
        return self._copy(self._element(index), cpu).address

    def value(self, offset: int) -> int:
        """Return the address of byte ``offset`` of the first value, as a lddw_map_value has it."""
        return self._element(0)[0].address + offset

    def update(self, key: bytes, value: bytes, flags: int = ANY, cpu: int = 0) -> int:
        """Set a value."""
        index = self._index(key)
        if flags > EXIST:
            return -EINVAL
        if index >= self.spec.max_entries:
            return -E2BIG
        if flags == NOEXIST:
            return -EEXIST
        self._copy(self._element(index), cpu).data[:] = value
        return 0

    def delete(self, key: bytes) -> int:  # noqa: ARG002 - an array never loses an element
        """Refuse: EINVAL."""
        return -EINVAL

    def items(self) -> Iterator[tuple[bytes, tuple[bytes, ...]]]:
        """Yield every index with its values."""
        zero = (bytes(self.spec.value_size),) * self._copies
        for index in range(self.spec.max_entries):
            element = self._elements.get(index)
            key = index.to_bytes(self.spec.key_size, self._memory.byteorder)
            yield key, zero if element is None else tuple(bytes(copy.data) for copy in element)

    def keys(self) -> Iterable[bytes]:
        """Return every index, which may be too many to hold them all."""
        size, order = self.spec.key_size, self._memory.byteorder
        return (index.to_bytes(size, order) for index in range(self.spec.max_entries))

    def clear(self) -> None:
        """Zero every value."""
        for element in self._elements.values():
            for region in element:
                region.data[:] = bytes(region.size)


class MapOfMaps(Kept):
    """Array or hash of maps: programs look inner maps up, only user space puts them in."""

    def __init__(self, spec: MapSpec, memory: AddressSpace) -> None:
        super().__init__(spec, memory)
        self._inner: dict[bytes, Map] = {}

    def put(self, key: bytes, inner: Map) -> None:
        """Put a map in, from user space."""
        self._inner[key] = inner

    def lookup(self, key: bytes, cpu: int) -> int:  # noqa: ARG002 - all CPUs see one inner map
        """Return the map pointer of the inner map, or 0."""
        inner = self._inner.get(key)
        return 0 if inner is None else inner.handle.address


class ProgArray(Kept):
    """Programs to tail-call, by index; only user space puts them in."""

    def __init__(self, spec: MapSpec, memory: AddressSpace) -> None:
        super().__init__(spec, memory)
        self._programs: dict[int, Program] = {}

    def put(self, index: int, program: Program) -> None:
        """Put a program in, from user space."""
        self._programs[index] = program

    def get(self, index: int) -> Program | None:
        """Return the program at ``index``."""
        return self._programs.get(index)
