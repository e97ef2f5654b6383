"""Random ir.Functions that the kernel's verifier accepts, for fuzzing the compiler's back end.

They compute with what the context and the maps hold, through branches that merge, and leave their
results in maps. A function reads nothing that it has not set, keeps no pointer into a map across a
change of that map, and has few enough paths for the verifier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal

from hypothesis import strategies as st

from pybpf.compiler import ir
from pybpf.testing.irmachine import Surroundings, Table, evaluate

CTX_SIZE = 96
"""What a raw tracepoint's context holds at most: twelve 64-bit arguments."""

TABLES = {
    "table": Table(8, 16),
    "out": Table(4, 256, array=True),
    ".scratch": Table(4, 32768, array=True),
}
"""The maps the functions use, and the one that allocation may put slots into."""

SCALARS = ("bpf_get_current_pid_tgid", "bpf_get_current_uid_gid")
"""Helpers whose results the functions use: each always returns the same during a run."""

PROCESS = (77, 78, 5, 6)
"""tgid, thread, gid and uid of the process that ``random_surroundings`` tell of."""

_CLOCKS = ("bpf_ktime_get_ns", "bpf_get_prandom_u32")
_INTERESTING = (
    0, 1, -1, 2, 3, 7, 8, 10, 31, 32, 63, 64, 255, 256, 1000, 0x7FFF, 0x8000, 0xFFFF,
    0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 32, -(1 << 31), -(1 << 31) - 1, -(1 << 63),
    (1 << 63) - 1, 0x0123456789ABCDEF, -2, -7, -128,
)  # fmt: skip


def functions(*, values: int = 0, size: int = 30) -> st.SearchStrategy[ir.Function]:
    """Draw functions of up to ``size`` operations; see ``random_function``."""
    randoms = st.integers(0, 0xFFFFFFFF).map(Random)
    return st.builds(
        random_function, randoms, values=st.integers(0, values), size=st.integers(0, size)
    )


def random_function(random: Random, *, values: int = 0, size: int = 30) -> ir.Function:
    """Return a function of about ``size`` operations.

    ``values`` is how many values are computed first and read last, so that they are live together.
    """
    generator = _Generator(random)
    kept = [generator.scalar() for _ in range(values)]
    if kept:
        generator.clock()
    generator.statements(size, depth=3)
    for index, register in enumerate(kept):
        generator.output(register, 8 * index % 256)
    generator.finish()
    return ir.Function("random", tuple(generator.blocks), generator.registers)


