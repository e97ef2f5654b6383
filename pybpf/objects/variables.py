"""A section of data and its types in; its variables as attributes, before and after loading, out.

Before loading they are the content that the section's map is created with. Afterwards they are that
map's memory, which programs share: where the kernel lets it be mapped (Linux 5.5) a variable is
written without touching its neighbours.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

from pybpf.btf.reader import Btf, Variable
from pybpf.btf.values import Codec
from pybpf.errors import ObjectError, TargetError, ValueMismatch
from pybpf.isa.abi import MapFlag
from pybpf.objects.table import BpfMap
from pybpf.objfile.maps import Origin
from pybpf.suggest import did_you_mean

_FROZEN = frozenset({Origin.RODATA, Origin.KCONFIG})
_OWN = ("_table", "_btf", "_variables", "_elsewhere", "_memory")


class Section:
    """The variables of a section: ``section.counter`` reads one, ``section.counter = 5`` writes it.

    ``section["counter"]`` does the same, and is for any name, such as clang's of what is static in
    a function (``section["function.counter"]``).
    A variable that is not there is an AttributeError; so is one of constant data that is written
    after loading. Values that a type cannot hold are ValueMismatch.
    """

    __slots__ = _OWN

    def __init__(self, table: BpfMap, btf: Btf | None) -> None:
        self._table = table
        self._btf = btf
        self._memory: mmap.mmap | None = None
        self._elsewhere: dict[str, str] = {}
        found = btf.variables(table.spec.value_type) if btf is not None else ()
        self._variables = {variable.name: variable for variable in found}

    def neighbours(self, elsewhere: dict[str, str]) -> None:
        """Be told which variables are in which sections, to say so in messages."""
        self._elsewhere = elsewhere

    def __dir__(self) -> list[str]:
        return sorted(self._variables)

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __contains__(self, name: object) -> bool:
        return name in self._variables

    def _variable(self, name: str) -> Variable:
        found = self._variables.get(name)
        if found is None:
            section = self._table.name
            where = self._elsewhere.get(name)
            more = f": it is in {where}" if where else did_you_mean(name, self._variables)
            raise AttributeError(f"no variable {name} in {section}{more}")
        return found

    def _codec(self, variable: Variable) -> Codec:
        """Return what decodes a variable; raises TargetError where it lies beyond its section."""
        assert self._btf is not None, "variables come from BTF"
        codec = Codec(self._btf, variable.type)
        if variable.offset + codec.size > self._table.spec.value_size:
            raise TargetError(f"{variable.name} lies behind the end of {self._table.name}")
        return codec

    def __getitem__(self, name: str) -> Any:
        try:
            variable = self._variable(name)
        except AttributeError as error:
            raise KeyError(str(error)) from None
        codec = self._codec(variable)
        return codec.decode(self._read(variable.offset, codec.size))

    def __getattr__(self, name: str) -> Any:
        if name in _OWN:  # before they are set, as when it is copied
            raise AttributeError(name)
        self._variable(name)
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            object.__setattr__(self, name, value)
        else:
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        variable = self._variable(name)
        try:
            data = self._codec(variable).encode(value)
        except ValueMismatch as error:
            raise ValueMismatch(f"{name}{error.path}", error.reason) from None
        if self._table.loaded and self._table.spec.origin in _FROZEN:
            raise AttributeError(f"{name} is constant once it is loaded")
        self._write(variable.offset, data)

    def _read(self, offset: int, size: int) -> bytes:
        if not self._table.loaded:
            return (self._table.spec.initial or b"")[offset : offset + size]
        if (memory := self._mapped()) is not None:
            return memory[offset : offset + size]
        found = self._table.kernel.lookup(bytes(4)) or (b"",)
        return found[0][offset : offset + size]

    def _write(self, offset: int, data: bytes) -> None:
        if not self._table.loaded:
            whole = bytearray(self._table.spec.initial or b"")
            whole[offset : offset + len(data)] = data
            self._table.set_initial(bytes(whole))
        elif (memory := self._mapped()) is not None:
            memory[offset : offset + len(data)] = data
        else:
            (whole_now,) = self._table.kernel.lookup(bytes(4)) or (b"",)
            changed = bytearray(whole_now)
            changed[offset : offset + len(data)] = data
            self._table.kernel.update(bytes(4), bytes(changed))

    def _mapped(self) -> mmap.mmap | None:
        """Return the memory of the map; None where it cannot be mapped."""
        kernel = self._table.kernel
        if self._memory is None and kernel.flags & MapFlag.MMAPABLE:
            frozen = self._table.spec.origin in _FROZEN
            access = mmap.PROT_READ if frozen else mmap.PROT_READ | mmap.PROT_WRITE
            try:
                self._memory = mmap.mmap(
                    kernel.fileno(), kernel.value_size, mmap.MAP_SHARED, access
                )
            except (OSError, ValueError):
                return None
        return self._memory

    def parse(self, name: str, text: str) -> Any:
        """Return what a text gives a variable: a number, an enumerator, true or false, a string.

        Raises ObjectError where there is no such variable, or the text is no value of its type.
        """
        try:
            variable = self._variable(name)
            codec = self._codec(variable)
        except (AttributeError, TargetError) as error:
            raise ObjectError("", str(error)) from None
        reason = ""
        for value in _readings(text):
            try:
                codec.encode(value)
            except ValueMismatch as mismatch:
                reason = mismatch.reason
            else:
                return value
        raise ObjectError("", f"no value of {name}: {reason}")

    def close(self) -> None:
        """Let go of the map's memory."""
        if self._memory is not None:
            self._memory.close()
        object.__setattr__(self, "_memory", None)

    def __repr__(self) -> str:
        return f"Section({self._table.name!r}: {', '.join(self._variables)})"


def _readings(text: str) -> Iterator[object]:
    """Yield what a text may mean, the most likely last: its error is the one that is told."""
    if text in {"true", "false"}:
        yield text == "true"
    number: int | float | None = None
    for convert in (lambda: int(text, 0), lambda: float(text)):
        try:
            number = convert()
            break
        except ValueError:
            continue
    yield text
    if number is not None:
        yield number
