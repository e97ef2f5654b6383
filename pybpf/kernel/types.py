"""The kernel's types and those of its modules: names in; numbers, and the BTF they belong to, out.

Sources: /sys/kernel/btf, where each file is a BTF, the modules' such as go on from vmlinux's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property

from pybpf.btf.reader import Btf, Kind
from pybpf.dataclass import dataclass
from pybpf.errors import KernelError, TargetError
from pybpf.kernel import syscall
from pybpf.kernel.fd import Fd
from pybpf.kernel.syscall import ffi
from pybpf.target.kernel_types import LIVE

_FOLDER, _OWN = os.path.split(LIVE)


@dataclass(frozen=True, slots=True)
class Named:
    """A type that was found: its number, the BTF that numbers it, and the module it is of.

    ``module`` is empty for what belongs to the kernel itself.
    """

    number: int
    btf: Btf
    module: str = ""


class KernelTypes:
    """What the running kernel tells of its types; each file is read when it is first needed.

    Closing it closes the descriptors of modules that were asked for.
    """

    def __init__(self) -> None:
        self._modules: dict[str, Btf] = {}
        self._descriptors: dict[str, Fd] = {}

    @cached_property
    def own(self) -> Btf:
        """The types of the kernel itself; raises KernelError where it has none to tell."""
        return Btf(_read(_OWN))

    def find(self, kind: Kind, name: str, module: str | None = None) -> Named | None:
        """Return the first type of a kind that has a name: the kernel's own, then modules'.

        ``module`` asks for one of that module only.
        """
        if module in {None, "", _OWN}:
            if (number := self.own.index.find(kind, name)) is not None:
                return Named(number, self.own)
            if module is not None:
                return None
        for each in self._module_names() if module is None else (module,):
            if (found := self._in_module(each, kind, name)) is not None:
                return found
        return None

    def modules(self) -> Iterator[Btf]:
        """Yield the types of all modules that tell theirs."""
        for name in self._module_names():
            if (found := self._module(name)) is not None:
                yield found

    def _module_names(self) -> tuple[str, ...]:
        try:
            names = os.listdir(_FOLDER)  # noqa: PTH208 - pathlib loads slowly
        except OSError:
            return ()
        return tuple(sorted(name for name in names if name != _OWN))

    def _in_module(self, module: str, kind: Kind, name: str) -> Named | None:
        """Return a type of a module's own, and keep that module's types."""
        btf = self._module(module, name)
        number = None if btf is None else btf.index.find(kind, name)
        if btf is None or number is None or number < btf.first:
            return None
        self._modules[module] = btf
        return Named(number, btf, module)

    def _module(self, module: str, name: str = "") -> Btf | None:
        """Return the types of a module, if it is loaded, tells of them and ``name`` is in them.

        They are not kept: each takes as much memory as the kernel's own.
        """
        if module in self._modules:
            return self._modules[module]
        try:
            data = b"" if "/" in module else _read(module)
            if name.encode() + b"\0" not in data:
                return None
            return Btf(data, base=self.own)
        except (KernelError, TargetError):
            return None

    def descriptor(self, module: str) -> Fd:
        """Return the BTF object of a module, which is closed with this; raises KernelError."""
        if module not in self._descriptors:
            self._descriptors[module] = _opened(module)
        return self._descriptors[module]

    def close(self) -> None:
        """Close the descriptors of modules."""
        while self._descriptors:
            self._descriptors.popitem()[1].close()


def _read(name: str) -> bytes:
    path = f"{_FOLDER}/{name}"
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib loads slowly
            return file.read()
    except OSError as error:
        hint = "a kernel tells of its types if it is built with CONFIG_DEBUG_INFO_BTF"
        raise KernelError(error.errno or 0, f"cannot read {path}", hints=(hint,)) from None


def _opened(module: str) -> Fd:
    """Return the kernel's BTF object that is called like the module."""
    for number in syscall.object_ids(syscall.Kind.BTF):
        try:
            found = syscall.object_by_id(syscall.Kind.BTF, number)
        except KernelError:  # gone in the meantime
            continue
        name = ffi.new("char[]", 64)
        info = ffi.new("struct bpf_btf_info *")
        info.name, info.name_len = int(ffi.cast("uintptr_t", name)), 64
        syscall.object_info(found, info)
        if info.kernel_btf and ffi.string(name).decode() == module:
            return found
        found.close()
    raise KernelError(2, f"cannot find the types of module {module}")
