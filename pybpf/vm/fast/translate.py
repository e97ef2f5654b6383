"""A program to the source of a Python module with a function for each of its functions.

Registers are local variables, blocks nested ``if``s, loops ``while``s:

    def f0(vm, r1, r2, r3, r4, r5):            # vm is the run.Run that calls it
        r10 = vm.frame()
        left, b = vm.left, 0
        while True:
            if b == 0: …; b = 1; continue      # a region: a root and the blocks below it
            else:                              # one that is entered again and again
                for left in range(left, 7, -8): …

``left`` is how many instructions may still run. A region begins only where that is enough for its
longest way; else the function goes on in step mode, which knows exactly where it ends. Every line
belongs to an instruction, so that the traceback of a Trap tells which one did it.
"""

from __future__ import annotations

import re
from heapq import heappop, heappush

from pybpf.dataclass import dataclass, field
from pybpf.isa.insn import Insn
from pybpf.isa.table import Form
from pybpf.vm.fast.counted import Counter, find_counter
from pybpf.vm.fast.regions import Graph, reads, roots
from pybpf.vm.fast.values import ANY64, Source, State, Values, frame, join, refined
from pybpf.vm.fast.words import Words

_PATIENCE = 2
"""How often a region is looked at before its ranges are widened."""
_FEW = 2
"""How few times round a loop are not worth counting."""
_REGISTERS = ", ".join(f"r{n}" for n in range(11))


@dataclass(slots=True)
class _Region:
    """What one region became: its lines, the states it leaves with, and what it costs."""

    body: Source = field(default_factory=Source)
    edges: list[tuple[int, State]] = field(default_factory=list)
    loops: list[int] = field(default_factory=list)
    way: tuple[tuple[int, bool], ...] = ()
    longest: int = 0
    calls: list[int] = field(default_factory=list)


