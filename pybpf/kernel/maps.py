"""Maps in the kernel: keys and values as bytes, one value per CPU where the type says so."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Self

from pybpf.errors import KernelError
from pybpf.isa.abi import MapType
from pybpf.kernel.fd import Fd
from pybpf.kernel.syscall import check, ffi, lib, map_create, object_info

if TYPE_CHECKING:
    from pybpf._bpf_syscall import CData  # noqa: TID251 - a type, for mypy only

PER_CPU = {
    MapType.PERCPU_HASH,
    MapType.PERCPU_ARRAY,
    MapType.LRU_PERCPU_HASH,
    MapType.PERCPU_CGROUP_STORAGE,
}

# Entries asked for in one system call, at most: this many, or as many as fit these bytes.
_BATCH = 4096
_BATCH_BYTES = 1 << 20
_TAKE = 21  # BPF_MAP_LOOKUP_AND_DELETE_ELEM


class Update(IntEnum):
    """``BPF_ANY``, ``BPF_NOEXIST``, ``BPF_EXIST``: which entries an update may write."""

    ANY = 0
    NEW = 1
    EXISTING = 2


@cache
def possible_cpus() -> tuple[int, ...]:
    """Return the CPUs that may ever come online: each has a value in a per-CPU map."""
    return _cpus("possible")


def online_cpus() -> tuple[int, ...]:
    """Return the CPUs that are on now."""
    return _cpus("online")


def _cpus(which: str) -> tuple[int, ...]:
    """Read a list such as ``0-3,8``. Source: /sys/devices/system/cpu/."""
    cpus: list[int] = []
    path = f"/sys/devices/system/cpu/{which}"
    try:
        with open(path) as file:  # noqa: PTH123 - pathlib loads slowly
            parts = file.read().strip().split(",")
    except OSError as error:
        hint = "mount -t sysfs none /sys"
        raise KernelError(error.errno or 0, f"cannot read {path}", hints=(hint,)) from None
    for part in parts:
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return tuple(cpus)


def _address(cdata: CData) -> int:
    return int(ffi.cast("uintptr_t", cdata))


class Map(Fd):
    """A map in the kernel. Closed, it lives on while a loaded program uses it.

    Keys are bytes of ``key_size``. A value is a tuple of bytes of ``value_size``: one for each of
    ``possible_cpus()`` in a per-CPU map, exactly one else.
    """

    __slots__ = (
        "_values",
        "flags",
        "key_size",
        "map_type",
        "max_entries",
        "name",
        "value_size",
    )

    def __init__(
        self,
        map_type: MapType,
        name: str,
        key_size: int,
        value_size: int,
        max_entries: int,
        flags: int = 0,
        *,
        btf: Fd | None = None,
        types: tuple[int, int] = (0, 0),
        inner: Fd | None = None,
    ) -> None:
        """Create the map; sizes in bytes (a ring buffer's is ``max_entries``).

        ``types`` are the numbers of its key's and its value's type in ``btf``. A map of maps holds
        such as ``inner``.
        """
        created = map_create(
            map_type,
            name,
            key_size,
            value_size,
            max_entries,
            flags,
            btf=btf,
            types=types,
            inner=inner,
        )
        super().__init__(created.detach())
        self._describe(map_type, name, key_size, value_size, max_entries, flags)

    def _describe(
        self,
        map_type: MapType,
        name: str,
        key_size: int,
        value_size: int,
        max_entries: int,
        flags: int,
    ) -> None:
        self.map_type = map_type
        self.name = name
        self.key_size = key_size
        self.value_size = value_size
        self.max_entries = max_entries
        self.flags = flags
        self._values = len(possible_cpus()) if map_type in PER_CPU else 1

    @classmethod
    def opened(cls, found: Fd, name: str | None = None) -> Self:
        """Take over the descriptor of a map, which messages call ``name``, or by its own name.

        Raises KernelError: EINVAL for what is no map, EOPNOTSUPP for one of an unknown type.
        """
        info = ffi.new("struct bpf_map_info *")
        object_info(found, info)
        try:
            map_type = MapType(info.type)
        except ValueError:
            action = f"cannot use a map of type {info.type}"
            raise KernelError(errno.EOPNOTSUPP, action) from None
        made = cls.__new__(cls)
        Fd.__init__(made, found.detach())
        made._describe(  # noqa: SLF001 - its own
            map_type, name or ffi.string(info.name).decode(), info.key_size, info.value_size,
            info.max_entries, info.map_flags,
        )  # fmt: skip
        return made

    def ids(self) -> tuple[int, int]:
        """Return the numbers that the kernel knows the map and its BTF by; 0: it has none."""
        info = ffi.new("struct bpf_map_info *")
        object_info(self, info)
        return info.id, info.btf_id

    def __repr__(self) -> str:
        return f"Map({self.map_type.name}, {self.name!r})"

    @property
    def _stride(self) -> int:
        """The distance between two CPUs' values, aligned to 8 bytes, be there but one."""
        return (self.value_size + 7) & ~7 if self.map_type in PER_CPU else self.value_size

    def _split(self, raw: bytes) -> tuple[bytes, ...]:
        size, stride = self.value_size, self._stride
        return tuple(raw[i : i + size] for i in range(0, stride * self._values, stride))

    def lookup(self, key: bytes) -> tuple[bytes, ...] | None:
        """Return the value of a key, or None where there is no such entry."""
        value = ffi.new("char[]", self._stride * self._values)
        result = lib.bpf_map_lookup(self.fileno(), self._key(key), value, 0)
        if result == -errno.ENOENT:
            return None
        check(result, f"cannot look up in map {self.name}")
        return self._split(ffi.buffer(value)[:])

    def update(self, key: bytes, *value: bytes, how: Update = Update.ANY) -> None:
        """Write the value of a key: one for all CPUs, or as many as the map has for an entry.

        Raises KernelError: E2BIG where the map is full, EEXIST and ENOENT as ``how`` says.
        """
        if len(value) not in {1, self._values} or {len(v) for v in value} != {self.value_size}:
            raise ValueError(f"a value of map {self.name} has {self.value_size} bytes")
        if len(value) == 1:
            value *= self._values
        raw = b"".join(v.ljust(self._stride, b"\0") for v in value)
        result = lib.bpf_map_update(self.fileno(), self._key(key), raw, how)
        check(result, f"cannot update map {self.name}")

    def delete(self, key: bytes) -> bool:
        """Delete an entry; returns whether there was one."""
        result = lib.bpf_map_delete(self.fileno(), self._key(key))
        if result == -errno.ENOENT:
            return False
        check(result, f"cannot delete an entry of map {self.name}")
        return True

    def take(self, key: bytes) -> tuple[bytes, ...] | None:
        """Return the value of a key and delete it, at once; of a queue or stack the next (5.14)."""
        value = ffi.new("char[]", self._stride * self._values)
        self._key(key)
        own = ffi.new("char[]", key or 1)
        place = _address(own) if key else 0
        attributes = bytearray(struct.pack("=IIQQQ", self.fileno(), 0, place, _address(value), 0))
        result = lib.bpf_command(_TAKE, ffi.from_buffer(attributes), len(attributes))
        if result == -errno.ENOENT:
            return None
        check(result, f"cannot take from map {self.name}")
        return self._split(ffi.buffer(value)[:])

    def matches(self, value: bytes) -> bool:
        """Whether a bloom filter may hold a value (Linux 5.16)."""
        result = lib.bpf_map_lookup(self.fileno(), ffi.NULL, ffi.from_buffer(bytearray(value)), 0)
        if result == -errno.ENOENT:
            return False
        check(result, f"cannot look up in map {self.name}")
        return True

    def freeze(self) -> None:
        """Refuse updates from user space from now on (Linux 5.2)."""
        check(lib.bpf_map_freeze(self.fileno()), f"cannot freeze map {self.name}")

    def keys(self) -> Iterator[bytes]:
        """Yield the keys, in the kernel's order.

        An entry deleted by somebody else in the meantime may make the walk begin anew, so that
        keys come twice.
        """
        key = ffi.NULL
        following = ffi.new("char[]", self.key_size)
        while True:
            result = lib.bpf_map_next_key(self.fileno(), key, following)
            if result == -errno.ENOENT:
                return
            check(result, f"cannot walk through map {self.name}")
            yield ffi.buffer(following)[:]
            key = following

    def items(self) -> list[tuple[bytes, tuple[bytes, ...]]]:
        """Return all entries, each once, in the kernel's order: many with one system call.

        Each entry is consistent in itself as far as the programs write it at once.
        """
        try:
            return list(self._batches())
        except KernelError as error:
            # Which types can do batches differs by release (hashes since Linux 5.6).
            if error.errno not in {errno.EINVAL, errno.EOPNOTSUPP}:
                raise
        found = {key: self.lookup(key) for key in self.keys()}
        return [(key, value) for key, value in found.items() if value is not None]

    def clear(self) -> None:
        """Delete all entries; in an array, where that is impossible, write zeros over them."""
        if self.map_type in {MapType.ARRAY, MapType.PERCPU_ARRAY}:
            empty = bytes(self.value_size)
            for key, values in self.items():
                if any(value != empty for value in values):
                    self.update(key, empty)
        else:
            for key in list(self.keys()):
                self.delete(key)

    def _key(self, key: bytes) -> bytes | CData:
        """Return a key as the kernel takes it: none where the map has none."""
        if len(key) != self.key_size:
            raise ValueError(f"a key of map {self.name} has {self.key_size} bytes, not {len(key)}")
        return key or ffi.NULL

    def _batches(self) -> Iterator[tuple[bytes, tuple[bytes, ...]]]:
        size = self._stride * self._values
        room = max(1, min(self.max_entries, _BATCH, _BATCH_BYTES // (size + self.key_size)))
        # The cursor is a key (arrays) or a u32 (hashes).
        cursor, following = ffi.NULL, self._cursor()
        while True:
            keys = ffi.new("char[]", room * self.key_size)
            values = ffi.new("char[]", room * size)
            count = ffi.new("uint32_t *", room)
            result = lib.bpf_map_lookup_batch(self.fileno(), cursor, following, keys, values, count)
            if result == -errno.ENOSPC:  # a hash bucket comes whole or not at all
                room *= 2
                continue
            if result != -errno.ENOENT:
                check(result, f"cannot read map {self.name}")
            yield from self._entries(ffi.buffer(keys)[:], ffi.buffer(values)[:], count[0])
            if result == -errno.ENOENT:
                return
            cursor, following = following, self._cursor()

    def _cursor(self) -> CData:
        return ffi.new("char[]", max(4, self.key_size))

    def _entries(
        self, keys: bytes, values: bytes, count: int
    ) -> Iterator[tuple[bytes, tuple[bytes, ...]]]:
        size = self._stride * self._values
        for i in range(count):
            key = keys[i * self.key_size : (i + 1) * self.key_size]
            yield key, self._split(values[i * size : (i + 1) * size])
