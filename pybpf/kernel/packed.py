"""Commands of bpf(2) that tracing does not need: values in, packed as the kernel's structures.

What comes out is a descriptor, or KernelError. Layouts are those of ``union bpf_attr`` in
include/uapi/linux/bpf.h; a field that is 0 may be unknown to an older kernel.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Sequence
from enum import IntEnum

from pybpf.isa.abi import AttachType
from pybpf.kernel.fd import Fd
from pybpf.kernel.syscall import check, ffi, lib, object_name

_MAP = struct.Struct("=7I16s5IQiI")
_PROG = struct.Struct("=IIQQIIQII16s4IQIIQ4IQ")


class Command(IntEnum):
    """``enum bpf_cmd``."""

    MAP_CREATE = 0
    PROG_LOAD = 5
    OBJ_PIN = 6
    OBJ_GET = 7
    PROG_ATTACH = 8
    PROG_DETACH = 9
    LINK_CREATE = 28
    ITER_CREATE = 33


def command(which: Command, attributes: bytes) -> int:
    """Give a command to the kernel; return what it returns, or -errno."""
    own = bytearray(attributes)  # the kernel writes to some
    return lib.bpf_command(which, ffi.from_buffer(own), len(own))


def address(data: bytes | bytearray) -> int:
    """Return where bytes are in memory, for a structure; they must outlive its use."""
    return int(ffi.cast("uintptr_t", ffi.from_buffer(memoryview(data))))


def map_create(
    map_type: int,
    name: str,
    sizes: tuple[int, int, int],
    *,
    flags: int = 0,
    extra: int = 0,
    numa_node: int = 0,
    inner: Fd | None = None,
    btf: Fd | None = None,
    types: tuple[int, int] = (0, 0),
    kernel_type: int = 0,
    module: Fd | None = None,
) -> Fd:
    """Create a map of any kind: ``sizes`` are of a key, of a value, and how many entries it has.

    ``kernel_type`` is the number of the value's type in the kernel's BTF, or that of ``module``.
    """
    attributes = _MAP.pack(
        map_type, *sizes, flags, inner.fileno() if inner else 0, numa_node, map_name(name), 0,
        btf.fileno() if btf else 0, *types, kernel_type, extra,
        module.fileno() if module else 0, 0,
    )  # fmt: skip
    made = command(Command.MAP_CREATE, attributes)
    return Fd(check(made, f"cannot create the map {name}"))


def map_name(name: str) -> bytes:
    """Return a name as the kernel takes it for an object: dots stay (Linux 5.6)."""
    kept = (c if c.isascii() and (c.isalnum() or c in "_.") else "_" for c in name)
    return "".join(kept)[:15].encode()


def try_load(
    insns: bytes,
    prog_type: int,
    name: str,
    *,
    licence: str,
    expected_attach_type: int,
    flags: int,
    btf: Fd | None,
    func_info: bytes,
    line_info: bytes,
    attach_btf_id: int,
    attach_fd: Fd | None,
    kern_version: int,
    log: bytearray | None,
    log_level: int,
    modules: Sequence[Fd],
) -> int:
    """Load a program as ``syscall.try_load`` does.

    Calls of kfuncs count ``modules``, the BTF of kernel modules, from 1 on.
    """
    text = licence.encode() + b"\0"
    # Its first entry is not read: 0 is the kernel itself.
    array = struct.pack(f"={1 + len(modules)}i", 0, *(module.fileno() for module in modules))
    attributes = _PROG.pack(
        prog_type, len(insns) // 8, address(insns), address(text),
        log_level if log else 0, len(log) if log else 0, address(log) if log else 0,
        kern_version, flags, object_name(name), 0, expected_attach_type,
        btf.fileno() if btf else 0, 8 if func_info else 0, address(func_info) if func_info else 0,
        len(func_info) // 8, 16 if line_info else 0, address(line_info) if line_info else 0,
        len(line_info) // 16, attach_btf_id, attach_fd.fileno() if attach_fd else 0, 0,
        address(array) if modules else 0,
    )  # fmt: skip
    return command(Command.PROG_LOAD, attributes)


def link_create(
    program: Fd,
    target: int,
    attach_type: AttachType,
    *,
    action: str,
    flags: int = 0,
    rest: bytes = b"",
) -> Fd:
    """Attach by a link that ends with its descriptor: ``target`` is one, or a network interface.

    ``rest`` is what the kind of link adds to the structure; ``action`` what errors call it.
    """
    head = struct.pack("=IIII", program.fileno(), target, attach_type, flags)
    return Fd(check(command(Command.LINK_CREATE, head + rest), action))


def prog_attach(program: Fd, target: Fd, attach_type: AttachType) -> None:
    """Attach to a map of sockets, which ends with the map."""
    attributes = struct.pack("=IIIII", target.fileno(), program.fileno(), attach_type, 0, 0)
    check(command(Command.PROG_ATTACH, attributes), "cannot attach to the map")


def iter_create(link: Fd) -> Fd:
    """Return a file whose text is what the program of an iterator writes (Linux 5.8)."""
    made = command(Command.ITER_CREATE, struct.pack("=II", link.fileno(), 0))
    return Fd(check(made, "cannot read the iterator"))


def pin(held: Fd, path: str) -> None:
    """Give an object a name in a bpf file system, which holds it from now on."""
    name = os.fsencode(path) + b"\0"
    attributes = struct.pack("=QII", address(name), held.fileno(), 0)
    check(command(Command.OBJ_PIN, attributes), f"cannot pin {path}")


def pinned(path: str) -> Fd | None:
    """Return the object that is pinned at a path; None where there is none."""
    name = os.fsencode(path) + b"\0"
    found = command(Command.OBJ_GET, struct.pack("=QII", address(name), 0, 0))
    if found == -errno.ENOENT:
        return None
    return Fd(check(found, f"cannot open what is pinned at {path}"))
