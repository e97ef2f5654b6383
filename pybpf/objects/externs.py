"""What an object declares extern, and the running kernel, in; values, addresses and numbers out.

    .kconfig   options by name, as the types of their variables want them: bool, char, a tristate,
               integers, strings; LINUX_KERNEL_VERSION and other names of libbpf's
    .ksyms     addresses of /proc/kallsyms, or numbers of the kernel's BTF or a module's

What is weak may be missing. Sources: libbpf's documentation of __kconfig and __ksym.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pybpf.btf.abi import ENUMS
from pybpf.btf.reader import Btf, Kind
from pybpf.dataclass import dataclass
from pybpf.errors import ObjectError, TargetError
from pybpf.kernel import features
from pybpf.kernel.types import KernelTypes, Named
from pybpf.objfile.externs import Extern, ExternKind
from pybpf.objfile.object import Object
from pybpf.suggest import did_you_mean

if TYPE_CHECKING:
    from pybpf.kernel.live import LiveTarget

_TRISTATE = {"n": 0, "y": 1, "m": 2}
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_DEBIAN = re.compile(r"Debian (\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class Symbol:
    """What a name of ``.ksyms`` is in this kernel: an address, or a type; neither where missing."""

    address: int = 0
    found: Named | None = None


@dataclass(frozen=True, slots=True)
class Externs:
    """What the names stand for: the content of ``.kconfig``, and symbols by name."""

    options: bytes
    symbols: Mapping[str, Symbol]


def resolve(found: Object, types: KernelTypes, target: LiveTarget) -> Externs:
    """Return what an object's externs are here.

    Raises ObjectError for one that is not there, or is something else than it is declared, unless
    it is weak.
    """
    options = [extern for extern in found.externs if extern.kind is ExternKind.KCONFIG]
    size = max((extern.offset + extern.size for extern in options), default=0)
    content = bytearray(size)
    for extern in options:
        value = _option(found, extern)
        content[extern.offset : extern.offset + extern.size] = value
    symbols = {
        extern.name: _symbol(found, extern, types, target)
        for extern in found.externs
        if extern.kind is not ExternKind.KCONFIG
    }
    return Externs(bytes(content), symbols)


# .kconfig


def _option(found: Object, extern: Extern) -> bytes:
    """Return the bytes of the variable of an option."""
    name = extern.name
    if name.startswith("LINUX_"):
        number = _linux(name)
        if number is None and not extern.weak:
            raise _missing(found, extern, "libbpf does not know it either")
        return _integer(found, extern, number or 0)
    if not name.startswith("CONFIG_"):
        reason = f"{name} is no option of a kernel: these begin with CONFIG_"
        raise ObjectError(found.path, reason, section=".kconfig")
    config = features.config()
    text = config.get(name)
    if text is None:
        if extern.weak:
            return bytes(extern.size)
        if not config:
            raise _missing(found, extern, "/proc/config.gz or /boot/config-… would tell")
        raise _missing(
            found, extern, f"this kernel was built without it{did_you_mean(name, config)}"
        )
    return _converted(found, extern, text)


def _missing(found: Object, extern: Extern, hint: str) -> ObjectError:
    section = ".kconfig" if extern.kind is ExternKind.KCONFIG else ".ksyms"
    hints = (hint, "declare it __weak to do without")
    reason = f"{extern.name} is not in this kernel"
    return ObjectError(found.path, reason, section=section, hints=hints)


def _linux(name: str) -> int | None:
    """Return what libbpf gives variables that no build option is behind."""
    match name:
        case "LINUX_KERNEL_VERSION":
            return kernel_version(os.uname().release, os.uname().version)
        case "LINUX_HAS_BPF_COOKIE":
            return int(features.perf_link())
        case "LINUX_HAS_SYSCALL_WRAPPER":
            return int("CONFIG_ARCH_HAS_SYSCALL_WRAPPER" in features.config())
        case _:
            return None


def kernel_version(release: str, version: str) -> int:
    """Return a version as KERNEL_VERSION() makes it: three numbers of 8 bits, 255 at most.

    The release of Debian's kernels tells the ABI; what it is made of is in ``version``.
    """
    match = _DEBIAN.search(version) or _VERSION.match(release)
    if match is None:
        return 0
    major, minor, patch = (int(part or 0) for part in match.groups())
    return major << 16 | minor << 8 | min(patch, 255)


def _converted(found: Object, extern: Extern, text: str) -> bytes:
    """Return the value of an option as the type of its variable has it."""
    btf = found.btf
    assert btf is not None, "externs come from BTF"
    number = btf.skip(extern.type)
    if text.startswith('"'):
        return _string(found, extern, text, btf)
    if text in _TRISTATE:
        return _choice(found, extern, text, btf)
    if btf.kind(number) is not Kind.INT or (extern.size == 1 and _is_bool(btf, number)):
        raise _unfit(found, extern, text)
    try:
        return _integer(found, extern, int(text, 0))
    except ValueError:
        raise _unfit(found, extern, text) from None


def _is_bool(btf: Btf, number: int) -> bool:
    return btf.name(number) in {"_Bool", "bool"}


def _unfit(found: Object, extern: Extern, text: str) -> ObjectError:
    reason = f"{extern.name} is {text} in this kernel, which its variable's type does not fit"
    return ObjectError(found.path, reason, section=".kconfig")


def _string(found: Object, extern: Extern, text: str, btf: Btf) -> bytes:
    array = btf.array(btf.skip(extern.type))
    if array is None or btf.size(array[0]) != 1:
        raise _unfit(found, extern, text)
    data = text.strip('"').encode("utf-8", "surrogateescape")[: extern.size - 1]
    return data.ljust(extern.size, b"\0")


def _choice(found: Object, extern: Extern, text: str, btf: Btf) -> bytes:
    number = btf.skip(extern.type)
    if btf.kind(number) in ENUMS:
        return _integer(found, extern, _TRISTATE[text])
    if btf.kind(number) is Kind.INT and extern.size == 1:
        if not _is_bool(btf, number):
            return text.encode()
        if text != "m":
            return _integer(found, extern, _TRISTATE[text])
    raise _unfit(found, extern, text)


def _integer(found: Object, extern: Extern, value: int) -> bytes:
    try:
        return value.to_bytes(extern.size, found.byteorder, signed=value < 0)
    except OverflowError:
        raise _unfit(found, extern, str(value)) from None


# .ksyms


def _symbol(found: Object, extern: Extern, types: KernelTypes, target: LiveTarget) -> Symbol:
    match extern.kind:
        case ExternKind.KSYM:
            return _address(found, extern, target)
        case ExternKind.KFUNC:
            named = types.find(Kind.FUNC, extern.name)
        case _:
            named = types.find(Kind.VAR, extern.name)
    if named is None and not extern.weak:
        what = "function" if extern.kind is ExternKind.KFUNC else "variable"
        raise _missing(found, extern, f"no {what} of this name is in the BTF of it, or its modules")
    return Symbol(found=named)


def _address(found: Object, extern: Extern, target: LiveTarget) -> Symbol:
    try:
        return Symbol(target.symbol_address(extern.name))
    except TargetError as error:
        if extern.weak:
            return Symbol()
        raise _missing(found, extern, f"/proc/kallsyms: {error.message}") from None


def missing(symbols: Mapping[str, Symbol]) -> Iterable[str]:
    """Return the names of weak symbols that are not there."""
    return (name for name, symbol in symbols.items() if not (symbol.address or symbol.found))
