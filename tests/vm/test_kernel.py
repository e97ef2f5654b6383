"""The same hand-written programs in this machine's kernel and in the VM: same results."""

import dataclasses
import struct
from contextlib import ExitStack

import pytest

from pybpf.errors import KernelError
from pybpf.isa.abi import MapType, ProgType
from pybpf.isa.assembler import assemble
from pybpf.isa.insn import Program, insn
from pybpf.isa.table import ROWS, Form
from pybpf.script import MapRole, MapSpec
from pybpf.vm.machine import Machine
from pybpf.vm.world import World

try:
    from pybpf.kernel import features, programs
    from pybpf.kernel.maps import Map, possible_cpus

    WHY_NOT = features.why_unavailable()
except (ImportError, KernelError) as error:
    WHY_NOT = error

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(WHY_NOT is not None, reason=f"no BPF here: {WHY_NOT}"),
]

U64 = 1 << 64
PAIRS = [
    (0, 0), (1, 2), (7, 3), (-7, 3), (7, -3), (-1, -1), (-(1 << 63), -1), (-(1 << 31), -1),
    (0x0123456789ABCDEF, 0xFEDCBA9876543210), (1 << 31, 63), (0xFFFFFFFF, 33), (5, 1 << 32),
]  # fmt: skip
RAW_TRACEPOINT_ARGUMENTS = 12


