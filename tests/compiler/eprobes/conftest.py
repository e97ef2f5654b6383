"""What the tests of eprobes as programs share: a target with one event, and its records run."""

from types import SimpleNamespace

import pytest

from pybpf.compiler.eprobes.script import HEADER, compile_eprobes
from pybpf.errors import TargetError
from pybpf.events.decode import Decoder
from pybpf.events.eprobes.payload import Payloads
from pybpf.events.ftrace import record as records
from pybpf.script import Provider
from pybpf.target.arch import ARCHES
from pybpf.target.features import ALL
from pybpf.target.symbols import SymbolTable
from pybpf.tracefs.format import parse_format
from pybpf.vm.buffers import PerfEventArray, RingBuffer
from pybpf.vm.driver import _Maps
from pybpf.vm.machine import Machine
from pybpf.vm.world import World

PARENT = parse_format(
    "name: evt\nID: 5\nformat:\n"
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
    "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
    "\tfield:s16 s;\toffset:8;\tsize:2;\tsigned:1;\n"
    "\tfield:u16 u;\toffset:10;\tsize:2;\tsigned:0;\n"
    "\tfield:__u8 four[4];\toffset:12;\tsize:4;\tsigned:0;\n"
    "\tfield:char name[8];\toffset:16;\tsize:8;\tsigned:0;\n"
    "\tfield:const char * p;\toffset:24;\tsize:8;\tsigned:0;\n"
    "\tfield:__data_loc char[] where;\toffset:32;\tsize:4;\tsigned:0;\n"
    "\tfield:u64 list[2];\toffset:40;\tsize:16;\tsigned:0;\n"
)
USER, KERNEL = 0x7F0000001000, 0xFFFF888000001000


def record(p=USER, s=-500):
    return (
        bytes([5, 0, 0, 0, 7, 0, 0, 0])
        + s.to_bytes(2, "little", signed=True)
        + (0xFE0C).to_bytes(2, "little")
        + bytes([127, 0, 0, 1])
        + b"bash\0xyz"
        + p.to_bytes(8, "little")
        + (6 << 16 | 56).to_bytes(4, "little")
        + bytes(4)
        + (KERNEL).to_bytes(8, "little")
        + (USER + 8).to_bytes(8, "little")
        + b"place\0\0\0"
    )


MEMORY = {
    USER: b"/etc/hostname\0" + (KERNEL).to_bytes(8, "little") + (USER + 5).to_bytes(8, "little"),
    KERNEL: (0x1122334455667788).to_bytes(8, "little") + b"kernel's\0",
}


class OneEvent:
    """A target that has one event."""

    arch = ARCHES["x86_64"]
    release = "7.3"
    cpus = 2
    pid_namespace = None

    def __init__(self, name, layout, *, types=None, symbols=None, features=ALL):
        self.features = features
        self.name, self.layout, self.types = name, layout, types
        self.data = symbols or {}
        self.environment = {}
        self.environment = {}
        self.symbols = SymbolTable(sorted((at, name) for name, at in self.data.items()))

    def event_names(self):
        return (self.name,)

    def event_format(self, name):
        if name != self.name:
            raise TargetError(f"unknown tracepoint '{name}'")
        return self.layout

    def symbol_address(self, name):
        try:
            return self.data[name]
        except KeyError:
            raise TargetError(f"unknown symbol '{name}'") from None

    def functions(self):
        return ()

    def entries(self):
        return frozenset()


class Hits:
    """Programs of definitions in the VM: a parent's record in, records of the eprobes out."""

    def __init__(self, definitions, target, *, string_size=64, symbols=None, **options):
        self.target = target
        self.compiled = compile_eprobes(definitions, target, string_size=string_size, **options)
        self.world = World(cpus=2)
        self.machine = Machine(self.compiled.script.maps, self.world)
        self.decoder = Decoder(self.compiled.script, _Maps(self.compiled.script, self.machine))
        self.payloads = [
            Payloads(eprobe.definition.args, eprobe.marks, 1, "little", symbols)
            for eprobe in self.compiled.eprobes
        ]

    def __call__(self, raw, *, memory=None, comm=b"", tid=0, pid=0, cpu=0):
        """Return (payload, faults) of what is recorded."""
        world = self.world
        world.memory = dict(memory or {})
        world.comm, world.tid, world.pid, world.cpu = comm, tid, pid or tid, cpu
        memory_ = self.machine.memory
        # A program is given no more than the kernel's pointer to registers in place of the start.
        for probe in self.compiled.script.probes:
            if probe.provider is Provider.EPROBE:
                ctx = memory_.add(bytearray(bytes(8) + raw[8:]), "the context", writable=False)
                memory_.retire(ctx)
                self.machine.run(probe.program, ctx.address)
        found = []
        for buffer in self.machine.maps.values():
            if isinstance(buffer, RingBuffer):
                found += buffer.drain()
            elif isinstance(buffer, PerfEventArray):
                found += (data for _, data in buffer.drain())
        return [self._made(self.decoder.decode(one)) for one in found]

    def _made(self, row):
        values = [cell.value for cell in row.cells][len(HEADER) :]
        payloads = self.payloads[row.event]
        return payloads.make(row.cells[2].value, values[: payloads.count], values[payloads.count :])

    def fields(self, raw, **facts):
        """Return the values and the faults of the one record that is made of a hit, or None."""
        made = self(raw, **facts)
        if not made:
            return None
        ((payload, faults),) = made
        decode = records.Decoder(self.compiled.eprobes[0].definition.format)
        found = decode(0, 0, payload, 0, len(payload)).fields()
        return {n: v for n, v in found.items() if not n.startswith("common_")}, faults


@pytest.fixture(scope="session")
def one_event():
    return OneEvent


@pytest.fixture(scope="session")
def hits():
    return Hits


@pytest.fixture(scope="session")
def sample():
    """Return an event's format, a record of it, and the memory that this points to."""
    return SimpleNamespace(parent=PARENT, record=record, memory=MEMORY, user=USER)
