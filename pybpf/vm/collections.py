"""Maps that are no tables of keys and values alone: tries, queues, filters, storage, targets.

Operations return 0 or a negative errno, as the kernel's do. Source: kernel/bpf/lpm_trie.c,
queue_stack_maps.c, bloom_filter.c, bpf_local_storage.c, devmap.c.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from errno import E2BIG, EEXIST, EINVAL, ENOENT, ENOSPC

from pybpf.isa.abi import MapType
from pybpf.script import MapSpec
from pybpf.vm.maps import ANY, EXIST, NOEXIST, Kept
from pybpf.vm.memory import AddressSpace, Region

_U32 = 4


class _Regions(Kept):
    """A map that makes a region for each value."""

    def _new(self, value: bytes, *, writable: bool = True) -> Region:
        name = f"a value of map {self.spec.name}"
        return self._memory.add(bytearray(value), name, writable=writable)


class LpmTrie(_Regions):
    """The longest prefix that matches: keys are a u32 of bits, and the bytes of the prefix."""

    def __init__(self, spec: MapSpec, memory: AddressSpace) -> None:
        super().__init__(spec, memory)
        self._bits = (spec.key_size - _U32) * 8
        self._nodes: dict[tuple[int, int], tuple[bytes, Region]] = {}

    def _parse(self, key: bytes) -> tuple[int, int] | None:
        """Return the length of a prefix and its bits; None for one that is too long."""
        length = int.from_bytes(key[:_U32], self._memory.byteorder)
        if length > self._bits:
            return None
        return length, int.from_bytes(key[_U32:], "big") >> (self._bits - length)

    def lookup(self, key: bytes, cpu: int) -> int:  # noqa: ARG002 - all CPUs see one trie
        """Return the address of the value of the longest prefix of a key, or 0."""
        parsed = self._parse(key)
        if parsed is None:
            return 0
        length, bits = parsed
        for shorter in range(length, -1, -1):
            node = self._nodes.get((shorter, bits >> (length - shorter)))
            if node is not None:
                return node[1].address
        return 0

    def update(self, key: bytes, value: bytes, flags: int = ANY, cpu: int = 0) -> int:  # noqa: ARG002
        """Set the value of a prefix."""
        parsed = self._parse(key)
        if flags > EXIST or parsed is None:
            return -EINVAL
        old = self._nodes.get(parsed)
        if old is not None and flags == NOEXIST:
            return -EEXIST
        if old is None and flags == EXIST:
            return -ENOENT
        if old is None and len(self._nodes) >= self.spec.max_entries:
            return -ENOSPC
        if old is not None:
            self._memory.retire(old[1])
        self._nodes[parsed] = key, self._new(value)
        return 0

    def delete(self, key: bytes) -> int:
        """Remove a prefix; ENOENT where there is none."""
        parsed = self._parse(key)
        if parsed is None:
            return -EINVAL
        node = self._nodes.pop(parsed, None)
        if node is None:
            return -ENOENT
        self._memory.retire(node[1])
        return 0

    def items(self) -> Iterator[tuple[bytes, tuple[bytes, ...]]]:
        """Yield keys and values."""
        for key, region in self._nodes.values():
            yield key, (bytes(region.data),)


class Queue(Kept):
    """A queue or a stack of values."""

    def __init__(self, spec: MapSpec, memory: AddressSpace) -> None:
        super().__init__(spec, memory)
        self._values: deque[bytes] = deque()
        self._last = spec.type is MapType.STACK

    def push(self, value: bytes, flags: int) -> int:
        """Add a value; with EXIST the oldest gives way in a full one."""
        if flags & NOEXIST or flags > EXIST:
            return -EINVAL
        if len(self._values) >= self.spec.max_entries:
            if not flags & EXIST:
                return -E2BIG
            self._memory.take(-len(self._values.popleft()), "")
        self._memory.take(len(value), f"a value of map {self.spec.name}")
        self._values.append(value)
        return 0

    def peek(self) -> bytes | None:
        """Return the value that is next, or None."""
        return self._values[-1 if self._last else 0] if self._values else None

    def pop(self) -> bytes | None:
        """Take the value that is next, or None."""
        if not self._values:
            return None
        self._memory.take(-self.spec.value_size, "")
        return self._values.pop() if self._last else self._values.popleft()

    def values(self) -> tuple[bytes, ...]:
        """Return the values, the oldest first."""
        return tuple(self._values)


class Bloom(Kept):
    """A Bloom filter without its errors: a value is in it only if it was put in.

    The kernel's hash is seeded at random, so nobody can rely on which values it takes for others.
    """

    def __init__(self, spec: MapSpec, memory: AddressSpace) -> None:
        super().__init__(spec, memory)
        self._values: set[bytes] = set()

    def push(self, value: bytes, flags: int) -> int:
        """Put a value in."""
        if flags != ANY:
            return -EINVAL
        if value not in self._values:
            self._memory.take(len(value), f"a value of map {self.spec.name}")
            self._values.add(value)
        return 0

    def contains(self, value: bytes) -> bool:
        """Whether a value was put in."""
        return value in self._values


class Storage(_Regions):
    """Storage that belongs to tasks, sockets, inodes or cgroups, known by their addresses."""

    def __init__(self, spec: MapSpec, memory: AddressSpace) -> None:
        super().__init__(spec, memory)
        self._owned: dict[int, Region] = {}

    def get(self, owner: int, initial: bytes | None) -> int:
        """Return the address of an owner's value, made of ``initial`` if there is none; or 0."""
        region = self._owned.get(owner)
        if region is None:
            if initial is None:
                return 0
            region = self._owned[owner] = self._new(initial)
        return region.address

    def drop(self, owner: int) -> int:
        """Remove an owner's value."""
        region = self._owned.pop(owner, None)
        if region is None:
            return -ENOENT
        self._memory.retire(region)
        return 0

    def values(self) -> dict[int, bytes]:
        """Return the values by owner."""
        return {owner: bytes(region.data) for owner, region in self._owned.items()}


