"""What this kernel's BPF can do, found out by trying it; each answer is kept.

Versions are never compared: distributions port features back, and configurations leave them out.
Trying needs the rights that using needs: all but ``pmu`` and ``config`` raise KernelError (EPERM)
where those are missing.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Mapping
from functools import cache

from pybpf.dataclass import dataclass
from pybpf.errors import KernelError
from pybpf.isa.abi import AttachType, MapType, ProgType
from pybpf.isa.helpers import HELPERS
from pybpf.isa.insn import R10, Insn, Program, insn
from pybpf.kernel import programs
from pybpf.kernel.maps import Map
from pybpf.kernel.programs import Prog
from pybpf.kernel.syscall import ffi, lib
from pybpf.target import features

_RETURN_0 = (insn("mov64_imm"), insn("exit"))


@dataclass(frozen=True, slots=True)
class Pmu:
    """A source of perf events: its number, and the bits of ``config`` by their names."""

    type: int
    bits: Mapping[str, int]


@cache
def pmu(name: str) -> Pmu | None:
    """Return the PMU of that name (``kprobe``, ``uprobe``), or None where the kernel has none.

    Source: /sys/bus/event_source/devices/NAME: ``type``, and ``format/FIELD`` such as ``config:0``.
    """
    folder = f"/sys/bus/event_source/devices/{name}"
    try:
        number = int(_first_line(f"{folder}/type"))
        names = os.listdir(f"{folder}/format")  # noqa: PTH208 - pathlib loads slowly
        fields = {field: _first_line(f"{folder}/format/{field}") for field in names}
    except FileNotFoundError:
        return None
    bits = {}
    for field, place in fields.items():
        word, _, span = place.partition(":")
        first, _, last = span.partition("-")
        if word == "config":
            bits[field] = (1 << int(last or first) + 1) - (1 << int(first))
    return Pmu(number, bits)


def _first_line(path: str) -> str:
    with open(path) as file:  # noqa: PTH123 - pathlib loads slowly
        return file.readline().strip()


@cache
def config() -> Mapping[str, str]:
    """Return the kernel's build options, ``CONFIG_BPF`` to ``y``; empty where it does not tell.

    Sources: /proc/config.gz, else /boot/config-RELEASE, else what lies with the modules. Only for
    advice in messages.
    """
    release = os.uname().release
    text = ""
    for place in (
        "/proc/config.gz",
        f"/boot/config-{release}",
        f"/lib/modules/{release}/config",
    ):
        try:
            text = _read_config(place)
        except OSError:
            continue
        break
    lines = (line.partition("=") for line in text.splitlines() if line.startswith("CONFIG_"))
    return {option: value for option, _, value in lines}


def _read_config(place: str) -> str:
    """Return the text of a file, which may be compressed; raises OSError."""
    import gzip

    opened = gzip.open if place.endswith(".gz") else open
    with opened(place, "rt") as file:
        return str(file.read())


def _load(
    insns: tuple[Insn, ...],
    prog_type: ProgType = ProgType.TRACEPOINT,
    attach_type: AttachType | None = None,
) -> Prog:
    program = bytes(Program(insns))
    return programs.load(program, prog_type, "probe", expected_attach_type=attach_type)


def _loads(*insns: Insn) -> bool:
    try:
        _load(insns).close()
    except KernelError as error:
        if error.errno == errno.EPERM:
            raise
        return False
    return True


def why_unavailable() -> KernelError | None:
    """Return why this process cannot use BPF at all, or None where it can."""
    try:
        _load(_RETURN_0).close()
    except KernelError as error:
        return error
    return None


@cache
def helper(name: str, prog_type: ProgType = ProgType.TRACEPOINT) -> bool:
    """Return whether programs of the type may call ``bpf_...``."""
    try:
        _load((insn("call_helper", imm=HELPERS[name]), insn("exit")), prog_type).close()
    except KernelError as error:
        if error.errno == errno.EPERM:
            raise
        # Any other complaint, such as one about its arguments, is about a helper that is known.
        unknown = ("invalid func", "unknown func", "cannot use helper")
        return bool(error.log) and not any(words in error.log for words in unknown)
    return True


@cache
def map_type(wanted: MapType, key_size: int = 4, value_size: int = 8, size: int = 1) -> bool:
    """Return whether maps of the type can be created."""
    try:
        Map(wanted, "probe", key_size, value_size, size).close()
    except KernelError as error:
        if error.errno == errno.EPERM:
            raise
        return False
    return True


@cache
def ringbuf() -> bool:
    """Return whether there are BPF ring buffers (Linux 5.8)."""
    return map_type(MapType.RINGBUF, 0, 0, os.sysconf("SC_PAGESIZE"))


@cache
def jmp32() -> bool:
    """Return whether there are 32-bit conditional jumps (Linux 5.1)."""
    return _loads(insn("mov64_imm"), insn("jeq32_imm"), insn("exit"))


@cache
def cpu_v4() -> bool:
    """Return whether the instructions of cpu v4 are known (Linux 6.6)."""
    sdiv = insn("sdiv64_imm", imm=1)
    return _loads(insn("mov64_imm"), insn("movsx8_64"), sdiv, insn("gotol"), insn("exit"))


@cache
def map_value_addr() -> bool:
    """Return whether a program can hold the address of an array map's value (Linux 5.2)."""
    with Map(MapType.ARRAY, "probe", 4, 8, 1) as array:
        return _loads(insn("lddw_map_value", dst=1, imm=array.fileno()), *_RETURN_0)


