"""A map of an object, before and after it is created: keys and values are what their types say.

Types come from BTF (see ``btf.values``); where there is none, or it does not fit, bytes stay bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, TypeAlias

from pybpf.btf.reader import Btf
from pybpf.btf.values import Codec
from pybpf.dataclass import replace
from pybpf.errors import ObjectError, TargetError, ValueMismatch
from pybpf.isa.abi import MapType
from pybpf.isa.insn import ByteOrder
from pybpf.kernel import syscall
from pybpf.kernel.fd import Fd
from pybpf.kernel.maps import PER_CPU, Map
from pybpf.objfile.maps import ObjectMap, Origin

_MAPS = frozenset({MapType.ARRAY_OF_MAPS, MapType.HASH_OF_MAPS})
_HELD = _MAPS | {MapType.PROG_ARRAY, MapType.PERF_EVENT_ARRAY, MapType.CGROUP_ARRAY,
                 MapType.SOCKMAP, MapType.SOCKHASH, MapType.XSKMAP,
                 MapType.REUSEPORT_SOCKARRAY}  # fmt: skip
"""Maps that are written descriptors to; what is read of them are numbers of objects."""
_SLOTS = _HELD - {MapType.HASH_OF_MAPS, MapType.SOCKHASH} | {MapType.DEVMAP, MapType.CPUMAP}
"""Arrays whose slots can be empty; the kernel walks through all of them."""
_DATA = frozenset({Origin.DATA, Origin.RODATA, Origin.BSS, Origin.KCONFIG})

Key: TypeAlias = Any
Value: TypeAlias = Any


class BpfMap(MutableMapping[Key, Value]):
    """A map that behaves as a dict once it is loaded.

    A value of a per-CPU map is a list, with one element for each possible CPU; one element alone
    is written for all. A map of maps gives and takes maps, an array of programs takes programs;
    slots of theirs that are empty are no entries.
    What the kernel refuses is a KernelError; a key or value that its type cannot hold is a
    ValueMismatch; a key that is not there is a KeyError.
    """

    def __init__(self, spec: ObjectMap, btf: Btf | None, byteorder: ByteOrder) -> None:
        self._spec = spec
        self._btf = btf
        self._order = byteorder
        self._map: Map | None = None
        self._codecs: dict[str, Codec | None] = {}
        self.reused = False
        """Whether it was pinned already, and is that one."""

    @property
    def spec(self) -> ObjectMap:
        """What the object says of the map, with what was changed since."""
        return self._spec

    @property
    def name(self) -> str:
        """The name of the variable, or of the section of data."""
        return self._spec.name

    @property
    def is_data(self) -> bool:
        """Whether it holds variables of the object."""
        return self._spec.origin in _DATA

    @property
    def max_entries(self) -> int:
        """The number of entries that there is room for; it can be set before loading."""
        return self._spec.max_entries if self._map is None else self._map.max_entries

    @max_entries.setter
    def max_entries(self, count: int) -> None:
        if self._map is not None:
            raise ValueMismatch("", f"map {self.name} is loaded: its size stays as it is")
        if self.is_data:
            raise ValueMismatch("", f"map {self.name} holds variables, and has one entry")
        self._spec = replace(self._spec, max_entries=count)

    def set_initial(self, data: bytes) -> None:
        """Give a map of data another content to be created with."""
        self._spec = replace(self._spec, initial=data)

    @property
    def kernel(self) -> Map:
        """The map in the kernel; raises ObjectError before it is loaded, or after closing."""
        if self._map is None:
            raise ObjectError("", f"map {self.name} is not loaded")
        return self._map

    @property
    def loaded(self) -> bool:
        """Whether there is a map in the kernel."""
        return self._map is not None and not self._map.closed

    def hold(self, found: Map) -> None:
        """Be the given map of the kernel from now on."""
        self._map = found

    def close(self) -> None:
        """Let go of the map in the kernel; it stays while something else holds it."""
        if self._map is not None:
            self._map.close()
        self._map = None

    def fileno(self) -> int:
        """Return the descriptor, for what wants one."""
        return self.kernel.fileno()

    # Keys and values

    def _codec(self, part: str, size: int) -> Codec | None:
        """Return what decodes keys, or values; None where the types do not tell."""
        if part not in self._codecs:
            number = self._spec.key_type if part == "key" else self._spec.value_type
            self._codecs[part] = None
            if self._btf is not None and number and not self.is_data:
                try:
                    found = Codec(self._btf, number)
                except TargetError:
                    found = None
                if found is not None and found.size == size:
                    self._codecs[part] = found
        return self._codecs[part]

    def _decoded(self, part: str, data: bytes) -> Any:
        codec = self._codec(part, len(data))
        if codec is not None:
            return codec.decode(data)
        if len(data) == 4 and self.kernel.map_type in _HELD:
            return int.from_bytes(data, self._order)
        return data

    def _encoded(self, part: str, value: object) -> bytes:
        kernel = self.kernel
        size = kernel.key_size if part == "key" else kernel.value_size
        codec = self._codec(part, size)
        try:
            if codec is not None:
                return codec.encode(value)
            if isinstance(value, int) and size in {1, 2, 4, 8}:
                return value.to_bytes(size, self._order, signed=value < 0)
            if isinstance(value, bytes | bytearray | memoryview) and len(value) == size:
                return bytes(value)
        except OverflowError:
            pass
        except ValueMismatch as error:
            raise ValueMismatch(f"{part} of map {self.name}{error.path}", error.reason) from None
        raise ValueMismatch(f"{part} of map {self.name}", f"{value!r} is not {size} bytes")

    def _value(self, values: tuple[bytes, ...]) -> Value:
        if self.kernel.map_type in PER_CPU:
            return [self._decoded("value", value) for value in values]
        if self.kernel.map_type in _MAPS:
            return self._inner(int.from_bytes(values[0], self._order))
        return self._decoded("value", values[0])

    def _inner(self, number: int) -> BpfMap:
        """Return the map that has a number; it is closed with what it is returned to."""
        spec = self._spec.inner or self._spec
        held = BpfMap(replace(spec, name=f"{self.name}[id {number}]"), self._btf, self._order)
        held.hold(_Borrowed.opened(syscall.object_by_id(syscall.Kind.MAP, number), held.name))
        return held

    def __getitem__(self, key: Key) -> Value:
        found = self.kernel.lookup(self._encoded("key", key))
        if found is None:
            raise KeyError(key)
        return self._value(found)

    def __setitem__(self, key: Key, value: Value) -> None:
        kernel, raw = self.kernel, self._encoded("key", key)
        if kernel.map_type in _HELD and hasattr(value, "fileno"):
            kernel.update(raw, value.fileno().to_bytes(kernel.value_size, self._order))
        elif kernel.map_type in PER_CPU and isinstance(value, list):
            self._check_cpus(value)
            kernel.update(raw, *(self._encoded("value", each) for each in value))
        else:
            kernel.update(raw, self._encoded("value", value))

    def _check_cpus(self, values: list[Any]) -> None:
        from pybpf.kernel.maps import possible_cpus

        if len(values) != len(possible_cpus()):
            reason = f"{len(values)} values, but there are {len(possible_cpus())} CPUs"
            raise ValueMismatch(f"value of map {self.name}", reason)

    def __delitem__(self, key: Key) -> None:
        if not self.kernel.delete(self._encoded("key", key)):
            raise KeyError(key)

    def __iter__(self) -> Iterator[Key]:
        return (self._decoded("key", key) for key in self._keys())

    def __len__(self) -> int:
        return sum(1 for _ in self._keys())

    def _keys(self) -> Iterator[bytes]:
        """Yield the keys of what is there: an empty slot is not."""
        kernel = self.kernel
        may_be_empty = kernel.map_type in _SLOTS
        for key in kernel.keys():  # noqa: SIM118 - it is no dict
            if not may_be_empty or kernel.lookup(key) is not None:
                yield key

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def entries(self) -> Iterator[tuple[Key, Value]]:
        """Yield keys and values of all entries; many are asked for with one system call."""
        for key, values in self.kernel.items():
            yield self._decoded("key", key), self._value(values)

    def clear(self) -> None:
        """Delete all entries; in an array, write zeros over them."""
        self.kernel.clear()

    def write(self, entries: Mapping[Key, Value] | Iterable[tuple[Key, Value]]) -> None:
        """Write many entries."""
        for key, value in entries.items() if isinstance(entries, Mapping) else entries:
            self[key] = value

    # Queues, stacks and filters have values and no keys.

    def push(self, value: Value) -> None:
        """Add a value to a queue, a stack or a bloom filter."""
        self.kernel.update(b"", self._encoded("value", value))

    def peek(self) -> Value:
        """Return the value that would be taken next; raises IndexError where there is none."""
        found = self.kernel.lookup(b"")
        if found is None:
            raise IndexError(f"map {self.name} is empty")
        return self._decoded("value", found[0])

    def take(self) -> Value:
        """Take the next value from a queue or a stack; raises IndexError where there is none."""
        found = self.kernel.take(b"")
        if found is None:
            raise IndexError(f"map {self.name} is empty")
        return self._decoded("value", found[0])

    def holds(self, value: Value) -> bool:
        """Whether a value may have been added to a bloom filter."""
        return self.kernel.matches(self._encoded("value", value))

    def __repr__(self) -> str:
        return f"BpfMap({self.name!r}, {self._spec.type_name})"


class _Borrowed(Map):
    """A map that was found in another one: it closes without a word when nobody has it."""

    __slots__ = ()

    def __del__(self) -> None:
        Fd.close(self)


class Maps(Mapping[str, BpfMap]):
    """The maps of an object by name."""

    def __init__(self, path: str, maps: Iterable[BpfMap]) -> None:
        self._path = path
        self._maps = {each.name: each for each in maps}

    def __getitem__(self, name: str) -> BpfMap:
        return self._maps[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._maps)

    def __len__(self) -> int:
        return len(self._maps)

    def named(self, name: str) -> BpfMap:
        """Return a map; raises ObjectError that says which there are."""
        if name not in self._maps:
            from pybpf.suggest import did_you_mean

            reason = f"it has no map {name}{did_you_mean(name, self._maps)}"
            raise ObjectError(self._path, reason)
        return self._maps[name]
