"""The number or the pin of a loaded program in; all that the kernel tells of it out, as values."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from pybpf.dataclass import dataclass, field
from pybpf.errors import KernelError
from pybpf.isa.abi import ProgType
from pybpf.kernel import packed, syscall
from pybpf.kernel.programs import Prog, ProgInfo
from pybpf.kernel.syscall import Kind, ffi

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybpf._bpf_syscall import CData  # noqa: TID251 - a type, for mypy only
    from pybpf.kernel.fd import Fd

_FUNC_WORDS, _LINE_WORDS = 2, 4
_SLOT = 8
_CALL = 0x85
_LOCAL = 1
_BASE = "__bpf_call_base"


class LoadedMap(NamedTuple):
    """A map of a loaded program; sizes in bytes.

    ``key_type`` and ``value_type`` are numbers of ``btf``, that it was made with; 0 of neither.
    """

    id: int
    name: str
    type: int
    key_size: int
    value_size: int
    max_entries: int
    flags: int
    btf: bytes = b""
    key_type: int = 0
    value_type: int = 0


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded program: its instructions as the kernel rewrote them, and what they refer to.

    ``functions`` are slot and type of each, ``lines`` slot, file, text (both by their offsets among
    the names of ``btf``) and line << 10 | column. ``calls`` names by slot what is called by its
    address. Whatever the kernel hides or does not have is empty.
    """

    info: ProgInfo
    code: bytes = field(repr=False)
    maps: tuple[LoadedMap, ...]
    btf: bytes = field(repr=False)
    functions: tuple[tuple[int, int], ...]
    lines: tuple[tuple[int, int, int, int], ...] = field(repr=False)
    calls: Mapping[int, str] = field(repr=False)


def by_id(number: int) -> Loaded:
    """Return the program that the kernel gave a number; raises KernelError where there is none."""
    return loaded(syscall.object_by_id(Kind.PROG, number))


def by_pin(path: str) -> Loaded:
    """Return the program that is pinned at a path; raises KernelError where there is none."""
    held = packed.pinned(path)
    if held is None:
        raise KernelError(errno.ENOENT, f"nothing is pinned at {path}")
    # The kernel would fill in what it knows of a map, too, and it would look like a program's.
    kind = os.readlink(f"/proc/self/fd/{held.fileno()}").rpartition(":")[2]  # noqa: PTH115
    if kind != "bpf-prog":
        held.close()
        raise KernelError(errno.EINVAL, f"{path} is a {kind}, not a program")
    return loaded(held)


def loaded(fd: Fd) -> Loaded:
    """Return what the kernel tells of a program, which is closed; raises KernelError."""
    with Prog(fd, "", ProgType.UNSPEC) as prog:
        info, code = prog.info(), prog.xlated()
        raw = ffi.new("struct bpf_prog_info *")
        syscall.object_info(prog, raw)
        functions = _rows(prog, raw, "func_info", _FUNC_WORDS)
        lines = _rows(prog, raw, "line_info", _LINE_WORDS)
        types = _btf(raw.btf_id) if raw.btf_id else b""
    return Loaded(
        info, code, tuple(map(_map, info.map_ids)), types,
        tuple((row[0], row[1]) for row in functions),
        tuple((row[0], row[1], row[2], row[3]) for row in lines), _calls(code),
    )  # fmt: skip


def types_of(held: Fd) -> bytes:
    """Return the BTF that a program was loaded with, empty without; raises KernelError."""
    info = ffi.new("struct bpf_prog_info *")
    syscall.object_info(held, info)
    return _btf(info.btf_id) if info.btf_id else b""


def _rows(prog: Prog, info: CData, name: str, words: int) -> list[tuple[int, ...]]:
    """Return an array of records of so many words that the kernel has of a program."""
    count, size = getattr(info, f"nr_{name}"), getattr(info, f"{name}_rec_size")
    if not count or size < words * 4:
        return []
    array = ffi.new("uint32_t[]", count * size // 4)
    asked = {f"nr_{name}": count, f"{name}_rec_size": size, name: _address(array)}
    found = ffi.new("struct bpf_prog_info *", asked)
    syscall.object_info(prog, found)
    if not getattr(found, name):
        return []
    width = size // 4
    return [tuple(array[at * width + n] for n in range(words)) for at in range(count)]


def _address(cdata: CData) -> int:
    return int(ffi.cast("uintptr_t", cdata))


def _btf(number: int) -> bytes:
    with syscall.object_by_id(Kind.BTF, number) as fd:
        info = ffi.new("struct bpf_btf_info *")
        syscall.object_info(fd, info)
        data = ffi.new("char[]", info.btf_size)
        asked = {"btf": _address(data), "btf_size": info.btf_size}
        syscall.object_info(fd, ffi.new("struct bpf_btf_info *", asked))
        return bytes(ffi.buffer(data))


def _map(number: int) -> LoadedMap:
    with syscall.object_by_id(Kind.MAP, number) as fd:
        info = ffi.new("struct bpf_map_info *")
        syscall.object_info(fd, info)
        return LoadedMap(
            number, ffi.string(info.name).decode(errors="replace"), info.type, info.key_size,
            info.value_size, info.max_entries, info.map_flags,
            _btf(info.btf_id) if info.btf_id else b"", info.btf_key_type_id, info.btf_value_type_id,
        )  # fmt: skip


def _calls(code: bytes) -> Mapping[int, str]:
    """Return what is called by its distance from the kernel's ``__bpf_call_base``, by slot."""
    called = dict(_distances(code))
    if not any(called.values()):
        return {}
    from pybpf.kernel.live import read_kallsyms
    from pybpf.target.symbols import parse_kallsyms

    symbols = parse_kallsyms(read_kallsyms())
    base = next(iter(symbols.addresses(_BASE)), None)
    if base is None:
        return {}
    found = {slot: symbols.resolve(base + distance) for slot, distance in called.items()}
    return {slot: row[0] for slot, row in found.items() if row is not None and not row[1]}


def _distances(code: bytes) -> Iterator[tuple[int, int]]:
    for slot in range(len(code) // _SLOT):
        at = slot * _SLOT
        if code[at] == _CALL and code[at + 1] >> 4 != _LOCAL:
            yield slot, int.from_bytes(code[at + 4 : at + 8], "little", signed=True)