@cache
def perf_link() -> bool:
    """Return whether programs can be attached to perf events by links (Linux 5.15)."""
    with _load(_RETURN_0) as prog:
        # Where links to perf events are known, the event is looked at: -1 is none.
        return lib.bpf_link_perf_event(prog.fileno(), -1, 0) == -errno.EBADF


@cache
def kprobe_multi() -> bool:
    """Return whether one link can reach many functions (Linux 5.18 with CONFIG_FPROBE)."""
    attach_type = AttachType.TRACE_KPROBE_MULTI
    with _load(_RETURN_0, ProgType.KPROBE, attach_type) as prog:
        # Where it is known, the list of addresses is read: there is none at address 1.
        nowhere = ffi.cast("uint64_t *", 1)
        result = lib.bpf_link_kprobe_multi(
            prog.fileno(), attach_type, 0, 1, ffi.NULL, nowhere, ffi.NULL
        )
    return result == -errno.EFAULT


@cache
def uprobe_multi() -> bool:
    """Return whether one link can reach many places of a binary (Linux 6.6)."""
    attach_type = AttachType.TRACE_UPROBE_MULTI
    with _load(_RETURN_0, ProgType.KPROBE, attach_type) as prog:
        # Where it is known, the path is looked at: a folder is no binary.
        offsets = ffi.new("uint64_t[]", 1)
        result = lib.bpf_link_uprobe_multi(
            prog.fileno(), attach_type, 0, 1, b"/", offsets, ffi.NULL, ffi.NULL, 0
        )
    return result == -errno.EBADF


@cache
def debug_info() -> bool:
    """Return whether programs can carry BTF with functions (Linux 5.0)."""
    integer, function, prototype = 1 << 24, 12 << 24, 13 << 24
    strings = b"\0int\0f\0"
    types = struct.pack("=4I", 1, integer, 4, 1 << 24 | 32)  # 1: int, signed, 32 bits
    types += struct.pack("=3I", 0, prototype, 1)  # 2: int (void)
    types += struct.pack("=3I", 5, function, 2)  # 3: int f(void)
    header = struct.pack("=HBB5I", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(strings))
    try:
        programs.load_btf(header + types + strings).close()
    except KernelError as error:
        if error.errno == errno.EPERM:
            raise
        return False
    return True


# Fills 32 bytes of stack, of which a name takes 16 at most, and looks at the last of them.
_PAD = 32
_LAST = insn("stb", dst=R10, off=-1, imm=1)
_NAME = (
    insn("mov64_reg", dst=1, src=R10),
    insn("add64_imm", dst=1, imm=-_PAD),
    insn("mov64_imm", dst=2, imm=_PAD),
    insn("call_helper", imm=HELPERS["bpf_get_current_comm"]),
    insn("ldxb", src=R10, off=-1),
    insn("exit"),
)


@cache
def comm_padded() -> bool:
    """Return whether bpf_get_current_comm() leaves zeros behind the name (not Linux 6.0 to 6.1).

    That is seen by running a program (Linux 5.10); where it cannot be run, it is taken for a no.
    """
    return _gives_zero(_LAST, *_NAME)


def _gives_zero(*insns: Insn) -> bool:
    """Return whether a program can be loaded and run, and the result is 0."""
    try:
        with _load(insns, ProgType.RAW_TRACEPOINT) as prog:
            return prog.test_run().retval == 0
    except KernelError as error:
        if error.errno == errno.EPERM:
            raise
        return False


def detect() -> frozenset[str]:
    """Return the names in ``target.features`` of what this kernel can do."""
    if _knows_all():
        found = dict.fromkeys(features.ALL, True) | {features.RINGBUF: ringbuf()}
    else:
        found = {
            features.RINGBUF: ringbuf(),
            features.PROBE_READ_KERNEL: helper("bpf_probe_read_kernel"),
            features.CPU_V4: cpu_v4(),
            features.JMP32: jmp32(),
            features.MAP_VALUE_ADDR: map_value_addr(),
            features.COMM_PADDED: comm_padded(),
        }
    return frozenset(name for name, known in found.items() if known)


def _knows_all() -> bool:
    """Return whether the kernel runs a program that uses all features but ring buffers.

    On a current kernel that saves the time of trying each.
    """
    with Map(MapType.ARRAY, "probe", 4, 8, 1) as array:
        return _gives_zero(
            _LAST,
            insn("lddw_map_value", dst=1, imm=array.fileno()),
            insn("mov64_imm", dst=2, imm=8),
            insn("mov64_imm", dst=3),
            insn("call_helper", imm=HELPERS["bpf_probe_read_kernel"]),
            insn("mov64_imm"),
            insn("movsx8_64"),
            insn("sdiv64_imm", imm=1),
            insn("jeq32_imm"),
            insn("gotol"),
            *_NAME,
        )
