"""A kernel's BTF, read when first asked for, in; what an access to its structures finds, out.

Structures, members and pointers go by their numbers in that BTF. Source: btf_struct_walk,
btf_struct_ids_match and btf_nested_type_is_trusted in kernel/bpf/btf.c.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from pybpf.btf.reader import MODIFIERS, Btf, Kind, Member
from pybpf.verifier.kinds import PERCPU, RCU, UNTRUSTED, USER
from pybpf.verifier.refusal import Refusal, Unmodelled

_EACCES = 13
_DEEPEST = 64
"""No kernel's structures lie within each other so often; types that do are damaged."""
_TAGS = {"user": USER, "percpu": PERCPU, "rcu": RCU}

Version = tuple[int, int]


class Found(NamedTuple):
    """What an access reads: a number, or a pointer.

    ``struct``: what a pointer points to, 0 for a number or a pointer to no structure. ``flags``:
    those of ``kinds`` that its tags and unions on the way to it say. ``pointer``: it is one.
    """

    struct: int = 0
    flags: int = 0
    field: str = ""
    pointer: bool = False


class KernelTypes:
    """The types of the kernel that a model is of; ``load`` gives them, once and when needed."""

    def __init__(self, load: Callable[[], Btf]) -> None:
        self._load = load
        self._fields: dict[int, tuple[tuple[str, Member], ...]] = {}

    @cached_property
    def btf(self) -> Btf:
        """The types themselves."""
        return self._load()

    def fields(self, number: int) -> tuple[tuple[str, Member], ...]:
        """Return the members of a structure or union."""
        found = self._fields.get(number)
        if found is None:
            found = self._fields[number] = self.btf.fields(number)
        return found

    def pointed(self, number: int) -> tuple[int, int]:
        """Return the type that a pointer points to, and the flags that its tags say."""
        btf, flags = self.btf, 0
        number = btf.target(number)
        for _ in range(_DEEPEST):
            kind = btf.kind(number)
            if kind not in MODIFIERS:
                break
            if kind is Kind.TYPE_TAG:
                flags |= _TAGS.get(btf.name(number), 0)
            number = btf.target(number)
        return number, flags

    def walk(self, struct: int, off: int, size: int, version: Version) -> Found:
        """Return what ``size`` bytes at ``off`` of a structure are.

        Raises Refusal, with the kernel's message, where they are not one member's.
        """
        flags = 0
        for _ in range(_DEEPEST):
            step = self._step(struct, off, size, flags, version)
            if isinstance(step, Found):
                return step
            struct, off, flags = step
        raise Unmodelled("structures that lie in each other too deeply")

    def _step(
        self, struct: int, off: int, size: int, flags: int, version: Version
    ) -> Found | tuple[int, int, int]:
        """Return what is found in a structure, or the structure within it in which to go on."""
        btf = self.btf
        struct = btf.skip(struct)
        name = btf.name(struct)
        if not btf.is_aggregate(struct):
            raise Refusal(f"Type '{name}' is not a struct")
        fields = self.fields(struct)
        if btf.kind(struct) is Kind.UNION and len(fields) != 1 and version >= (6, 4):
            flags |= UNTRUSTED
        if off + size > (btf.size(struct) or 0):
            return self._beyond(struct, off, size, flags, version)
        for text, member in fields:
            start = member.bit_offset // 8
            if off + size <= start:
                break
            if member.bit_size:
                end = (member.bit_offset + member.bit_size + 7) // 8
                if off <= start and end <= off + size:
                    return Found()
                continue
            if off < start:
                break
            found = self._member(name, text, member, off, size, flags, version)
            if found is not None:
                return found
        raise Refusal(f"struct {name} doesn't have field at offset {off}")

    def _beyond(
        self, struct: int, off: int, size: int, flags: int, version: Version
    ) -> Found | tuple[int, int, int]:
        """Return what is behind a structure: elements of an array without size that ends it."""
        btf, fields = self.btf, self.fields(struct)
        last = btf.array(btf.skip(fields[-1][1].type)) if fields else None
        start = fields[-1][1].bit_offset // 8 if fields else 0
        if last is not None and last[1] == 0 and off >= start:
            element = btf.skip(last[0])
            if btf.kind(element) is Kind.INT and version >= (6, 8):
                return Found()
            if btf.is_aggregate(element) and btf.size(element):
                return element, (off - start) % (btf.size(element) or 1), flags
        name = btf.name(struct)
        raise Refusal(f"access beyond struct {name} at off {off} size {size}", errno=_EACCES)

    def _member(
        self, struct: str, name: str, member: Member, off: int, size: int, flags: int,
        version: Version,
    ) -> Found | tuple[int, int, int] | None:  # fmt: skip
        """Return the same of one member; None where the access is behind it."""
        btf = self.btf
        start, number = member.bit_offset // 8, btf.skip(member.type)
        whole = btf.size(number)
        if whole is None:
            raise Refusal(f"field {name} doesn't have size", errno=14)
        end = start + whole
        if off >= end:
            return None
        while (array := btf.array(number)) is not None:
            number = btf.skip(array[0])
        each = btf.size(number) or 1
        start += (off - start) // each * each
        if btf.is_aggregate(number):
            return number, off - start, flags
        if btf.kind(number) is Kind.PTR:
            if each != size or off != start:
                raise Refusal(
                    f"cannot access ptr member {name} with moff {start} in struct {struct} with "
                    f"off {off} size {size}",
                    errno=_EACCES,
                )
            target, tags = self.pointed(number)
            if btf.is_aggregate(target):
                return Found(target, flags | tags, name, pointer=True)
            if version >= (6, 17):
                return Found(field=name, pointer=True)
        if off + size > end and not flags & UNTRUSTED:
            raise Refusal(
                f"access beyond the end of member {name} (mend:{end}) in struct {struct} with off "
                f"{off} size {size}",
                errno=_EACCES,
            )
        return Found()