class Function:
    """A function being translated: ``entry`` is its first instruction."""

    def __init__(self, code: Graph, entry: int, words: Words) -> None:
        self._code = code
        self._entry = entry
        self._words = words
        self._roots: dict[int, int] = {}
        self._now = _Region()
        self._root = entry
        self._way: list[tuple[int, bool]] = []
        self._counter: Counter | None = None
        self._states: dict[int, State] = {}

    def write(self, out: Source) -> bool:
        """Append the function's source; return False for one that this mode does not take."""
        found = roots(self._code, self._entry)
        if found is None:
            return False
        self._roots = {start: number for number, start in enumerate(found)}
        regions = self._settle()
        entry = self._entry
        out.add(0, f"def f{entry}(vm, r1, r2, r3, r4, r5):", entry)
        out.add(1, "r0 = r6 = r7 = r8 = r9 = 0", entry)
        out.add(1, "r10 = vm.frame()", entry)
        out.add(1, "s8, s4, s2, s1 = vm.views()", entry)
        out.add(1, "left, b = vm.left, 0", entry)
        out.add(1, "while True:", entry)
        reached = [start for start in found if start in regions]
        self._dispatch(out, 2, reached, regions)
        return True

    def _settle(self) -> dict[int, _Region]:
        """Write every region with what is known at its root on all ways to it.

        In the order of the text, so that a loop is settled before what follows it is looked at.
        """
        at = self._states
        at[self._entry] = [*[ANY64] * 10, frame(0)]
        visits: dict[int, int] = {}
        regions: dict[int, _Region] = {}
        work = [self._entry]
        waiting: set[int] = set()
        while work:
            root = heappop(work)
            waiting.discard(root)
            region = regions[root] = self._write_region(root, at[root])
            visits[root] = visits.get(root, 0) + 1
            for goal, state in region.edges:
                before = at.get(goal)
                if before is None:
                    now = state
                else:
                    widen = visits.get(goal, 0) > _PATIENCE
                    pairs = zip(before, state, strict=True)
                    now = [join(a, b, widen=widen) for a, b in pairs]
                if now != before:
                    at[goal] = now
                    if goal not in waiting:
                        waiting.add(goal)
                        heappush(work, goal)
        return regions

    def _dispatch(
        self, out: Source, depth: int, some: list[int], regions: dict[int, _Region]
    ) -> None:
        if len(some) > 1:
            middle = len(some) // 2
            pc = some[middle]
            out.add(depth, f"if b < {self._roots[pc]}:", pc)
            self._dispatch(out, depth + 1, some[:middle], regions)
            out.add(depth, "else:", pc)
            self._dispatch(out, depth + 1, some[middle:], regions)
            return
        self._finish(out, depth, some[0], regions[some[0]])

    def _finish(self, out: Source, depth: int, root: int, region: _Region) -> None:
        """Write a region with what counts the instructions that it runs."""
        short = f"if left < {region.longest}: return vm.resume({root}, left, {_REGISTERS})"
        if len(region.loops) == 1 and not region.calls:
            step = region.loops[0]
            self._counted(out, depth, root, region)
            out.add(depth, short, root)
            out.add(depth, f"for left in range(left, {region.longest - 1}, -{step}):", root)
            _fill(out, depth + 1, region, _Gaps("continue", "break"))
            out.add(depth, "else:", root)
            out.add(depth + 1, f"left -= {step}", root)
            out.add(depth + 1, f"return vm.resume({root}, left, {_REGISTERS})", root)
        elif region.loops:
            out.add(depth, "while True:", root)
            out.add(depth + 1, short, root)
            _fill(out, depth + 1, region, _Gaps("left -= {cost}; continue", "break"))
        else:
            out.add(depth, short, root)
            _fill(out, depth, region, _Gaps("", "continue"))

    def _counted(self, out: Source, depth: int, root: int, region: _Region) -> None:
        """Write the times that a loop surely goes round, if it counts them itself."""
        state = self._states[root].copy()
        counter = find_counter(self._code.program.insns, region.way, state)
        if counter is None:
            return
        values = Values(state, out, depth)
        values.pc = root
        for number in reads(counter.insn):
            values.tight(number)
        step, reg = region.loops[0], f"r{counter.reg}"
        variable = reg if counter.idle else "i"
        self._count(out, depth, root, counter, region)
        out.add(depth + 1, f"for {variable} in range(c, e, {counter.step}):", root)
        if not counter.idle:
            out.add(depth + 2, f"{reg} = i", root)
        self._counter = counter
        body = self._write_region(root, state)
        self._counter = None
        ran = f" - ({variable} - c) // {counter.step} * {step}"
        _fill(out, depth + 2, body, _Gaps("continue", "break", ran))
        out.add(depth + 1, "else:", root)
        out.add(
            depth + 2,
            f"{reg} = e & {(1 << counter.insn.op.width) - 1:#x}; left -= n * {step}",
            root,
        )
        if len(body.edges) > 1:
            out.add(depth + 1, f"if b != {self._roots[root]}: continue", root)

    @staticmethod
    def _count(out: Source, depth: int, root: int, counter: Counter, region: _Region) -> None:
        """Write what counts the rounds: ``n`` of them, from the counter ``c`` to before ``e``."""
        step, longest, reg = region.loops[0], region.longest, f"r{counter.reg}"
        out.add(depth, f"n = {counter.rounds()}", root)
        out.add(depth, f"if n * {step} > left - {longest}: n = (left - {longest}) // {step}", root)
        out.add(depth, f"if n > {_FEW}:", root)
        end = f"{reg} + n * {counter.step}" if counter.step > 0 else f"{reg} - n * {-counter.step}"
        out.add(depth + 1, f"c, e = {reg}, {end}", root)

    def _write_region(self, root: int, state: State) -> _Region:
        self._now = _Region()
        self._root = root
        self._way = []
        self._block(root, state.copy(), 0, 0)
        return self._now

    def _block(self, start: int, state: State, cost: int, depth: int) -> None:
        """Write a block and what follows it; ``cost`` instructions of the region ran before."""
        while True:
            block = self._code.blocks[start]
            body = self._now.body
            values = Values(state, body, depth)
            for pc in range(start, block.end):
                cost += 1
                values.pc = pc
                self._way.append((pc, False))
                self._insn(self._code.program.insns[pc], pc, values, cost)
            self._now.longest = max(self._now.longest, cost)
            last = self._code.program.insns[block.end - 1]
            form = last.op.form
            if form is Form.EXIT:
                return
            following = self._code.after(block)
            if form in {Form.BRANCH_IMM, Form.BRANCH_REG, Form.MAY_GOTO} and len(following) == 2:
                pc = block.end - 1
                if self._counter is not None and self._counter.test == pc:
                    # It holds as long as the counting loop runs.
                    following = following[1:] if self._counter.stays else following
                else:
                    self._branch(last, pc, values, following[1], cost, depth)
                state = values.state
                if form is Form.BRANCH_IMM:
                    state = refined(state, last, taken=False)
            if following[0] in self._roots:
                self._edge(following[0], state, cost, depth, block.end - 1)
                return
            start = following[0]

    def _branch(
        self, insn: Insn, pc: int, values: Values, goal: int, cost: int, depth: int
    ) -> None:
        taken = values.state
        if insn.op.form is Form.MAY_GOTO:
            condition = "not may_loop()"
        else:
            condition = values.condition(insn)
            taken = refined(values.state, insn, taken=True)
        values.emit(f"if {condition}:")
        length = len(self._way)
        self._way[-1] = (pc, True)
        if goal in self._roots:
            self._edge(goal, taken, cost, depth + 1, pc)
        else:
            self._block(goal, taken.copy(), cost, depth + 1)
        del self._way[length:]
        self._way[-1] = (pc, False)

    def _edge(self, goal: int, state: State, cost: int, depth: int, pc: int) -> None:
        """Go to a root."""
        self._now.edges.append((goal, state.copy()))
        if goal == self._root:
            self._now.loops.append(cost)
            self._now.way = tuple(self._way)
            self._now.body.add(depth, f"<again {cost}>", pc)
        else:
            self._now.body.add(depth, f"left = <left {cost}>; b = {self._roots[goal]}; <leave>", pc)

    def _insn(self, insn: Insn, pc: int, values: Values, cost: int) -> None:
        form = insn.op.form
        if form in {Form.ALU_IMM, Form.ALU_REG, Form.NEG, Form.MOVSX, Form.SWAP}:
            if self._counter is None or self._counter.update != pc or not self._counter.idle:
                values.compute(insn)
        elif form in {Form.BRANCH_IMM, Form.BRANCH_REG, Form.JUMP, Form.JUMP_LONG, Form.MAY_GOTO}:
            pass
        elif form is Form.EXIT:
            values.emit(f"vm.left = <left {cost}>")
            values.tight(0)
            values.emit("return vm.leave(r0)")
        else:
            nested = self._words.write(insn, pc, self._code.goals[pc], values, cost)
            if nested:
                self._now.calls.append(pc)
                values.emit(
                    f"if left < <longest>: return vm.resume({pc + 1}, left - {cost}, {_REGISTERS})"
                )


@dataclass(frozen=True, slots=True)
class _Gaps:
    """What a region says where it goes round again, where it leaves, and what it ran before."""

    again: str
    leave: str
    ran: str = ""


_GAP = re.compile(r"<(again|left|leave|longest) ?(\d*)>")


def _fill(out: Source, depth: int, region: _Region, gaps: _Gaps) -> None:
    """Write the body of a region, with what depends on the loop around it filled in."""

    def filled(gap: re.Match[str]) -> str:
        match gap[1]:
            case "again":
                return gaps.again.format(cost=gap[2])
            case "left":
                return f"left{gaps.ran} - {gap[2]}"
            case "leave":
                return gaps.leave
            case _:
                return f"{region.longest}"

    for line, pc in zip(region.body.lines, region.body.pcs, strict=True):
        out.add(depth, _GAP.sub(filled, line) if "<" in line else line, pc)
