"""A program's types in; what the kernel treats specially in a structure, by its offset, out.

Locks, timers, roots of lists and trees, their nodes, and pointers that a value owns: of the values
of maps, and of structures that programs allocate. Source: btf_parse_fields, btf_find_field_one,
btf_parse_struct_metas and btf_ownership_depth in kernel/bpf/btf.c.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from pybpf.btf.reader import Kind
from pybpf.verifier.refusal import Refusal

if TYPE_CHECKING:
    from pybpf.btf.reader import Btf
    from pybpf.verifier.kerneltypes import KernelTypes

Version = tuple[int, int]


class Field(NamedTuple):
    """A special member: what it is, and its size in bytes.

    ``target``: of a root, the program's type of what it holds; of a pointer the same, or the name
    of a structure of the kernel. ``node``: of a root, where in that type the node is.
    """

    kind: str
    size: int
    target: int | str = 0
    node: int = 0


Fields = Mapping[int, Field]

POINTERS = frozenset({"kptr", "kptr_untrusted", "percpu_kptr", "uptr"})
ROOTS = frozenset({"list_head", "rb_root"})
_OWNERS = ROOTS | {"kptr", "percpu_kptr"}
NODES = frozenset({"list_node", "rb_node"})
LOCKS = frozenset({"spin_lock", "res_spin_lock"})

_OF_VALUES: Mapping[str, Version] = {
    "spin_lock": (5, 1), "timer": (5, 15), "list_head": (6, 2), "rb_root": (6, 3),
    "refcount": (6, 4), "workqueue": (6, 10), "res_spin_lock": (6, 15), "task_work": (6, 18),
}  # fmt: skip
_OF_OBJECTS: Mapping[str, Version] = {
    "spin_lock": (6, 2), "list_head": (6, 2), "list_node": (6, 2), "rb_root": (6, 3),
    "rb_node": (6, 3), "refcount": (6, 4), "res_spin_lock": (6, 15),
}  # fmt: skip
"""The release that first looks for each."""
_KINDS: Mapping[str, tuple[str, int, int]] = {
    "bpf_spin_lock": ("spin_lock", 4, 4), "bpf_res_spin_lock": ("res_spin_lock", 4, 4),
    "bpf_timer": ("timer", 16, 8), "bpf_wq": ("workqueue", 16, 8),
    "bpf_task_work": ("task_work", 8, 8), "bpf_list_head": ("list_head", 16, 8),
    "bpf_list_node": ("list_node", 24, 8), "bpf_rb_root": ("rb_root", 16, 8),
    "bpf_rb_node": ("rb_node", 32, 8), "bpf_refcount": ("refcount", 4, 4),
}  # fmt: skip
"""By the name of a structure: what it is, its size and alignment."""
_ONCE = frozenset({"spin_lock", "res_spin_lock", "timer", "workqueue", "task_work", "refcount"})
_MANY = POINTERS | ROOTS
_MOST = 11
_DEEPEST = 32
_DEEPEST_OWNER = 8
_DESTROYED: Mapping[str, tuple[Version, Version]] = {
    "task_struct": ((6, 2), (99, 0)), "cgroup": ((6, 2), (99, 0)),
    "bpf_cpumask": ((6, 3), (99, 0)), "bpf_crypto_ctx": ((6, 10), (99, 0)),
    "sk_buff": ((6, 16), (99, 0)), "prog_test_ref_kfunc": ((5, 19), (6, 13)),
    "prog_test_member": ((5, 19), (6, 13)),
}  # fmt: skip
"""Structures of the kernel that values may own: since, and until which release."""
_OTHERS = frozenset(
    {
        "cpumask", "file", "inode", "dentry", "sock", "sock_common", "tcp_sock", "socket", "path",
        "mm_struct", "vm_area_struct", "net_device", "nf_conn", "css_set", "bpf_map", "bpf_prog",
        "cred", "pid", "super_block", "request_sock", "unix_sock", "udp_sock",
    }
)  # fmt: skip
"""Some that no value may own. Where the kernel's types are not known, any other name is taken for
one of the program's own."""


def offset_of(fields: Fields, kind: str) -> int | None:
    """Return where the first special member of a kind is; None where there is none."""
    return next((off for off, one in fields.items() if one.kind == kind), None)


class _Invalid(Exception):
    """The kernel finds members that do not go together, and looks at none."""


