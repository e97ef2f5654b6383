"""Variables of ``.struct_ops`` in; maps of operations that the kernel calls instead of its own out.

A variable's type is a structure of the kernel's: pointers to functions are programs, which are
loaded for the member they stand in, and everything else is copied. Source: bpf_struct_ops_map_alloc
and bpf_struct_ops_map_update_elem of kernel/bpf/bpf_struct_ops.c.

    value of the map: struct bpf_struct_ops_NAME { common…; struct NAME data; }
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator

from pybpf.btf.reader import Btf, Kind, Member, Variable
from pybpf.dataclass import dataclass
from pybpf.errors import KernelError, ObjectError
from pybpf.isa.abi import AttachType, MapType
from pybpf.kernel import packed
from pybpf.kernel.fd import Fd
from pybpf.kernel.maps import Map
from pybpf.kernel.types import KernelTypes, Named
from pybpf.objects.programs import BpfProgram, Place
from pybpf.objfile.code import functions
from pybpf.objfile.elf import Section
from pybpf.objfile.object import Object

_SECTIONS = (".struct_ops", ".struct_ops.link")
_LINK, _MODULE = 1 << 13, 1 << 15
"""``BPF_F_LINK`` (Linux 6.4): registered by a link; ``BPF_F_VTYPE_BTF_OBJ_FD`` (6.9)."""


@dataclass(frozen=True, slots=True)
class Operations:
    """One variable: its name, the kernel's type of it and of its map, and what it consists of.

    ``data`` is the content of the map's value but for the programs, which ``members`` names with
    their places in bytes.
    """

    name: str
    type_name: str
    own: Named
    wrapped: Named
    data: bytes
    members: tuple[tuple[int, int, str], ...]
    """Of each program: the index of its member, its place in the value, and its name."""

    def places(self) -> Iterator[tuple[str, Place]]:
        """Yield what each program is loaded for."""
        for index, _, program in self.members:
            yield program, Place(self.own.number, None, index)


def operations(found: Object, types: KernelTypes) -> tuple[Operations, ...]:
    """Return the variables of an object that are structures of operations.

    Raises ObjectError for a type that this kernel has not, or whose members are others.
    """
    made: list[Operations] = []
    for name in _SECTIONS:
        section = found.elf.section(name)
        if section is None:
            continue
        if found.btf is None:
            raise ObjectError(found.path, "its types are missing", section=name)
        made += (
            _Reader(found, found.btf, types, section, variable).operations()
            for variable in found.btf.variables(found.btf.datasec(name) or 0)
        )
    return tuple(made)


class _Reader:
    def __init__(
        self, found: Object, btf: Btf, types: KernelTypes, section: Section, variable: Variable
    ) -> None:
        self._found = found
        self._btf = btf
        self._types = types
        self._section = section
        self._variable = variable
        symbols = {s.name: s.value for s in found.elf.symbols_of(section)}
        self._start = symbols.get(variable.name, variable.offset)
        self._functions = {(f.section.index, f.start): f.name for f in functions(found.elf)}

    def _refuse(self, reason: str, *hints: str) -> ObjectError:
        text = f"{self._variable.name}: {reason}"
        return ObjectError(self._found.path, text, section=self._section.name, hints=hints)

    def operations(self) -> Operations:
        btf = self._btf
        local = btf.skip(self._variable.type)
        name = btf.name(local)
        wrapped = self._types.find(Kind.STRUCT, f"bpf_struct_ops_{name}")
        own = wrapped and self._types.find(Kind.STRUCT, name, wrapped.module)
        if own is None or wrapped is None:
            raise self._refuse(f"this kernel has no operations struct {name} for programs")
        base = wrapped.btf.member(wrapped.number, "data")
        size = wrapped.btf.size(wrapped.number)
        if base is None or size is None:
            raise self._refuse(f"struct bpf_struct_ops_{name} of this kernel has no data")
        data = bytearray(size)
        indices = {text: index for index, (text, _) in enumerate(own.btf.fields(own.number))}
        members = []
        for text, member in btf.fields(local):
            there = own.btf.member(own.number, text) if text else None
            program = self._program(member)
            if there is None:
                if program is None and not any(self._bytes(member)):
                    continue  # of a newer kernel, and not used
                raise self._refuse(f"struct {name} of this kernel has no member {text}")
            place = (base.bit_offset + there.bit_offset) // 8
            if program is not None:
                members.append((indices[text], place, program))
                continue
            value = self._bytes(member)
            if len(value) != own.btf.size(there.type) or member.bit_size or there.bit_size:
                if any(value):
                    raise self._refuse(f"member {text} of struct {name} is another in this kernel")
                continue
            data[place : place + len(value)] = value
        return Operations(self._variable.name, name, own, wrapped, bytes(data), tuple(members))

    def _bytes(self, member: Member) -> bytes:
        start = self._start + member.bit_offset // 8
        return self._section.data[start : start + (self._btf.size(member.type) or 0)]

    def _program(self, member: Member) -> str | None:
        """Return the name of the function that a member points to, None where it points to none."""
        place = self._start + member.bit_offset // 8
        for relocation in self._section.relocations:
            if relocation.offset == place and relocation.symbol.section is not None:
                addend = int.from_bytes(self._bytes(member), self._found.byteorder)
                start = relocation.symbol.value + addend
                name = self._functions.get((relocation.symbol.section, start))
                if name is None:
                    raise self._refuse("it points to what is no program")
                return name
        return None


class BpfOperations:
    """The map of one variable, which is in force from when it is attached."""

    def __init__(self, what: Operations, btf: Fd | None, types: KernelTypes) -> None:
        """Create the map; raises KernelError."""
        self.what = what
        self.linked = True
        module = what.wrapped.module
        held = types.descriptor(module) if module else None
        flags = _MODULE if module else 0

        def attempt(more: int) -> Fd:
            return packed.map_create(
                MapType.STRUCT_OPS, what.name, (4, len(what.data), 1), flags=flags | more,
                btf=btf, kernel_type=what.wrapped.number, module=held,
            )  # fmt: skip

        try:
            made = attempt(_LINK)
        except KernelError as error:
            if error.errno != errno.EINVAL:
                raise
            made = attempt(0)  # before Linux 6.4
            self.linked = False
        self.map = Map.opened(made, what.name)

    def fill(self, programs: dict[str, BpfProgram]) -> bytes:
        """Return the value with the descriptors of its programs, which are loaded."""
        data = bytearray(self.what.data)
        for _, place, name in self.what.members:
            data[place : place + 8] = programs[name].fileno().to_bytes(8, sys.byteorder)
        return bytes(data)

    def attach(self, programs: dict[str, BpfProgram]) -> Fd:
        """Register the operations; raises KernelError. Closing the result takes them back."""
        action = f"cannot register {self.what.name}, a struct {self.what.type_name}"
        try:
            self.map.update(bytes(4), self.fill(programs))
        except KernelError as error:
            error.action = action
            raise
        if not self.linked:
            return _Registered(self.map)
        return packed.link_create(self.map, 0, AttachType.STRUCT_OPS, action=action)

    def close(self) -> None:
        """Let go of the map."""
        self.map.close()


class _Registered(Fd):
    """Operations that an old kernel knows until they are deleted from their map."""

    __slots__ = ("_map",)

    def __init__(self, held: Map) -> None:
        import os

        super().__init__(os.dup(held.fileno()))
        self._map = held

    def close(self) -> None:
        """Take the operations back."""
        if not self.closed and not self._map.closed:
            self._map.delete(bytes(4))
        super().close()