def random_surroundings(
    random: Random, *, byteorder: Literal["little", "big"] = "little"
) -> Surroundings:
    """Return a process, a context with numbers of all sizes, and empty maps for a function."""
    sizes = [random.choice((1, 2, 4, 8)) for _ in range(CTX_SIZE // 8)]
    numbers = [random.choice((0, 1, random.getrandbits(8 * size))) for size in sizes]
    signs = [random.choice((1, 1, -1)) for _ in sizes]
    ctx = b"".join(
        (sign * number % (1 << 64)).to_bytes(8, byteorder)
        for sign, number in zip(signs, numbers, strict=True)
    )
    results = {
        "bpf_get_current_pid_tgid": PROCESS[0] << 32 | PROCESS[1],
        "bpf_get_current_uid_gid": PROCESS[2] << 32 | PROCESS[3],
        "bpf_ktime_get_ns": random.getrandbits(62),
        "bpf_get_prandom_u32": random.getrandbits(32),
    }
    return Surroundings(ctx, TABLES, results, b"a name", byteorder)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did: its exit value (32 bits, unsigned), and what the maps hold after it."""

    exit: int
    table: Mapping[bytes, bytes]
    out: bytes


def evaluate_afresh(function: ir.Function, surroundings: Surroundings) -> Outcome:
    """Evaluate a random function, or what a pass made of it, with empty maps."""
    around = replace(surroundings, contents={})
    code = evaluate(function, around)
    out = around.entries("out").get(bytes(4), bytes(TABLES["out"].value_size))
    return Outcome(code % (1 << 32), around.entries("table"), out)


@dataclass(slots=True)
class _Scope:
    """What may be used at one place, as it is set on every path to it.

    ``scalars`` are numbers, ``merged`` those of them that may be set anew, ``memory`` slots,
    ``pointers`` addresses of entries of the table, ``made`` operations that could be repeated.
    """

    scalars: list[ir.VReg] = field(default_factory=list)
    merged: list[ir.VReg] = field(default_factory=list)
    memory: list[ir.SlotRef] = field(default_factory=list)
    pointers: list[ir.VReg] = field(default_factory=list)
    made: list[Callable[[ir.VReg], ir.Op]] = field(default_factory=list)

    def copy(self) -> _Scope:
        return _Scope(
            [*self.scalars], [*self.merged], [*self.memory], [*self.pointers], [*self.made]
        )


class _Generator:
    """The blocks so far, and the scope at their end."""

    def __init__(self, random: Random) -> None:
        self.blocks: list[ir.Block] = []
        self.registers = 1
        self._random = random
        self._label = ir.Label("entry")
        self._instrs: list[ir.Instr] = []
        self._labels = self._slots = self._changes = 0
        self._branches = 10
        self._scope = _Scope()

    def statements(self, count: int, depth: int) -> None:
        """Add operations, nested ``depth`` branches deep at most."""
        plain: list[Callable[[], object]] = [
            self.scalar, self.scalar, self.scalar, self.scalar, self.repeat, self.repeat,
            self.slot_access, self.slot_access, self.atomic, self.address, self.clock,
            self.update, self.delete, self.comm, self.pointer_access, self.reassign,
            lambda: self.output(self._pick(), 8 * self._random.randrange(32)),
        ]  # fmt: skip
        while count > 0:
            if depth and self._branches and self._random.random() < 0.25:
                self._branches -= 1
                inner = self._random.randrange(count)
                self._random.choice((self.conditional, self.lookup))(inner, depth - 1)
                count -= inner
            else:
                self._random.choice(plain)()
            count -= 1

    def finish(self) -> None:
        """Exit with a constant."""
        self._end(ir.Exit(self._random.choice((0, 0, 1, -1))))

    def _add(self, op: ir.Op) -> None:
        self._instrs.append(ir.Instr(op))

    def _end(self, terminator: ir.Terminator) -> None:
        self.blocks.append(ir.Block(self._label, tuple(self._instrs), terminator))
        self._instrs = []

    def _new_label(self) -> ir.Label:
        self._labels += 1
        return ir.Label(f"L{self._labels}")

    def _register(self) -> ir.VReg:
        self.registers += 1
        return ir.VReg(self.registers - 1)

    def _constant(self) -> int:
        if self._random.random() < 0.9:
            return self._random.choice(_INTERESTING)
        return self._random.randint(-(1 << 63), (1 << 63) - 1)

    def _pick(self) -> ir.VReg:
        """Return a register with a number, most often a recent one."""
        scalars = self._scope.scalars
        if not scalars:
            return self._load_ctx()
        if self._random.random() < 0.7:
            return scalars[-1 - self._random.randrange(min(3, len(scalars)))]
        return self._random.choice(scalars)

    def _operand(self) -> ir.Operand:
        return self._constant() if self._random.random() < 0.4 else self._pick()

    def _set(self, make: Callable[[ir.VReg], ir.Op]) -> ir.VReg:
        """Add an operation whose result is a number."""
        register = self._register()
        self._add(make(register))
        self._scope.scalars.append(register)
        self._scope.made.append(make)
        return register

    def repeat(self) -> None:
        """Do again what was done before."""
        if self._scope.made:
            self._set(self._random.choice(self._scope.made[-8:]))

    def reassign(self) -> None:
        """Set a register anew that merges paths, also to what it is computed from itself."""
        if self._scope.merged:
            register = self._random.choice(self._scope.merged)
            if self._random.random() < 0.5:
                self._add(ir.Copy(register, self._operand()))
            else:
                kind = self._random.choice((ir.BinOp.ADD, ir.BinOp.SUB, ir.BinOp.XOR))
                self._add(ir.Bin(register, kind, 64, register, self._operand()))

    def _load_ctx(self) -> ir.VReg:
        size = self._random.choice((1, 2, 4, 8))
        offset = self._random.randrange(CTX_SIZE // size) * size
        signed = self._random.random() < 0.5
        return self._set(lambda dst: ir.Load(dst, ir.CTX, offset, size, signed))

    def scalar(self) -> ir.VReg:
        """Compute a number from others."""
        random = self._random
        width = random.choice((32, 64))
        match random.randrange(8):
            case 0:
                return self._load_ctx()
            case 1:
                src = self._pick()
                bits, signed = random.choice((8, 16, 32)), random.random() < 0.5
                return self._set(lambda dst: ir.Extend(dst, bits, signed, src))
            case 2 if random.random() < 0.5:
                operand = self._operand()
                return self._set(lambda dst: ir.Copy(dst, operand))
            case 2:
                src = self._pick()
                return self._set(lambda dst: ir.Neg(dst, width, src))
            case 3 if random.random() < 0.5:
                helper = random.choice(SCALARS)
                return self._set(lambda dst: ir.CallHelper(dst, helper, ()))
            case _:
                kind = random.choice(list(ir.BinOp))
                left, right = self._operand(), self._operand()
                return self._set(lambda dst: ir.Bin(dst, kind, width, left, right))

    def _empty_slot(self, size: int) -> ir.SlotRef:
        self._slots += 1
        return ir.SlotRef(ir.Slot(self._slots - 1, size))

    def _filled_slot(self, size: int) -> ir.SlotRef:
        ref = self._empty_slot(size)
        for offset in range(0, size, 8):
            self._add(ir.Store(ref, offset, 8, self._operand()))
        return ref

    def _some_slot(self) -> ir.SlotRef:
        if not self._scope.memory or self._random.random() < 0.3:
            self._scope.memory.append(self._filled_slot(self._random.choice((8, 16, 24, 64))))
        return self._random.choice(self._scope.memory[-2:])

    def slot_access(self) -> None:
        """Store to a slot or load from one."""
        ref = self._some_slot()
        size = self._random.choice((1, 2, 4, 8))
        offset = self._random.randrange(min(ref.slot.size, 16) // size) * size
        base: ir.Base = ref
        if self._random.random() < 0.3:
            base = self._register()
            self._add(ir.Copy(base, ref))
        elif self._random.random() < 0.3:
            base, offset = ir.SlotRef(ref.slot, offset), 0
        self._access(base, offset, size)

    def _access(self, base: ir.Base, offset: int, size: int) -> None:
        if self._random.random() < 0.5:
            self._add(ir.Store(base, offset, size, self._operand()))
        else:
            signed = self._random.random() < 0.5
            self._set(lambda dst: ir.Load(dst, base, offset, size, signed))

    def pointer_access(self) -> None:
        """Access the map value that a lookup found, if there is one."""
        if self._scope.pointers:
            size = self._random.choice((1, 2, 4, 8))
            offset = self._random.randrange(16 // size) * size
            self._access(self._random.choice(self._scope.pointers), offset, size)

    def atomic(self) -> None:
        """Add to memory."""
        size = self._random.choice((4, 8))
        base: ir.Base = self._some_slot()
        if self._scope.pointers and self._random.random() < 0.5:
            base = self._random.choice(self._scope.pointers)
        self._add(ir.AtomicAdd(base, 8 - size, size, self._pick()))

    def address(self) -> None:
        """Reach a slot through an address that is computed."""
        ref = self._some_slot()
        start, place = self._register(), self._register()
        self._add(ir.Copy(start, ref))
        if self._random.random() < 0.5:
            self._add(ir.Bin(place, ir.BinOp.ADD, 64, start, ref.slot.size - 8))
            self._access(place, 0, self._random.choice((1, 8)))
        else:
            index = self._register()
            self._add(ir.Bin(index, ir.BinOp.AND, 64, self._pick(), 7))
            self._add(ir.Bin(place, ir.BinOp.ADD, 64, start, index))
            self._access(place, 0, 1)

    def clock(self) -> None:
        """Call something that changes whenever it is called, and do not let it matter."""
        helper = self._random.choice(_CLOCKS)
        now, nothing = self._register(), self._register()
        self._add(ir.CallHelper(now, helper, ()))
        if self._random.random() < 0.5:
            self._add(ir.Bin(nothing, ir.BinOp.RSH, 64, now, 63))
            self._add(ir.Bin(self._register(), ir.BinOp.ADD, 64, nothing, self._pick()))

    def comm(self) -> None:
        """Let a helper write to a slot."""
        ref = self._empty_slot(16)
        # Linux 6.1 leaves what lies behind the NUL as it was.
        for offset in (0, 8):
            self._add(ir.Store(ref, offset, 8, 0))
        self._add(ir.CallHelper(None, "bpf_get_current_comm", (ref, 16)))
        self._scope.memory.append(ref)

    def output(self, register: ir.VReg, offset: int) -> None:
        """Leave a number where it can be seen."""
        pointer = self._register()
        self._add(ir.MapValueAddr(pointer, "out", offset))
        self._add(ir.Store(pointer, 0, 8, register))

    def _key(self) -> ir.SlotRef:
        ref, small = self._empty_slot(8), self._register()
        self._add(ir.Bin(small, ir.BinOp.AND, 64, self._pick(), 3))
        self._add(ir.Store(ref, 0, 8, small))
        return ref

    def update(self) -> None:
        """Put an entry into the table."""
        key, value = self._key(), self._filled_slot(16)
        flags = self._random.choice((0, 0, 1, 2))
        args = (ir.MapRef("table"), key, value, flags)
        self._status("bpf_map_update_elem", args)
        self._forget_pointers()

    def delete(self) -> None:
        """Remove an entry of the table."""
        args = (ir.MapRef("table"), self._key())
        self._status("bpf_map_delete_elem", args)
        self._forget_pointers()

    def _status(self, helper: str, args: tuple[ir.Argument, ...]) -> None:
        """Change a map. Before Linux 6.4 these helpers leave but 32 bits of their result in r0."""
        status = self._register()
        self._add(ir.CallHelper(status, helper, args))
        self._set(lambda dst: ir.Extend(dst, 32, signed=True, src=status))

    def _forget_pointers(self) -> None:
        """Use no pointer into the table any more, nor what would repeat reading it."""
        self._changes += 1
        self._scope.pointers = []
        self._scope.made = []

    def lookup(self, count: int, depth: int) -> None:
        """Look an entry of the table up, and use its value where there is one."""
        pointer = self._register()
        args = (ir.MapRef("table"), self._key())
        self._add(ir.CallHelper(pointer, "bpf_map_lookup_elem", args))
        branch = ir.Branch(ir.Cmp.EQ, pointer, 0, ir.Label(""), ir.Label(""))
        self._fork(branch, (0, count), depth, pointer)

    def conditional(self, count: int, depth: int) -> None:
        """Do one thing or another, and merge what came out."""
        branch = ir.Branch(
            self._random.choice(list(ir.Cmp)),
            self._pick(),
            self._operand(),
            ir.Label(""),
            ir.Label(""),
            self._random.choice((32, 64)),
        )
        merged = self._fork(branch, (count // 2, count - count // 2), depth, None)
        if depth and self._random.random() < 0.5:
            right = self._random.choice((0, 0, 1, 255))
            cmp = self._random.choice((ir.Cmp.EQ, ir.Cmp.NE, ir.Cmp.GT, ir.Cmp.SLE))
            branch = ir.Branch(cmp, merged, right, ir.Label(""), ir.Label(""))
            self._fork(branch, (1, 1), depth - 1, None)

    def _fork(
        self, branch: ir.Branch, counts: tuple[int, int], depth: int, pointer: ir.VReg | None
    ) -> ir.VReg:
        """Add the two ways of a branch and return a register that is set on both.

        ``pointer`` is an address on the second way.
        """
        labels = (self._new_label(), self._new_label())
        done = self._new_label()
        merged = self._register()
        early = self._random.random() < 0.3
        if early:
            self._add(ir.Copy(merged, self._operand()))
        self._end(ir.Branch(branch.cmp, branch.left, branch.right, *labels, branch.width))
        outer, changes = self._scope, self._changes
        for index, (label, count) in enumerate(zip(labels, counts, strict=True)):
            self._label = label
            self._scope = outer.copy()
            if pointer is not None and index:
                self._scope.pointers.append(pointer)
            self.statements(count, depth)
            if not early or self._random.random() < 0.5:
                truth = self._random.random() < 0.5
                self._add(ir.Copy(merged, index if truth else self._operand()))
            if index and self._random.random() < 0.1:
                self._end(ir.Exit(7))
            else:
                self._end(ir.Goto(done))
        self._scope = outer
        if self._changes > changes:
            outer.pointers, outer.made = [], []
        outer.scalars.append(merged)
        outer.merged.append(merged)
        self._label = done
        return merged
