"""Programs in the kernel: encoded instructions in; a loaded program, or the reason why not, out."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pybpf.dataclass import dataclass
from pybpf.errors import KernelError
from pybpf.isa.abi import ProgType
from pybpf.kernel import syscall
from pybpf.kernel.fd import Fd
from pybpf.kernel.syscall import TestRun, ffi

if TYPE_CHECKING:
    from pybpf._bpf_syscall import CData  # noqa: TID251 - a type, for mypy only

# The kernel takes log buffers of up to 16 MiB in all its releases.
_LOG_SIZES = (1 << 16, 1 << 20, (1 << 24) - 1)
_RETRIES = 5
_RUN_ON_CPU = 1


@dataclass(frozen=True, slots=True)
class DebugInfo:
    """What lets the kernel quote the source: loaded BTF, and records that refer to it.

    ``func_info`` has 8 bytes for each subprogram, ``line_info`` 16 bytes for each line; instruction
    offsets in them count slots of 8 bytes (struct bpf_func_info, struct bpf_line_info).
    """

    btf: Fd
    func_info: bytes = b""
    line_info: bytes = b""


@dataclass(frozen=True, slots=True)
class ProgInfo:
    """What the kernel says of a loaded program; run times are 0 unless statistics are enabled."""

    id: int
    name: str
    prog_type: ProgType
    tag: bytes
    map_ids: tuple[int, ...]
    run_time_ns: int
    run_cnt: int
    recursion_misses: int
    verified_insns: int
    xlated_size: int
    jited_size: int


class Prog(Fd):
    """A loaded program. Closed, it lives on while it is attached."""

    __slots__ = ("name", "prog_type")

    def __init__(self, fd: Fd, name: str, prog_type: ProgType) -> None:
        super().__init__(fd.detach())
        self.name = name
        self.prog_type = prog_type

    def __repr__(self) -> str:
        return f"Prog({self.prog_type.name}, {self.name!r})"

    def test_run(
        self, ctx: bytes = b"", data: bytes = b"", *, repeat: int = 0, cpu: int | None = None
    ) -> TestRun:
        """Run the program once here and now; ``cpu`` chooses where, for RAW_TRACEPOINT only.

        Raises KernelError: EINVAL or EOPNOTSUPP where its type cannot be run so.
        """
        return syscall.prog_test_run(
            self,
            ctx=ctx,
            data=data,
            repeat=repeat,
            flags=0 if cpu is None else _RUN_ON_CPU,
            cpu=cpu or 0,
        )

    def info(self) -> ProgInfo:
        """Ask the kernel about the program."""
        info = ffi.new("struct bpf_prog_info *")
        syscall.object_info(self, info)
        xlated_size, jited_size = info.xlated_prog_len, info.jited_prog_len
        ids = ffi.new("uint32_t[]", info.nr_map_ids)
        info = ffi.new("struct bpf_prog_info *", {"nr_map_ids": len(ids), "map_ids": _address(ids)})
        syscall.object_info(self, info)
        return ProgInfo(
            info.id,
            ffi.string(info.name).decode(),
            ProgType(info.type),
            bytes(info.tag),
            tuple(ids),
            info.run_time_ns,
            info.run_cnt,
            info.recursion_misses,
            info.verified_insns,
            xlated_size,
            jited_size,
        )

    def xlated(self) -> bytes:
        """Return the instructions as the kernel rewrote them (empty where it hides them)."""
        return self._code("xlated_prog_len", "xlated_prog_insns")

    def jited(self) -> bytes:
        """Return the machine code (empty where there is none or the kernel hides it)."""
        return self._code("jited_prog_len", "jited_prog_insns")

    def _code(self, length: str, pointer: str) -> bytes:
        info = ffi.new("struct bpf_prog_info *")
        syscall.object_info(self, info)
        size = getattr(info, length)
        if not size:
            return b""
        code = ffi.new("char[]", size)
        info = ffi.new("struct bpf_prog_info *", {length: size, pointer: _address(code)})
        syscall.object_info(self, info)
        return ffi.buffer(code)[:] if getattr(info, pointer) else b""


def _address(cdata: CData) -> int:
    return int(ffi.cast("uintptr_t", cdata))


def load_btf(blob: bytes) -> Fd:
    """Load a BTF blob; raises KernelError with the kernel's log."""
    try:
        return syscall.btf_load(blob)
    except KernelError as error:
        log = bytearray(_LOG_SIZES[0])
        try:
            return syscall.btf_load(blob, log)
        except KernelError:
            raise _explained(error, _text(log)) from None


def load(
    insns: bytes,
    prog_type: ProgType,
    name: str = "",
    *,
    licence: str = "GPL",
    expected_attach_type: int | None = None,
    debug: DebugInfo | None = None,
    flags: int = 0,
    attach_btf_id: int = 0,
    attach_fd: Fd | None = None,
    kern_version: int = 0,
    modules: Sequence[Fd] = (),
) -> Prog:
    """Load encoded instructions whose map references are file descriptors.

    What it is attached to, and ``modules``, are as in ``syscall.try_load``.

    Raises KernelError with the verifier's log and, as hints, the lines of it that say why. Writing
    the log takes time, so it is asked for by a second load, when the first has failed.
    """

    def attempt(log: bytearray | None) -> Fd:
        return syscall.prog_load(
            insns,
            prog_type,
            name,
            licence=licence,
            expected_attach_type=expected_attach_type,
            flags=flags,
            btf=debug.btf if debug else None,
            func_info=debug.func_info if debug else b"",
            line_info=debug.line_info if debug else b"",
            attach_btf_id=attach_btf_id,
            attach_fd=attach_fd,
            kern_version=kern_version,
            modules=modules,
            log=log,
        )

    for remaining in reversed(range(_RETRIES)):
        try:
            return Prog(attempt(None), name, prog_type)
        except KernelError as error:
            # The verifier gives up with EAGAIN when a signal arrives.
            if error.errno == errno.EAGAIN and remaining:
                continue
            failure = error
            break
    for size in _LOG_SIZES:
        log = bytearray(size)
        try:
            return Prog(attempt(log), name, prog_type)
        except KernelError as error:
            if error.errno != errno.ENOSPC or size == _LOG_SIZES[-1]:
                raise _explained(failure, _text(log)) from None
    raise failure


def _text(log: bytearray) -> str:
    return log.partition(b"\0")[0].decode(errors="replace")


def _explained(error: KernelError, log: str) -> KernelError:
    from pybpf.kernel.rejection import verifier_reason

    reason = verifier_reason(log)
    hints = tuple(f"the kernel's log says: {line}" for line in reason) or error.hints
    return KernelError(error.errno or errno.EINVAL, error.action, log=log, hints=hints)
