"""Load a compiled script: CompiledScript in; maps and programs in the kernel out."""

from __future__ import annotations

import errno
import struct
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Self

from pybpf.dataclass import replace
from pybpf.errors import KernelError
from pybpf.isa.abi import AttachType, MapType
from pybpf.isa.encoding import encode
from pybpf.isa.insn import Insn, Program
from pybpf.isa.table import Form
from pybpf.kernel import programs
from pybpf.kernel.fd import Fd
from pybpf.kernel.maps import Map, possible_cpus
from pybpf.kernel.programs import DebugInfo, Prog
from pybpf.kernel.ringbuf import PerfBuffer, Ring, RingBuffer
from pybpf.script import CompiledScript, MapRole, MapSpec, ProbeSpec

_U32 = struct.Struct("=I")


class Loaded:
    """A script's maps and programs; closing it frees all of them. Also reads maps for decoding."""

    def __init__(self, script: CompiledScript) -> None:
        """Create the maps, then load the programs; raises KernelError with nothing left behind."""
        self.script = script
        self.maps: dict[str, Map] = {}
        self.ring: Ring | None = None
        self._programs: dict[tuple[int, bool], Prog] = {}
        self._stack = ExitStack()
        try:
            with Described(script.maps) as described:
                for spec in script.maps:
                    self.maps[spec.name] = self._stack.enter_context(described.create(spec))
                    if spec.role is MapRole.CGROUP:
                        self._fill_cgroup(self.maps[spec.name])
            self.ring = self._open_ring()
        except BaseException:
            self.close()
            raise

    def _open_ring(self) -> Ring | None:
        for spec in self.script.maps:
            if spec.role is MapRole.EVENTS:
                events = self.maps[spec.name]
                ring: Ring = (
                    RingBuffer(events)
                    if spec.type is MapType.RINGBUF
                    else PerfBuffer(events, self.script.buffer_size)
                )
                self._stack.callback(ring.close)
                return ring
        return None

    def _fill_cgroup(self, array: Map) -> None:
        from pybpf.kernel.cgroup import open_cgroup

        assert self.script.cgroup is not None, "the script was compiled for a cgroup"
        with open_cgroup(self.script.cgroup) as cgroup:
            array.update(bytes(4), _U32.pack(cgroup.fileno()))

    def program(self, probe: ProbeSpec, *, multi: bool = False) -> Prog:
        """Load the program of a probe, once for all probes that share it.

        ``multi``: for a link to many functions, which wants to be known at load.
        """
        key = id(probe.program), multi
        if key not in self._programs:
            self._programs[key] = self._stack.enter_context(self._load(probe, multi=multi))
        return self._programs[key]

    def programs(self) -> tuple[Prog, ...]:
        """Return the programs loaded so far."""
        return tuple(self._programs.values())

    def _load(self, probe: ProbeSpec, *, multi: bool) -> Prog:
        program = self.bound(probe.program)
        attach_type = AttachType.TRACE_KPROBE_MULTI if multi else program.expected_attach_type
        name = probe.spec.replace(":", "_")
        with ExitStack() as stack:
            debug = _debug_info(probe.program, name, stack)
            try:
                return programs.load(
                    encode(program, sys.byteorder),
                    program.prog_type,
                    name,
                    licence=program.licence,
                    expected_attach_type=attach_type,
                    debug=debug,
                )
            except KernelError as error:
                from pybpf.kernel.rejection import locate

                error.action = f"cannot load the program of {probe.spec}"
                locate(error, probe.program)
                raise

    def bound(self, program: Program) -> Program:
        """Return the program with the descriptors of its maps filled in."""
        return replace(program, insns=tuple(self._bind(i) for i in program.insns))

    def _bind(self, insn: Insn) -> Insn:
        if insn.op.form is not Form.LOAD_IMM64 or insn.symbol is None:
            return insn
        # The low half is the descriptor, the high half an offset into the value.
        return replace(insn, imm=insn.imm | self.maps[insn.symbol].fileno())

    def items(self, name: str) -> Sequence[tuple[bytes, Sequence[bytes]]]:
        """Return all entries of a map: (key, values), one value a CPU for per-CPU maps."""
        return self.maps[name].items()

    def clear(self, name: str) -> None:
        """Remove all entries of a map."""
        self.maps[name].clear()

    def stack(self, stack_id: int) -> tuple[int, ...]:
        """Return the addresses of a stack trace, innermost first; none if it is not kept."""
        for spec in self.script.maps:
            if spec.role is MapRole.STACKS and stack_id >= 0:
                value = self.maps[spec.name].lookup(_U32.pack(stack_id))
                if value is None:
                    return ()
                frames = struct.unpack(f"={spec.value_size // 8}Q", value[0])
                return tuple(frame for frame in frames if frame)
        return ()

    def cpus(self) -> Sequence[int]:
        """Return the number of each CPU that per-CPU maps have a value for."""
        return possible_cpus()

    def lost(self) -> int:
        """Return how many records were lost so far for want of room."""
        for spec in self.script.maps:
            if spec.role is MapRole.LOST:
                values = self.maps[spec.name].lookup(bytes(4)) or ()
                return sum(int.from_bytes(value[:8], sys.byteorder) for value in values)
        return 0

    def close(self) -> None:
        """Free everything; programs that are attached elsewhere stay."""
        self._programs.clear()
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Described(ExitStack):
    """BTF for the keys and values of a script's hashes, which ``bpftool map dump`` shows them by.

    A kernel that does not take it does without.
    """

    def __init__(self, maps: Sequence[MapSpec]) -> None:
        super().__init__()
        self._types: dict[str, tuple[int, int]] = {}
        self._btf: Fd | None = None
        hashes = [spec for spec in maps if spec.type in {MapType.HASH, MapType.PERCPU_HASH}]
        if not hashes:
            return
        from pybpf.btf.writer import Writer

        writer = Writer(sys.byteorder)
        for spec in hashes:
            assert spec.key is not None
            self._types[spec.name] = writer.type(spec.key), writer.type(spec.content)
        with suppress(KernelError):
            self._btf = self.enter_context(programs.load_btf(writer.blob()))

    def create(self, spec: MapSpec) -> Map:
        """Create a map; raises KernelError."""
        if self._btf is not None and spec.name in self._types:
            with suppress(KernelError):
                return _create(spec, self._btf, self._types[spec.name])
        return _create(spec)


