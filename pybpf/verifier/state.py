"""The nouns of abstract execution: registers, stack slots, frames, and whole states of a path.

Registers and slots never change once they are in a frame: whoever changes one makes another
(``Reg.copy`` and then sets attributes, before anybody else sees it), so that a state is copied by
copying lists of references. Frames and states do change.

What a value is known to be (a scalar's value, or the variable part of a pointer's offset) is an
immutable ``pybpf.verifier.scalar.Scalar``. Frame offsets count bytes from the frame pointer, so are
negative; slot ``n`` holds the bytes ``-8n-8 … -8n-1``, and byte ``i`` of a slot's ``bytes`` is the
one at ``-8n-1-i``, as in the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pybpf.verifier.kinds import NOT_INIT, SCALAR
from pybpf.verifier.scalar import UNKNOWN, ZERO, Scalar, constant

if TYPE_CHECKING:
    from pybpf.verifier.program import MapInfo


class Reg:
    """One register's abstract value.

    ``kind``: see ``kinds``. ``off``: the fixed part of a pointer's offset. ``val``: a scalar's
    value, or the variable part of a pointer's offset (0 for a pointer without one). ``id``: what
    registers that are known equal (or null-checked together, or pointers with one variable offset)
    share; 0 is none. ``delta``: a scalar that is ``id``'s value plus this (None: the value itself;
    kernel: BPF_ADD_CONST). ``ref``: the id of the reference that it holds (``ref_obj_id``), 0 none.
    ``frame``: whose stack a STACK points into. ``map``: of MAP_PTR, MAP_VALUE, MAP_KEY. ``size``:
    of MEM in bytes, and the offset that a BTF_ID's user may ask. ``range``: how many bytes from a
    packet pointer are known to be there (-1: at or beyond the end: see branches). ``btf``: the type
    id that a BTF_ID points to, or the subprogram of a FUNC. ``extra``: what calls.py wants to
    remember with a register (a dynptr's or an iterator's kind and state), compared by ==.
    ``root``: id of the object whose member this is (a dynptr's slice; 0 none). ``uid``: which of
    the inner maps a MAP_PTR or MAP_VALUE is of (kernel: map_uid; 0 unknown or none of them).
    """

    __slots__ = (
        "btf", "delta", "extra", "frame", "id", "kind", "map", "off", "range", "ref", "root",
        "size", "uid", "val",
    )  # fmt: skip

    kind: int
    off: int
    val: Scalar
    id: int
    delta: int | None
    ref: int
    frame: int
    map: MapInfo | None
    size: int
    range: int
    btf: int
    root: int
    uid: int
    extra: object

    def __init__(self, kind: int, val: Scalar = ZERO, off: int = 0) -> None:
        self.kind = kind
        self.val = val
        self.off = off
        self.id = self.ref = self.frame = self.size = self.range = self.btf = 0
        self.root = self.uid = 0
        self.delta = None
        self.map = None
        self.extra = None

    def copy(self) -> Reg:
        """Return another that may be changed."""
        new = _new(Reg)
        new.kind = self.kind
        new.off = self.off
        new.val = self.val
        new.id = self.id
        new.delta = self.delta
        new.ref = self.ref
        new.frame = self.frame
        new.map = self.map
        new.size = self.size
        new.range = self.range
        new.btf = self.btf
        new.root = self.root
        new.extra = self.extra
        new.uid = self.uid
        return new

    def same(self, other: Reg) -> bool:
        """Whether all is equal but ids (which an id map compares)."""
        return (
            self.kind == other.kind
            and self.off == other.off
            and (self.val is other.val or self.val == other.val)
            and self.delta == other.delta
            and self.frame == other.frame
            and self.map is other.map
            and self.size == other.size
            and self.range == other.range
            and self.btf == other.btf
            and self.extra == other.extra
        )

    @property
    def is_null(self) -> bool:
        """Whether it is the scalar 0 (kernel: register_is_null)."""
        return self.kind == SCALAR and self.val.const == 0


_new = object.__new__
UNINIT = Reg(NOT_INIT)
UNKNOWN_REG = Reg(SCALAR, UNKNOWN)
ZERO_REG = Reg(SCALAR, ZERO)


def scalar_reg(val: Scalar) -> Reg:
    """Return a register that holds a scalar and is related to no other."""
    return UNKNOWN_REG if val is UNKNOWN else Reg(SCALAR, val)


def known_reg(value: int) -> Reg:
    """Return a register with a known value; 0 ≤ value < 2**64 (negative ones are wrapped)."""
    return Reg(SCALAR, constant(value))


class Slot(NamedTuple):
    """Eight bytes of stack: what each holds (``kinds.INVALID`` …), and the register spilled there.

    ``reg`` is set where ``bytes[0]`` is SPILL (any of the low bytes), or for dynptrs and iterators.
    """

    bytes: bytes
    reg: Reg | None = None


class Reference(NamedTuple):
    """What must be released before the program ends (or a lock unlocked).

    ``insn`` acquired it; ``kind`` is POINTER or that of a lock; ``frame`` is where (for callbacks);
    ``parent``: the id of the reference that this one is a part of, 0 none. ``owner``: of a lock,
    what its id is unique in (see locks).
    """

    id: int
    insn: int
    kind: int = 0
    frame: int = 0
    parent: int = 0
    owner: object = None


POINTER, LOCK, RES_LOCK, RES_LOCK_IRQ, IRQ = range(5)


class Frame:
    """One call's registers and stack.

    ``stack``: slots by number (absent: never written, INVALID); ``depth``: bytes of stack used.
    ``subprog`` is an index into ``Checked.subprogs``; ``site`` the slot of the call (-1: main).
    ``callback``: None, or how calls.py began this frame: it decides what happens at its exit.
    ``result``: the range that a callback's return value must lie in. ``is_async``: a timer's,
    entered for the ``entry``-th time.
    """

    __slots__ = (
        "callback", "callback_depth", "depth", "entry", "index", "is_async", "regs", "result",
        "site", "stack", "subprog",
    )  # fmt: skip

    def __init__(self, index: int, subprog: int, site: int) -> None:
        self.index = index
        self.subprog = subprog
        self.site = site
        self.regs: list[Reg] = [UNINIT] * 11
        self.stack: dict[int, Slot] = {}
        self.depth = 0
        self.callback: object = None
        self.callback_depth = 0
        self.result: tuple[int, int] | None = None
        self.is_async = False
        self.entry = 0

    def copy(self) -> Frame:
        """Return one that can go on by itself."""
        new = _new(Frame)
        new.index = self.index
        new.subprog = self.subprog
        new.site = self.site
        new.regs = self.regs.copy()
        new.stack = self.stack.copy()
        new.depth = self.depth
        new.callback = self.callback
        new.callback_depth = self.callback_depth
        new.result = self.result
        new.is_async = self.is_async
        new.entry = self.entry
        return new


class State:
    """A point on a path: all frames, what is held, and how it came here.

    ``at``: the slot to be executed next. ``trail``: the instructions since ``parent`` as a linked
    list of (slot, note, rest), for backtracking; ``note`` says what a step did that cannot be seen
    from the instruction (see backtrack); a step puts it into ``note``.
    ``parent``: the checkpoint that it went on from.
    ``branches``: how many paths from here are not yet explored (of a checkpoint).
    ``lock``: what locks.py knows of the spin lock held (None: none is); ``rcu``, ``preempt``: how
    deep in such sections; ``irq``: id of the interrupt flags last saved. ``precise``: of a
    checkpoint, which scalars paths from it depended on (see backtrack). ``may_goto``, ``unroll``,
    ``dfs``: depths that tell loops apart (may_goto_depth, callback_unroll_depth, dfs_depth).
    ``read`` (of a checkpoint) and ``wrote`` (since ``parent``): by frame, bits of stack slots.
    """

    __slots__ = (
        "at", "branches", "came_from", "dfs", "evicted", "frame", "frames", "hits",
        "in_loop", "irq", "lock", "may_goto", "misses", "note", "parent", "precise", "preempt",
        "rcu", "read", "refs", "speculative", "trail", "unroll", "wrote",
    )  # fmt: skip

    frames: list[Frame]
    frame: Frame
    parent: State | None
    trail: Trail

    def __init__(self, frame: Frame) -> None:
        self.frames = [frame]
        self.frame = frame
        self.at = 0
        self.trail = None
        self.parent = None
        self.branches = 1
        self.refs: tuple[Reference, ...] = ()
        self.lock: object = None
        self.rcu = self.preempt = self.irq = 0
        self.may_goto = 0
        self.unroll = 0
        self.dfs = 0
        self.speculative = False
        self.note: object = None
        self.came_from = -1
        self.hits = self.misses = 0
        self.in_loop = self.evicted = False
        self.read: dict[int, int] = {}
        self.wrote: dict[int, int] = {}
        self.precise: dict[int, int] = {}

    def copy(self) -> State:
        """Return one that can go on by itself, from the same checkpoint."""
        new = _new(State)
        new.frames = [frame.copy() for frame in self.frames]
        new.frame = new.frames[-1]
        new.at = self.at
        new.trail = self.trail
        new.parent = self.parent
        new.branches = 1
        new.refs = self.refs
        new.lock = self.lock
        new.rcu = self.rcu
        new.preempt = self.preempt
        new.irq = self.irq
        new.may_goto = self.may_goto
        new.unroll = self.unroll
        new.dfs = self.dfs
        new.speculative = self.speculative
        new.note = None
        new.came_from = self.came_from
        new.hits = new.misses = 0
        new.in_loop = new.evicted = False
        new.read = {}
        new.wrote = self.wrote.copy()
        new.precise = {}
        return new

    def acquire(
        self, ident: int, insn: int, kind: int = POINTER, parent: int = 0, owner: object = None
    ) -> None:
        """Remember a reference; ``ident`` is new, from ``env.new_id()``, or that of a lock."""
        ref = Reference(ident, insn, kind, self.frame.index, parent, owner)
        self.refs = (*self.refs, ref)

    def holds(self, ident: int, kind: int = POINTER) -> bool:
        """Whether a reference is held."""
        return any(ref.id == ident and ref.kind == kind for ref in self.refs)

    def drop(self, ident: int, kind: int = POINTER) -> bool:
        """Forget a reference; False where it is not held. Registers keep their ``ref``."""
        kept = tuple(ref for ref in self.refs if ref.id != ident or ref.kind != kind)
        dropped = len(kept) != len(self.refs)
        self.refs = kept
        return dropped


Trail = tuple[int, object, "Trail"] | None
