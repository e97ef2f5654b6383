"""The machine: programs, maps and a world in; what the programs return and leave in the maps out.

It holds what lives longer than one run (maps, memory, compiled steps) and, during a run, the
registers and up to eight frames, each with its own 512 bytes of stack. Anything the kernel's
verifier exists to prevent (a wild access, an unset register, a leaked reservation, an endless
loop) ends the run with a VmFault that names the instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import repeat

from pybpf.dataclass import dataclass
from pybpf.errors import PybpfError, VmFault
from pybpf.isa.abi import MapType
from pybpf.isa.helpers import HELPERS
from pybpf.isa.insn import R0, R1, R6, R10, STACK_SIZE, ByteOrder, Program
from pybpf.isa.semantics import MASK64
from pybpf.script import MapSpec
from pybpf.vm.buffers import PerfEventArray, RingBuffer, StackTraces
from pybpf.vm.maps import ArrayMap, HashMap, Map, MapOfMaps, ProgArray
from pybpf.vm.memory import AddressSpace, Region, Trap, stale
from pybpf.vm.registers import UNSET, Unset
from pybpf.vm.steps import DONE, SWITCH, Step, build_steps
from pybpf.vm.world import World

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
class _Image:
    """A program made ready for one machine."""

    program: Program
    steps: list[Step]


@dataclass(slots=True)
class _Frame:
    """A function that is running: where its caller goes on, and what it finds then in r6 to r10."""

    caller: _Image
    after: int
    saved: list[int]
    loops: int = 0


class Machine:
    """An emulated kernel that runs programs one after the other.

    ``maps`` are made from their specs and found by name. ``helpers`` (by name) add to the emulated
    ones or replace them; ``kfuncs`` are by symbol, or ``#id``. ``budget`` limits the instructions
    of one run. ``packet`` is what the legacy packet loads read.
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
    ) -> None:
        from pybpf.vm.helpers import EMULATED

        self.world = World() if world is None else world
        self.memory = AddressSpace(byteorder)
        self.maps: dict[str, Map] = {}
        self.helpers = {HELPERS[name]: row for name, row in {**EMULATED, **(helpers or {})}.items()}
        self.kfuncs = dict(kfuncs or {})
        self.regs: list[int] = list(UNSET)
        self.ctx = 0
        self.packet: bytes | bytearray = b""
        self.max_loops = max_loops
        self._budget = budget
        self._left: repeat[None] = repeat(None, 0)
        self._trace = trace
        self._handles: dict[int, Map] = {}
        self._functions: dict[int, tuple[_Image, int]] = {}
        self._images: dict[int, _Image] = {}
        self._frames: list[_Frame] = []
        self._stacks: list[Region] = []
        self._tail_calls = 0
        for spec in maps:
            self.add_map(spec)
        self._image = _Image(Program(()), [])
        self._resume = 0

    def add_map(self, spec: MapSpec) -> Map:
        """Make a map and return it; raises PybpfError for a type that is not emulated."""
        found = _make_map(spec, self.memory, self.world.cpus)
        self.maps[spec.name] = found
        self._handles[found.handle.address] = found
        return found

    def run(self, program: Program, *arguments: int) -> int:
        """Run a program with ``arguments`` in r1, r2…; the first is its context. Return r0.

        Raises VmFault, and EncodingError for a program whose jumps lead nowhere.
        """
        image = self._load(program)
        self.regs[:] = UNSET
        self.regs[R1 : R1 + len(arguments)] = [value & MASK64 for value in arguments]
        self.ctx = arguments[0] if arguments else 0
        self._tail_calls = 0
        self._left = repeat(None, self._budget)
        self._image = image
        try:
            self.enter(DONE)
            self._execute(0)
            return self.regs[R0]
        finally:
            self._clean_up()

    def call(self, function: int, *arguments: int) -> int:
        """Call back the function a lddw_func has the address of, for a helper; return r0."""
        found = self._functions.get(function)
        if found is None:
            raise Trap(f"{function:#x} is not the address of a function")
        caller = self._image
        self.enter(DONE)
        self.regs[R1 : R1 + len(arguments)] = arguments
        self._image, start = found
        self._execute(start)
        self._image = caller
        return self.regs[R0]

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
        self._frames.append(_Frame(self._image, after, self.regs[R6:]))
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
        if frame.after == DONE or frame.caller is self._image:
            return frame.after
        self._image, self._resume = frame.caller, frame.after
        return SWITCH

    def may_loop(self) -> bool:
        """Count a may_goto of this frame; return whether it lets the program go on."""
        frame = self._frames[-1]
        frame.loops += 1
        return frame.loops <= self.max_loops

    def tail_call(self, ctx: int, table: int, index: int, after: int) -> int:
        """Replace the running function by a program; return ``after`` where there is none."""
        self.check_context(ctx)
        programs = self.map_at(table)
        if not isinstance(programs, ProgArray):
            raise Trap(f"map {programs.spec.name} holds no programs")
        program = programs.get(index)
        if program is None or self._tail_calls == MAX_TAIL_CALLS:
            return after
        self._tail_calls += 1
        self.regs[R1] = ctx
        self.regs[R6:R10] = UNSET[R6:R10]
        self._image, self._resume = self._load(program), 0
        return SWITCH

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
        region = self.memory.add(bytearray(), "a function", writable=False)
        self._functions[region.address] = (self._image, index)
        return region.address

    def _load(self, program: Program) -> _Image:
        image = self._images.get(id(program))
        if image is None:
            # The image keeps the program alive, so nothing else can get its id.
            image = _Image(program, [])
            caller, self._image = self._image, image
            steps = build_steps(self, program)
            self._image = caller
            image.steps = [self._traced(program, i, step) for i, step in enumerate(steps)]
            self._images[id(program)] = image
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

    def _execute(self, pc: int) -> None:
        """Run from ``pc`` of the current image until the frame entered last with DONE exits."""
        steps = self._image.steps
        try:
            for _ in self._left:
                pc = steps[pc]()
                if pc < 0:
                    if pc == DONE:
                        return
                    steps, pc = self._image.steps, self._resume
        except Trap as trap:
            raise _fault(self._image.program, pc, str(trap)) from None
        reason = f"the budget of {self._budget} instructions is used up"
        raise _fault(self._image.program, pc, reason)

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


def _fault(program: Program, pc: int, reason: str) -> VmFault:
    from pybpf.isa.disassembler import format_insn

    text = format_insn(program.insns[pc]) if pc < len(program.insns) else "(end)"
    return VmFault(pc, text, reason)


def _make_map(spec: MapSpec, memory: AddressSpace, cpus: int) -> Map:
    match spec.type:
        case MapType.HASH | MapType.PERCPU_HASH | MapType.LRU_HASH | MapType.LRU_PERCPU_HASH:
            return HashMap(spec, memory, cpus)
        case MapType.ARRAY | MapType.PERCPU_ARRAY:
            return ArrayMap(spec, memory, cpus)
        case MapType.ARRAY_OF_MAPS | MapType.HASH_OF_MAPS:
            return MapOfMaps(spec, memory)
        case MapType.PROG_ARRAY:
            return ProgArray(spec, memory)
        case MapType.RINGBUF:
            return RingBuffer(spec, memory)
        case MapType.PERF_EVENT_ARRAY:
            return PerfEventArray(spec, memory, cpus)
        case MapType.STACK_TRACE:
            return StackTraces(spec, memory)
        case _:
            raise PybpfError(
                f"map {spec.name}: the VM does not emulate maps of type {spec.type.name}"
            )