_SMALL = 256 << 20
_PER_ENTRY = 64
"""About what an element of a hash takes besides its key and value: struct htab_elem, a bucket."""


def _check_memory(spec: MapSpec) -> None:
    """Refuse a map that would take most of the memory there is.

    The kernel takes the memory of all entries at once, for minutes and deaf to signals if it is
    gigabytes, and then ends other processes. Source: MemAvailable of /proc/meminfo.
    """
    copies = len(possible_cpus()) if spec.type in {MapType.PERCPU_HASH, MapType.PERCPU_ARRAY} else 1
    size = spec.max_entries * (spec.key_size + spec.value_size * copies + _PER_ENTRY)
    if spec.role is MapRole.EVENTS or size < _SMALL:
        return
    if size > _available() // 2:
        raise KernelError(
            errno.ENOMEM,
            f"cannot create the map {spec.name}",
            hints=(f"{spec.max_entries} entries are too many: see --map-size",),
        )


def _available() -> int:
    """Return the bytes of memory that are free, or can be made so."""
    with suppress(OSError), open("/proc/meminfo") as file:  # noqa: PTH123 - pathlib starts slowly
        found = dict(line.split(":") for line in file).get("MemAvailable", "")
        if found:
            return int(found.split()[0]) << 10
    return 1 << 62


def _create(spec: MapSpec, btf: Fd | None = None, types: tuple[int, int] = (0, 0)) -> Map:
    _check_memory(spec)
    try:
        created = Map(
            spec.type,
            spec.name,
            spec.key_size,
            spec.value_size,
            spec.max_entries,
            spec.flags,
            btf=btf,
            types=types,
        )
    except KernelError as error:
        if error.errno in {errno.E2BIG, errno.ENOMEM}:
            what = "bytes" if spec.role is MapRole.EVENTS else "entries"
            option = "--buffer" if spec.role is MapRole.EVENTS else "--map-size"
            error.hints += (f"{spec.max_entries} {what} are too many: see {option}",)
        raise
    if spec.initial:
        created.update(bytes(spec.key_size), spec.initial)
    return created


def _debug_info(program: Program, name: str, stack: ExitStack) -> DebugInfo | None:
    """Load BTF that shows the script's lines; a kernel that refuses it runs the program as well."""
    from pybpf.btf.writer import build

    if not program.lines:
        return None
    built = build(program, name)
    try:
        btf = stack.enter_context(programs.load_btf(built.btf))
    except KernelError:
        return None
    return DebugInfo(btf, built.func_info, built.line_info)