class _Reader:
    def __init__(
        self, types: Btf, version: Version, known: Mapping[str, Version], kernel: KernelTypes | None
    ) -> None:
        self.types = types
        self.kernel = kernel
        self.version = version
        self.known = known
        self.is_value = known is _OF_VALUES
        self.pointers = version >= (5, 19) if self.is_value else version >= (6, 12)
        self.nested = version >= (6, 11)

    def of(self, number: int, *, empty_ok: bool = True) -> Fields:
        """Return the members of a structure or a section; raises _Invalid."""
        found = sorted(self._within(number, 0), key=itemgetter(0))
        if len(found) > _MOST or not (found or empty_ok):
            raise _Invalid
        fields = dict(found)
        if len(fields) < len(found):
            raise _Invalid
        if any(off + field.size > after for (off, field), (after, _) in pairwise(fields.items())):
            raise _Invalid
        kinds = [field.kind for field in fields.values()]
        if any(kinds.count(kind) > 1 for kind in _ONCE):
            raise _Invalid
        locked = "spin_lock" in kinds or "res_spin_lock" in kinds
        if set(kinds) >= LOCKS or (ROOTS & set(kinds) and not locked):
            raise _Invalid
        if set(kinds) >= NODES and "refcount" not in kinds:
            raise _Invalid
        return fields

    def _within(self, number: int, depth: int) -> Iterator[tuple[int, Field]]:
        if depth >= _DEEPEST:
            raise _Invalid
        types = self.types
        if types.kind(number) is Kind.DATASEC:
            for one in types.variables(number):
                yield from self._one(one.number, -1, one.type, one.offset, depth)
            return
        for index, (_, member) in enumerate(types.fields(number)):
            if not member.bit_offset % 8:
                yield from self._one(number, index, member.type, member.bit_offset // 8, depth)

    def _one(
        self, owner: int, index: int, number: int, off: int, depth: int
    ) -> Iterator[tuple[int, Field]]:
        types, count = self.types, 1
        if self.nested:
            for _ in range(_DEEPEST):
                array = types.array(number)
                if array is None:
                    break
                number, count = array[0], count * array[1]
        if not count:
            return
        name = types.name(number)
        row = _KINDS.get(name)
        if row is not None and self.version >= self.known.get(row[0], (99, 0)):
            kind, size, align = row
            if types.kind(number) is not Kind.STRUCT or types.size(number) != size or off % align:
                return
            made = Field(kind, size)
            if kind in ROOTS:
                made = self._root(made, owner, index)
        elif types.kind(number) is Kind.STRUCT:
            if self.nested:
                size = types.size(number) or 0
                inner = list(self._within(number, depth + 1))
                if inner and count > 1 and any(f.kind not in _MANY for _, f in inner):
                    raise _Invalid
                for n in range(count if inner else 0):
                    yield from ((off + n * size + at, field) for at, field in inner)
            return
        else:
            pointer = self.pointer(number) if self.pointers else None
            if pointer is None or off % 8:
                return
            made = pointer
        if count > 1 and made.kind not in _MANY:
            raise _Invalid
        for n in range(min(count, _MOST + 1)):
            yield off + n * made.size, made

    def pointer(self, number: int) -> Field | None:
        """Return what a pointer that is tagged is; None for another."""
        found = self._tagged(number)
        if found is None:
            return None
        kind, target = found
        name = self.types.name(target)
        known = self._is_kernels(name)
        if kind == "kptr" and known:
            since, until = _DESTROYED.get(name, ((99, 0), (99, 0)))
            if not since <= self.version < until:
                raise _Invalid
        if not known and self.version < (6, 4):
            raise _Invalid
        return Field(kind, 8, name if known else target)

    def _tagged(self, number: int) -> tuple[str, int] | None:
        """Return what a pointer is tagged as, and the structure that it points to (btf_find_kptr).

        None for a pointer without a tag, or no pointer.
        """
        types = self.types
        if types.kind(number) is Kind.VOLATILE and self.version >= (6, 10):
            number = types.target(number)
        if types.kind(number) is not Kind.PTR:
            return None
        tag = types.target(number)
        if types.kind(tag) is not Kind.TYPE_TAG:
            return None
        target = types.skip(tag)
        kind = self._tag(types.name(tag))
        tagged_twice = types.kind(types.target(tag)) is Kind.TYPE_TAG
        if kind is None or tagged_twice or types.kind(target) is not Kind.STRUCT:
            raise _Invalid
        return kind, target

    def _is_kernels(self, name: str) -> bool:
        """Whether the kernel has a structure of that name."""
        if self.kernel is not None:
            return self.kernel.struct(name) is not None
        return name in _DESTROYED or name in _OTHERS

    def is_pointer(self, number: int) -> bool:
        """Whether a type is a pointer that an object may own, if what it points to allows that."""
        try:
            return self._tagged(number) is not None
        except _Invalid:
            return False

    def _tag(self, name: str) -> str | None:
        new = self.version >= (6, 4)
        if name == ("kptr_untrusted" if new else "kptr"):
            return "kptr_untrusted"
        if name == ("kptr" if new else "kptr_ref"):
            return "kptr"
        if name == "percpu_kptr" and self.version >= (6, 7):
            return name
        if name == "uptr" and self.is_value and self.version >= (6, 13):
            return name
        return None

    def _root(self, field: Field, owner: int, index: int) -> Field:
        """Return a root with what it holds, as the tag ``contains:STRUCT:MEMBER`` says."""
        types = self.types
        tags = [
            text.removeprefix("contains:")
            for text in types.decl_tags(owner, index)
            if text.startswith("contains:")
        ]
        if len(tags) != 1:
            raise _Invalid
        name, _, member = tags[0].partition(":")
        target = types.struct(name) if name else None
        if target is None or not member:
            raise _Invalid
        wanted = "bpf_list_node" if field.kind == "list_head" else "bpf_rb_node"
        places = [found for text, found in types.fields(target) if text == member]
        if len(places) != 1 or types.name(places[0].type) != wanted or places[0].bit_offset % 64:
            raise _Invalid
        return Field(field.kind, field.size, target, places[0].bit_offset // 8)


def value_fields(
    types: Btf, number: int, version: Version, kernel: KernelTypes | None = None
) -> Fields:
    """Return the special members of a map's value; none where the kernel finds them faulty.

    ``kernel``: its types, by which pointers to its structures are told from those to a program's.
    """
    number = types.skip(number)
    if types.kind(number) not in {Kind.STRUCT, Kind.DATASEC}:
        return {}
    try:
        return _Reader(types, version, _OF_VALUES, kernel).of(number)
    except _Invalid:
        return {}


def object_fields(
    types: Btf, version: Version, kernel: KernelTypes | None = None
) -> Mapping[int, Fields]:
    """Return the special members of each structure that has some and that programs may allocate.

    ``kernel``: as in ``value_fields``. Raises Refusal where the kernel does not take such types.
    """
    special = {
        number
        for name, (kind, _, _) in _KINDS.items()
        if version >= _OF_OBJECTS.get(kind, (99, 0)) and (number := types.struct(name)) is not None
    }
    reader = _Reader(types, version, _OF_OBJECTS, kernel)
    found: dict[int, Fields] = {}
    try:
        if reader.pointers and types.has_kind(Kind.TYPE_TAG):
            special |= {n for n in range(1, len(types)) if reader.is_pointer(n)}
        if not special:
            return {}
        for number in range(1, len(types)):
            if types.kind(number) is Kind.STRUCT and any(
                member.type in special for _, member in types.fields(number)
            ):
                found[number] = reader.of(number, empty_ok=False)
        _check_owners(found, version)
    except _Invalid:
        raise Refusal("cannot load type information") from None
    return found


def _check_owners(records: Mapping[int, Fields], version: Version) -> None:
    """Raise _Invalid for a structure that may own itself, or in chains of others too long."""

    def depth(number: int, left: int) -> None:
        if not left:
            raise _Invalid
        for field in records.get(number, {}).values():
            if field.kind in _OWNERS and field.target in records:
                assert isinstance(field.target, int)
                depth(field.target, left - 1)

    for number, fields in records.items():
        depth(number, _DEEPEST_OWNER)
        # Kernels before 6.12's stable releases: what is owned, and owns, owned nothing that does.
        if version < (6, 12) and any(field.kind in NODES for field in fields.values()):
            for field in fields.values():
                inner = records.get(field.target, {}) if isinstance(field.target, int) else {}
                if field.kind in ROOTS and any(one.kind in ROOTS for one in inner.values()):
                    raise _Invalid
