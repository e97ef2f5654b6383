"""Run a program as BPF_PROG_TEST_RUN does: program, packet and context in; the same and r0 out.

What a context is depends on the program's type: an XDP program and one that sees an sk_buff get a
packet, and may be given a struct xdp_md or __sk_buff; a syscall program may write its context, and
any other gets just the bytes it is given, to read.
"""

from __future__ import annotations

from pybpf.dataclass import dataclass
from pybpf.errors import VmFault
from pybpf.isa.abi import ProgType
from pybpf.isa.insn import Program
from pybpf.vm.machine import Machine
from pybpf.vm.net.skb import TYPES, SkBuff
from pybpf.vm.net.xdp import XdpBuff

_RAW_TRACEPOINT_ARGUMENTS = 12 * 8
_RAW = frozenset({ProgType.RAW_TRACEPOINT, ProgType.RAW_TRACEPOINT_WRITABLE})


@dataclass(frozen=True, slots=True)
class Result:
    """What a run gave: r0 (64 bits), the packet and the context afterwards.

    Where the program did what no program must, ``fault`` says so and r0 is None; packet and
    context are as it left them.
    """

    r0: int | None
    packet: bytes = b""
    ctx: bytes = b""
    fault: VmFault | None = None

    @property
    def retval(self) -> int:
        """The return value as the kernel tells it, the low 32 bits of r0."""
        return 0 if self.r0 is None else self.r0 & 0xFFFF_FFFF


def run(
    machine: Machine,
    program: Program,
    data: bytes = b"",
    ctx: bytes = b"",
    *,
    prog_type: ProgType | None = None,
) -> Result:
    """Run a program once on a machine, whose maps and world it sees.

    ``prog_type`` is the program's own unless given. Raises Refused for a packet or context that the
    kernel would not take, and EncodingError for a program whose jumps lead nowhere.
    """
    kind = program.prog_type if prog_type is None else prog_type
    memory = machine.memory
    buff: SkBuff | XdpBuff | None = None
    if kind is ProgType.XDP:
        buff = XdpBuff(memory, machine.world, data, ctx)
    elif kind in TYPES:
        buff = SkBuff(memory, machine.world, kind, data, ctx)
    if buff is not None:
        region, machine.packet = buff.region, buff.packet
    else:
        given = ctx.ljust(_RAW_TRACEPOINT_ARGUMENTS, b"\0") if kind in _RAW else ctx
        writable = kind is ProgType.SYSCALL
        region = memory.add(bytearray(given), "the context", writable=writable)
    machine.buff = buff
    memory.retire(region)
    r0, fault = None, None
    try:
        r0 = machine.run(program, region.address)
    except VmFault as found:
        fault = found
    finally:
        machine.buff, machine.packet = None, b""
        memory.settle()
    if buff is not None:
        return Result(r0, buff.output(), buff.context(), fault)
    return Result(r0, b"", bytes(region.data) if kind is ProgType.SYSCALL else b"", fault)
