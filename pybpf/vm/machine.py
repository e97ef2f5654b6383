"""The machine: programs, maps and a world in; what the programs return and leave in the maps out.

It holds what lives longer than one run (maps, memory, compiled steps) and, during a run, the
registers and up to eight frames, each with its own 512 bytes of stack. Anything the kernel's
verifier exists to prevent (a wild access, an unset register, a leaked reservation, an endless
loop) ends the run with a VmFault that names the instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from typing import TYPE_CHECKING

from pybpf.dataclass import dataclass, field
from pybpf.errors import VmFault
from pybpf.isa.helpers import HELPERS
from pybpf.isa.insn import R0, R1, R6, R10, STACK_SIZE, ByteOrder, Insn, Program
from pybpf.isa.semantics import MASK64, signed
from pybpf.script import MapSpec
from pybpf.vm.buffers import RingBuffer
from pybpf.vm.kinds import make_map
from pybpf.vm.maps import Map, ProgArray
from pybpf.vm.memory import AddressSpace, Region, Trap, stale
from pybpf.vm.registers import UNSET, Unset
from pybpf.vm.steps import DONE, SWITCH, Step, build_steps
from pybpf.vm.timers import Timers, key_of
from pybpf.vm.world import World

if TYPE_CHECKING:
    from pybpf.vm.fast.run import Compiled, Run
    from pybpf.vm.net.redirect import Redirect
    from pybpf.vm.net.skb import SkBuff
    from pybpf.vm.net.xdp import XdpBuff
    from pybpf.vm.packet import Packet

BUDGET = 1_000_000
"""Instructions a run may take unless told otherwise: as many as the verifier looks at."""
MAX_FRAMES = 8
MAX_TAIL_CALLS = 33
MAX_LOOPS = 1 << 23
"""How often may_goto and bpf_loop go round at most: BPF_MAX_LOOPS."""

Trace = Callable[[Program, int, tuple[int | None, ...]], None]
"""Called before every instruction: the program, its index, r0 to r10 (None: holds nothing)."""


@dataclass(frozen=True, slots=True)
class Helper:
    """An emulated helper or kernel function: how many arguments it takes, and what it does.

    ``run`` gets the machine and the arguments as unsigned 64-bit integers, and returns r0, which
    may be negative. It raises Trap for what the verifier would not let a program do.
    """

    arguments: int
    run: Callable[..., int]


@dataclass(slots=True)
class Image:
    """A program made ready for one machine; ``functions`` are addresses by first instruction."""

    program: Program
    steps: list[Step]
    compiled: Compiled | None = None
    tried: bool = False
    functions: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Frame:
    """A function that is running: where its caller goes on, and what it finds then in r6 to r10."""

    caller: Image
    after: int
    saved: list[int]
    loops: int = 0


class Machine:
    """An emulated kernel that runs programs one after the other.

    ``maps`` are made from their specs and found by name. ``helpers`` (by name) add to the emulated
    ones or replace them, ``kfuncs`` by symbol, or ``#id``. ``budget`` limits the instructions
    of one run. ``fast`` runs what it can as Python functions (see ``vm.fast``), all but traced
    runs. ``packet`` is what the legacy packet loads read; see ``load_packet``.
    """

    def __init__(
        self,
        maps: Iterable[MapSpec] = (),
        world: World | None = None,
        *,
        byteorder: ByteOrder = "little",
        helpers: Mapping[str, Helper] | None = None,
        kfuncs: Mapping[str, Helper] | None = None,
        budget: int = BUDGET,
        max_loops: int = MAX_LOOPS,
        trace: Trace | None = None,
        fast: bool = False,
    ) -> None:
        from pybpf.vm.emulated.kfuncs import KFUNCS
        from pybpf.vm.emulated.registry import NUMBERED

        self.world = World() if world is None else world
        self.memory = AddressSpace(byteorder)
        self.maps: dict[str, Map] = {}
        self.helpers = NUMBERED | {HELPERS[name]: row for name, row in (helpers or {}).items()}
        self.kfuncs = {**KFUNCS, **(kfuncs or {})}
        self.regs: list[int] = list(UNSET)
        self.ctx = 0
        self.packet: bytes | bytearray | Packet = b""
        self.buff: SkBuff | XdpBuff | None = None
        self.redirects: list[Redirect] = []
        self.timers = Timers()
        self.max_loops = max_loops
        self._budget = budget
        self.left: repeat[None] = repeat(None, 0)
        self._trace = trace
        self._fast: Run | None = None
        if fast and trace is None:
            from pybpf.vm.fast.run import Run

            self._fast = Run(self)
        self._handles: dict[int, Map] = {}
        self._functions: dict[int, tuple[Image, int]] = {}
        self.images: dict[int, Image] = {}
        self._frames: list[_Frame] = []
        self._stacks: list[Region] = []
        self._tail_calls = 0
        for spec in maps:
            self.add_map(spec)
        self.image = Image(Program(()), [])
        self._resume = 0

    def add_map(self, spec: MapSpec) -> Map:
        """Make a map and return it; raises PybpfError for one that cannot be."""
        found = make_map(spec, self.memory, self.world.cpus)
        self.maps[spec.name] = found
        self._handles[found.handle.address] = found
        return found

    def run(self, program: Program, *arguments: int) -> int:
        """Run a program with ``arguments`` in r1, r2…; the first is its context. Return r0.

        Raises VmFault, and EncodingError for a program whose jumps lead nowhere.
        """
        return self._run(self._load(program), 0, arguments)

    def run_timers(self) -> int:
        """Call what timers call that have expired by the world's time; return how many did.

        Raises VmFault.
        """
        count = 0
        while timer := self.timers.expired(self.world.time):
            found = self._functions.get(timer.function)
            value = self.memory.find(timer.address)
            assert found is not None
            assert value is not None
            key = self.memory.add(bytearray(key_of(timer.table, value)), "a map key")
            self.memory.retire(key)
            self._run(*found, (timer.table.handle.address, key.address, value.address))
            count += 1
        return count

    def _run(self, image: Image, start: int, arguments: tuple[int, ...]) -> int:
        self.regs[:] = UNSET
        self.regs[R1 : R1 + len(arguments)] = [value & MASK64 for value in arguments]
        self.ctx = arguments[0] if arguments else 0
        self._tail_calls = 0
        self.left = repeat(None, self._budget)
        self.image = image
        compiled = self.compiled(image)
        try:
            self.enter(DONE)
            if self._fast and compiled and compiled.arguments[start] <= len(arguments):
                values = tuple(self.regs[R1 : R1 + len(arguments)])
                return self._fast.start(image, compiled.functions[start], values, self._budget)
            self.execute(start)
            return self.regs[R0]
        finally:
            self._clean_up()

    def call(self, function: int, *arguments: int) -> int:
        """Call back the function a lddw_func has the address of, for a helper; return r0."""
        found = self._functions.get(function)
        if found is None:
            raise Trap(f"{function:#x} is not the address of a function")
        caller = self.image
        self.image, start = found
        try:
            compiled = self.image.compiled
            if self._fast is not None and self._fast.active and compiled is not None:
                # A helper may give fewer arguments than the function reads.
                if compiled.arguments[start] <= len(arguments):
                    given = *arguments, *UNSET[R1 + len(arguments) : R6]
                    return self._fast.call(compiled.functions[start], *given)
                return self._fast.call_in_steps(start, arguments)
            self.enter(DONE)
            self.regs[R1 : R1 + len(arguments)] = arguments
            self.execute(start)
            return self.regs[R0]
        finally:
            self.image = caller

    def enter(self, after: int) -> None:
        """Begin a function; when it exits, its caller goes on at ``after``."""
        depth = len(self._frames)
        if depth == MAX_FRAMES:
            raise Trap(f"calls are nested more than {MAX_FRAMES} deep")
        if depth == len(self._stacks):
            name = f"the stack of frame {depth}"
            self._stacks.append(self.memory.add(bytearray(STACK_SIZE), name))
        stack = self._stacks[depth]
        stack.size, stack.gone = STACK_SIZE, ""
        stack.data[:] = stale(STACK_SIZE)
        self._frames.append(_Frame(self.image, after, self.regs[R6:]))
        self.regs[R0] = UNSET[R0]
        self.regs[R6:R10] = UNSET[R6:R10]
        self.regs[R10] = stack.end

    def leave(self) -> int:
        """End the innermost function; return where to go on."""
        frame = self._frames[-1]
        if frame.after == DONE:
            self.regs[R0] &= MASK64  # an unset r0 stumbles over this
            if len(self._frames) == 1:
                self._check_released()
        self._frames.pop()
        stack = self._stacks[len(self._frames)]
        stack.size, stack.gone = 0, "its function has returned"
        self.regs[R1:R6] = UNSET[R1:R6]
        self.regs[R6:] = frame.saved
        if frame.after == DONE or frame.caller is self.image:
            return frame.after
        self.image, self._resume = frame.caller, frame.after
        return SWITCH

    def may_loop(self) -> bool:
        """Count a may_goto of this frame; return whether it lets the program go on."""
        frame = self._frames[-1]
        frame.loops += 1
        return frame.loops <= self.max_loops

    def tail_call(self, ctx: int, table: int, index: int, after: int) -> int:
        """Replace the running function by a program; return ``after`` where there is none."""
        image = self.tail_target(ctx, table, index)
        if image is None:
            return after
        self.regs[R1] = ctx
        self.regs[R6:R10] = UNSET[R6:R10]
        self.image, self._resume = image, 0
        return SWITCH

    def tail_target(self, ctx: int, table: int, index: int) -> Image | None:
        """Return the program that a tail call leads to, and count the call; None where to none."""
        self.check_context(ctx)
        programs = self.map_at(table)
        if not isinstance(programs, ProgArray):
            raise Trap(f"map {programs.spec.name} holds no programs")
        program = programs.get(index)
        if program is None or self._tail_calls == MAX_TAIL_CALLS:
            return None
        self._tail_calls += 1
        return self._load(program)

    def load_packet(self, ctx: int, start: int, size: int) -> int | None:
        """Return an integer in network order of the packet that ``ctx`` (r6) is about, or None.

        ``start`` counts from the packet's first byte; behind ``SKF_NET_OFF`` and ``SKF_LL_OFF``
        from the network and the link layer's header, as for classic BPF.
        """
        if ctx != self.ctx:
            raise Trap("r6 does not hold the context")
        start = signed(start, 32)
        if isinstance(self.packet, bytes | bytearray):
            data = self.packet[start : start + size] if start >= 0 else b""
        else:
            data = self.packet.load(start, size)
        return int.from_bytes(data, "big") if len(data) == size else None

    def stack(self) -> Region:
        """Return the stack of the innermost frame."""
        return self._stacks[len(self._frames) - 1]

    def kfunc(self, insn: Insn) -> tuple[str, Helper | None]:
        """Return the name of the kernel function that an instruction calls, and what it does."""
        name = insn.symbol if insn.symbol is not None else f"#{insn.imm}"
        return name, self.kfuncs.get(name)

    def compiled(self, image: Image) -> Compiled | None:
        """Return a program's Python functions, if it has and this machine uses them."""
        if self._fast is not None and not image.tried:
            from pybpf.vm.fast.run import compile_program

            image.tried = True
            caller, self.image = self.image, image
            image.compiled = compile_program(self, image.program)
            self.image = caller
        return image.compiled

    def check_context(self, ctx: int) -> None:
        """Raise Trap if what a helper got for its context is something else."""
        if ctx != self.ctx:
            raise Trap(f"the first argument is {ctx:#x}, not the context")

    def map_named(self, symbol: str | None, index: int) -> Map | None:
        """Return the map that a ``lddw`` names, or without a name the map number ``index``."""
        if symbol is not None:
            return self.maps.get(symbol)
        return list(self.maps.values())[index] if 0 <= index < len(self.maps) else None

    def map_at(self, address: int) -> Map:
        """Return the map that a program's map pointer stands for; raises Trap."""
        found = self._handles.get(address)
        if found is None:
            raise Trap(f"{address:#x} is not a map")
        return found

    def function_address(self, index: int) -> int:
        """Return the address that stands for the subprogram at ``index`` of the program loading."""
        known = self.image.functions.get(index)
        if known is None:
            region = self.memory.add(bytearray(), "a function", writable=False)
            known = self.image.functions[index] = region.address
            self._functions[known] = (self.image, index)
        return known

    def _load(self, program: Program) -> Image:
        image = self.images.get(id(program))
        if image is None:
            # The image keeps the program alive, so nothing else can get its id.
            image = Image(program, [])
            caller, self.image = self.image, image
            steps = build_steps(self, program)
            self.image = caller
            image.steps = [self._traced(program, i, step) for i, step in enumerate(steps)]
            self.images[id(program)] = image
        return image

    def _traced(self, program: Program, index: int, step: Step) -> Step:
        """Return a step that calls the trace first; the one behind the last is no instruction."""
        trace, regs = self._trace, self.regs
        if trace is None or index == len(program.insns):
            return step

        def traced() -> int:
            trace(program, index, tuple(None if isinstance(r, Unset) else r for r in regs))
            return step()

        return traced

    def execute(self, pc: int) -> None:
        """Run from ``pc`` of the current image until the frame entered last with DONE exits."""
        steps = self.image.steps
        try:
            for _ in self.left:
                pc = steps[pc]()
                if pc < 0:
                    if pc == DONE:
                        return
                    steps, pc = self.image.steps, self._resume
        except Trap as trap:
            raise fault(self.image.program, pc, str(trap)) from None
        reason = f"the budget of {self._budget} instructions is used up"
        raise fault(self.image.program, pc, reason)

    def _check_released(self) -> None:
        for found in self.maps.values():
            if isinstance(found, RingBuffer) and (busy := found.reserved()):
                sizes = ", ".join(str(len(region.data)) for region in busy)
                raise Trap(
                    f"a reservation of {sizes} bytes in ring buffer {found.spec.name} was neither"
                    " submitted nor discarded"
                )

    def _clean_up(self) -> None:
        for found in self.maps.values():
            if isinstance(found, RingBuffer):
                for region in found.reserved():
                    found.finish(region.address, discard=True)
        for stack in self._stacks:
            stack.size = 0
        self._frames.clear()
        self.memory.settle()


def fault(program: Program, pc: int, reason: str) -> VmFault:
    """Return what a Trap at an instruction becomes."""
    from pybpf.isa.disassembler import format_insn

    text = format_insn(program.insns[pc]) if pc < len(program.insns) else "(end)"
    return VmFault(pc, text, reason)
