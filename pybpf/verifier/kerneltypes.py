"""A kernel's BTF, read when first asked for, in; what an access to its structures finds, out.

Structures, members and pointers go by their numbers in that BTF. Source: btf_struct_walk,
btf_struct_ids_match and btf_nested_type_is_trusted in kernel/bpf/btf.c.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pybpf.btf.reader import MODIFIERS, Btf, Kind, Member
from pybpf.verifier.kinds import BTF_ID, MEM, PERCPU, RCU, RDONLY, UNTRUSTED, USER
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.state import Reg

if TYPE_CHECKING:
    from pybpf.verifier.env import Env

_EACCES = 13
_NAMELESS = "(anon)"
_DEEPEST = 64
"""No kernel's structures lie within each other so often; types that do are damaged."""
_TAGS = {"user": USER, "percpu": PERCPU, "rcu": RCU}

_SOCK_STRUCTS = frozenset(
    {
        "sock_common", "sock", "inet_sock", "inet_connection_sock", "tcp_sock", "tcp6_sock",
        "udp_sock", "udp6_sock", "unix_sock", "tcp_timewait_sock", "tcp_request_sock",
        "request_sock", "mptcp_sock",
    }
)  # fmt: skip
"""Structures of the kernel that begin with a ``struct sock_common``."""

Version = tuple[int, int]


def types_of(file: str | None, *, live: bool) -> KernelTypes | None:
    """Return the types in a file, or else those of the running kernel where ``live`` asks for it.

    They are read when they are needed, which raises TargetError. None: neither is asked for, or the
    running kernel has none.
    """
    from pybpf.target import kernel_types

    if file is not None:
        return KernelTypes(lambda: kernel_types.read(file))
    if not live or not Path(kernel_types.LIVE).exists():
        return None
    return KernelTypes(lambda: kernel_types.read(kernel_types.LIVE), kernel_types.symbols)


def says_nothing(name: str) -> Unmodelled:
    """Return why nothing is known of a structure that the kernel's types do not have."""
    return Unmodelled(f"a {name}, of which this kernel's types say nothing")


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
    """The types of the kernel that a model is of; ``load`` gives them, once and when needed.

    ``symbols`` gives its /proc/kallsyms, where that is known.
    """

    def __init__(self, load: Callable[[], Btf], symbols: Callable[[], str] | None = None) -> None:
        self._load = load
        self._symbols = symbols
        self._named: dict[tuple[Kind, str], int | None] = {}
        self._fields: dict[int, tuple[tuple[str, Member], ...]] = {}

    @cached_property
    def btf(self) -> Btf:
        """The types themselves."""
        return self._load()

    def address(self, symbol: str) -> int | None:
        """Return the address of a symbol, 0 where the kernel has none such; None: not known."""
        if self._symbols is None:
            return None
        row = rf"^([0-9a-f]+) \S {re.escape(symbol)}$"
        found = re.search(row, self._symbols(), re.MULTILINE)
        return int(found[1], 16) if found else 0

    def find(self, kind: Kind, name: str) -> int | None:
        """Return the first type of a kind that has a name, or None."""
        key = kind, name
        if key not in self._named:
            self._named[key] = self.btf.find(kind, name)
        return self._named[key]

    def struct(self, name: str) -> int | None:
        """Return the structure of a name, or None."""
        return self.find(Kind.STRUCT, name)

    def fields(self, number: int) -> tuple[tuple[str, Member], ...]:
        """Return the members of a structure or union."""
        found = self._fields.get(number)
        if found is None:
            found = self._fields[number] = self.btf.fields(number)
        return found

    @cached_property
    def per_cpu(self) -> frozenset[str]:
        """The names of the variables of which each processor has its own."""
        section = self.btf.datasec(".data..percpu") or 0
        return frozenset(variable.name for variable in self.btf.variables(section))

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

    def point(self, reg: Reg, struct: int) -> None:
        """Let a register point to a structure: by its name, and where that is none, its number."""
        name = self.btf.name(struct)
        reg.extra = name
        reg.btf = 0 if name and self.struct(name) == struct else struct

    def variable(self, number: int) -> Reg:
        """Return a pointer to a variable of a type: to a structure, or to memory to be read."""
        if self.btf.is_aggregate(number):
            made = Reg(BTF_ID)
            self.point(made, number)
            return made
        made = Reg(MEM | RDONLY)
        made.size = self.btf.size(number) or 0
        return made

    def struct_of(self, reg: Reg) -> int:
        """Return the structure that a register points to, 0 where the kernel has none such."""
        if reg.btf:
            return reg.btf
        return (isinstance(reg.extra, str) and self.struct(reg.extra)) or 0

    def is_struct_pointer(self, number: int) -> bool:
        """Whether a type is a pointer to a structure or union."""
        btf = self.btf
        return btf.kind(number) is Kind.PTR and btf.is_aggregate(btf.pointed(number))

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

    def contains(self, struct: int, off: int, wanted: int, version: Version) -> bool:
        """Whether a structure of type ``wanted`` begins at ``off`` of another, or is that."""
        if off == 0 and struct == wanted:
            return True
        flags = 0
        for _ in range(_DEEPEST):
            try:
                step = self._step(struct, off, 1, flags, version)
            except Refusal:
                return False
            if isinstance(step, Found):
                return False
            struct, off, flags = step
            if off == 0 and struct == wanted:
                return True
        return False

    def is_listed(self, struct: int, found: Found, suffix: str) -> bool:
        """Whether the kernel lists a pointer among a structure's safe ones (BTF_TYPE_SAFE_*)."""
        btf = self.btf
        listed = self.find(btf.kind(struct), btf.name(struct) + suffix)
        if listed is None:
            return False
        return any(
            name == found.field and btf.kind(member.type) is Kind.PTR
            and btf.pointed(member.type) == found.struct
            for name, member in self.fields(listed)
        )  # fmt: skip

    def _step(
        self, struct: int, off: int, size: int, flags: int, version: Version
    ) -> Found | tuple[int, int, int]:
        """Return what is found in a structure, or the structure within it in which to go on."""
        btf = self.btf
        struct = btf.skip(struct)
        name = btf.name(struct) or _NAMELESS
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
        name = btf.name(struct) or _NAMELESS
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


def is_struct(env: Env, reg: Reg, wanted: str, *, strict: bool) -> bool:
    """Whether a register points to a structure, or to one that begins so (btf_struct_ids_match).

    ``strict``: only to that itself.
    """
    off = reg.off + reg.val.smin
    name = reg.extra if isinstance(reg.extra, str) else ""
    if name == wanted and not off and not reg.btf:
        return True
    if strict:
        return False
    if env.known_types is None and wanted == "sock_common" and name in _SOCK_STRUCTS and not off:
        return True
    types = env.types
    number = types.struct(wanted)
    if number is None:
        raise says_nothing(wanted)
    return types.contains(types.struct_of(reg), off, number, env.rules.version)