class Targets(_Regions):
    """What packets are redirected to, or tasks compared with: only user space puts it in.

    Keys are as the map's; values are what user space wrote: a device, a CPU's queue, a socket.
    """

    def __init__(self, spec: MapSpec, memory: AddressSpace) -> None:
        super().__init__(spec, memory)
        self._targets: dict[bytes, Region] = {}

    def put(self, key: bytes, value: bytes) -> None:
        """Put a target in, from user space."""
        self._targets[key] = self._new(value, writable=False)

    def update(self, key: bytes, value: bytes, flags: int = ANY, cpu: int = 0) -> int:  # noqa: ARG002
        """Put a target in."""
        if flags > EXIST:
            return -EINVAL
        self.put(key, value)
        return 0

    def lookup(self, key: bytes, cpu: int) -> int:  # noqa: ARG002 - all CPUs see one target
        """Return the address of what user space wrote, or 0."""
        found = self._targets.get(key)
        return 0 if found is None else found.address

    def delete(self, key: bytes) -> int:
        """Remove a target."""
        return 0 if self._targets.pop(key, None) else -ENOENT

    def at(self, index: int) -> bytes | None:
        """Return the value at an index, or None."""
        found = self._targets.get(index.to_bytes(_U32, self._memory.byteorder))
        return None if found is None else bytes(found.data)

    def items(self) -> Iterator[tuple[bytes, tuple[bytes, ...]]]:
        """Yield keys and values."""
        for key, region in self._targets.items():
            yield key, (bytes(region.data),)


class UserRing(Kept):
    """A ring buffer that user space fills and programs drain."""

    def __init__(self, spec: MapSpec, memory: AddressSpace) -> None:
        super().__init__(spec, memory)
        self._samples: deque[bytes] = deque()

    def put(self, sample: bytes) -> None:
        """Add a sample, from user space."""
        self._samples.append(sample)

    def take(self) -> bytes | None:
        """Take the oldest sample, or None."""
        return self._samples.popleft() if self._samples else None