class Twins:
    """One program, loaded into the kernel and into the VM, each with its own maps."""

    def __init__(self, program, specs):
        self.program = program
        self.machine = Machine(specs, World(cpus=len(possible_cpus()) if specs else 1))
        self._stack = ExitStack()
        try:
            self.maps = {s.name: self._stack.enter_context(self._create(s)) for s in specs}
            insns = tuple(self._bind(i) for i in program.insns)
            code = bytes(dataclasses.replace(program, insns=insns))
            self.prog = self._stack.enter_context(programs.load(code, ProgType.RAW_TRACEPOINT))
        except BaseException:
            self._stack.close()
            raise

    def _create(self, spec):
        return Map(
            spec.type, spec.name, spec.key_size, spec.value_size, spec.max_entries, spec.flags
        )

    def _bind(self, i):
        return i if i.symbol not in self.maps else dataclasses.replace(
            i, imm=i.imm | self.maps[i.symbol].fileno()
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()

    def run(self, *arguments):
        """Run both; return the results, of which the kernel tells 32 bits."""
        arguments += (0,) * (RAW_TRACEPOINT_ARGUMENTS - len(arguments))
        ctx = struct.pack("=12Q", *(n % U64 for n in arguments))
        region = self.machine.memory.add(bytearray(ctx), "ctx", writable=False)
        ours = self.machine.run(self.program, region.address)
        return self.prog.test_run(ctx, cpu=0).retval, ours % (1 << 32)

    def items(self, name):
        """Return the content of a map on both sides."""
        return sorted(self.maps[name].items()), sorted(self.machine.maps[name].items())


def spec(name, kind=MapType.ARRAY, entries=1, value=8):
    return MapSpec(name, MapRole.MAP, kind, 4, value, entries)


def rows(*forms):
    return [row for row in ROWS if row.form in forms]


def computing(*middle):
    """Return a program that loads r2 and r3, and stores r2 and r3 after some instructions."""
    return Program((
        insn("ldxdw", 2, 1, 0), insn("ldxdw", 3, 1, 8), *middle,
        insn("lddw_map_value", 1, symbol="out"), insn("stxdw", 1, 2, 0), insn("stxdw", 1, 3, 8),
        insn("mov64_imm", 0), insn("exit"),
    ))  # fmt: skip


def compare(program, row):
    if row.since >= (6, 6) and not features.cpu_v4():
        pytest.skip(f"this kernel has no {row.name}")
    with Twins(program, [spec("out", value=16)]) as twins:
        for pair in PAIRS:
            theirs, ours = twins.run(*pair)
            assert theirs == ours, pair
            theirs, ours = twins.items("out")
            assert theirs == ours, pair


@pytest.mark.parametrize(
    "row", rows(Form.ALU_REG, Form.NEG, Form.MOVSX, Form.SWAP), ids=lambda row: row.name
)
def test_arithmetic(row):
    src = 3 if row.form in {Form.ALU_REG, Form.MOVSX} else 0

    compare(computing(insn(row.name, 2, src)), row)


@pytest.mark.parametrize("row", rows(Form.BRANCH_REG), ids=lambda row: row.name)
def test_branches(row):
    compare(computing(insn(row.name, 2, 3, off=1), insn("mov64_imm", 3, imm=-5)), row)


@pytest.mark.parametrize("row", rows(Form.ATOMIC), ids=lambda row: row.name)
def test_atomics(row):
    """The cell holds r2 before; r2 and r3 hold cell and operand afterwards."""
    middle = (
        insn("mov64_reg", 0, 2),
        insn("stxdw", 10, 2, -8),
        insn(row.name, 10, 3, -8),
        insn("ldxdw", 2, 10, -8),
    )

    compare(computing(*middle), row)


MAP_CALL = """
    r6 = *(u64 *)(r1 + 0)
    r7 = *(u64 *)(r1 + 8)
    r8 = *(u64 *)(r1 + 16)
    *(u32 *)(r10 - 4) = r6
    *(u64 *)(r10 - 16) = r7
    r1 = map:m ll
    r2 = r10
    r2 += -4
    r3 = r10
    r3 += -16
    r4 = r8
    call bpf_map_{verb}_elem
    {after}
    exit
"""


@pytest.mark.parametrize(
    "kind", [MapType.HASH, MapType.PERCPU_HASH, MapType.ARRAY, MapType.PERCPU_ARRAY]
)
def test_updates_and_deletions(kind):
    specs = [spec("m", kind, entries=2)]
    flags = (0, 1, 2, 3, 9)
    calls = [(k, 10 * k + f, f) for k in (0, 1, 2, 0) for f in flags]
    with Twins(assemble(MAP_CALL.format(verb="update", after="")), specs) as twins:
        for call in calls:
            theirs, ours = twins.run(*call)
            assert theirs == ours, call
            theirs, ours = twins.items("m")
            assert theirs == ours, call
    delete = MAP_CALL.replace("r3 = r10", "").replace("r3 += -16", "").replace("r4 = r8", "")
    with Twins(assemble(delete.format(verb="delete", after="")), specs) as twins:
        theirs, ours = twins.run(0)
        assert theirs == ours


def test_an_update_of_a_hash_leaves_the_old_element_to_its_pointer():
    """Look up, update the same key, write through the old pointer: the write is lost."""
    text = """
        *(u32 *)(r10 - 4) = 1
        *(u64 *)(r10 - 16) = 5
        r1 = map:m ll
        r2 = r10
        r2 += -4
        call bpf_map_lookup_elem
        r6 = r0
        r1 = map:m ll
        r2 = r10
        r2 += -4
        r3 = r10
        r3 += -16
        r4 = 0
        call bpf_map_update_elem
        if r6 == 0 goto out
        *(u64 *)(r6 + 0) = 99
    out:
        r0 = 0
        exit
    """
    with Twins(assemble(text), [spec("m", MapType.HASH, entries=4)]) as twins:
        for _ in range(2):
            twins.run()
            theirs, ours = twins.items("m")
            assert theirs == ours


@pytest.mark.parametrize("size", [0, 1, 8, 2000, 4080, 4088])
def test_how_much_a_ring_buffer_takes(size):
    text = f"""
        *(u64 *)(r10 - 8) = 0
        r1 = map:ring ll
        r2 = {size}
        r3 = 0
        call bpf_ringbuf_reserve
        if r0 == 0 goto out
        r1 = r0
        r2 = 1
        call bpf_ringbuf_submit
        r0 = 1
    out:
        r6 = r0
        r1 = map:ring ll
        r2 = 0
        call bpf_ringbuf_query
        r6 <<= 16
        r0 |= r6
        exit
    """
    ring = MapSpec("ring", MapRole.EVENTS, MapType.RINGBUF, 0, 0, 4096)
    with Twins(assemble(text), [ring]) as twins:
        for _ in range(520):
            theirs, ours = twins.run()
            assert theirs == ours


@pytest.mark.parametrize(
    ("setup", "size"),
    [(0x6162636465660000, 8), (0x6162636465666768, 8), (0x6162636465666768, 4), (0, 8)],
)
def test_strings_are_read_alike(setup, size):
    text = f"""
        r2 = *(u64 *)(r1 + 0)
        r2 = be64 r2
        *(u64 *)(r10 - 16) = r2
        *(u64 *)(r10 - 8) = 0
        *(u64 *)(r10 - 24) = -1
        r1 = r10
        r1 += -24
        r2 = {size}
        r3 = r10
        r3 += -16
        call bpf_probe_read_kernel_str
        r1 = map_value:out ll
        r2 = *(u64 *)(r10 - 24)
        *(u64 *)(r1 + 0) = r2
        exit
    """
    with Twins(assemble(text), [spec("out")]) as twins:
        theirs, ours = twins.run(setup)
        assert theirs == ours
        theirs, ours = twins.items("out")
        assert theirs == ours


def test_calls_and_a_tail_call_to_an_empty_index():
    text = """
        r6 = r1
        r1 = 5
        r2 = 3
        call twice
        r7 = r0
        r1 = r6
        r2 = map:jumps ll
        r3 = 0
        call bpf_tail_call
        r0 = r7
        exit
    twice:
        r0 = r1
        r0 += r2
        r0 *= 2
        exit
    """
    with Twins(assemble(text), [spec("jumps", MapType.PROG_ARRAY, value=4)]) as twins:
        theirs, ours = twins.run()

    assert theirs == ours == 16
