"""One run of the verifier: what all steps share, and how they put off the paths not taken.

A step is a function made once per slot: ``step(env, state) -> int``. It executes the instruction at
``state.at`` on ``state.frame``, and returns the slot to go on with, or ``END`` where the path ends
(the main program's exit). It raises ``Refusal`` with the kernel's message, or ``Unmodelled``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from pybpf.isa.abi import ProgFlag
from pybpf.verifier import kinds
from pybpf.verifier.refusal import Refusal, needs_types
from pybpf.verifier.state import State

if TYPE_CHECKING:
    from pybpf.verifier.attach import Target
    from pybpf.verifier.contexts import Context
    from pybpf.verifier.kerneltypes import KernelTypes
    from pybpf.verifier.limits import Limits
    from pybpf.verifier.program import Checked
    from pybpf.verifier.rules import Rules

END = -1
MAX_FRAMES = 8
"""The most frames of any kernel: words of bits are made for so many."""
Step = Callable[["Env", State], int]


class Log(Protocol):
    """What ``--log`` listens to (log.py); None where nobody does."""

    def insn(self, env: Env, state: State) -> None:
        """Show the instruction that is executed next."""

    def done(self, env: Env, state: State) -> None:
        """Show the registers that the last instruction changed."""

    def note(self, text: str) -> None:
        """Show a line of the kernel's: ``from 5 to 9: safe``, ``propagating r1``."""


class Env:
    """What a run knows and counts. ``steps``: by slot, made when first needed.

    ``pending``: states to be explored later, last in first out. ``explored``: checkpoints by slot.
    ``pointer_kinds``: by slot, what loads and stores were first used with; ``masks``: see masking;
    ``touched``: backtrack; ``context``: context. ``called``: global functions, by number.
    ``facts``: what calls.py keeps by slot (the maps that a call was given, …). ``target``: what a
    typed program is attached to. ``sleepable``: the program may sleep. ``calls_nothing``: it comes
    to a call of a function that the kernel has not.
    """

    def __init__(
        self, program: Checked, rules: Rules, limits: Limits, log: Log | None = None,
        types: KernelTypes | None = None, target: Target | None = None,
    ) -> None:  # fmt: skip
        self.program = program
        self.rules = rules
        self.limits = limits
        self.log = log
        self.known_types = types
        self.target = target
        self.slots = program.slots
        self.prog_type = program.subject.prog_type
        self.privileged = rules.privileged
        flags = program.subject.prog_flags
        self.strict = bool(flags & ProgFlag.STRICT_ALIGNMENT)
        self.sleepable = bool(flags & ProgFlag.SLEEPABLE)
        self.steps: list[Step | None] = [None] * len(program.slots)
        self.pending: list[State] = []
        self.explored: dict[int, list[State]] = {}
        self.processed = 0
        self.last_id = 0
        self.total_states = 0
        self.peak_states = 0
        self.jumps = 0
        self.jumps_before = 0
        self.processed_before = 0
        self.test_states = bool(flags & ProgFlag.TEST_STATE_FREQ)
        self.called: set[int] = set()
        self.facts: dict[int, object] = {}
        self.pointer_kinds: dict[int, int] = {}
        self.masks: dict[int, tuple[str, bool, int]] = {}
        self.touched: list[int] = []
        self.context: Context | None = None
        self.calls_nothing = False
        self.seen: set[int] = set()
        self.at = 0

    @property
    def types(self) -> KernelTypes:
        """The kernel's types; raises Unmodelled where they are not given."""
        if self.known_types is None:
            raise needs_types("access to a structure of the kernel")
        return self.known_types

    def new_id(self) -> int:
        """Return a number that no register or reference has yet."""
        self.last_id += 1
        return self.last_id

    def restart(self) -> None:
        """Forget the paths of what was verified, before another function is."""
        self.pending.clear()
        self.explored.clear()
        self.jumps = self.jumps_before = 0
        self.processed_before = self.processed

    def check_pending(self) -> None:
        """Raise Refusal where too many paths wait."""
        most = self.rules.limits.jump_sequence
        if len(self.pending) > most:
            raise Refusal(f"The sequence of {most + 1} jumps is too complex.", errno=7)

    def push(self, state: State, target: int, *, speculative: bool = False) -> State:
        """Put off a path: return a copy of ``state`` that will go on at slot ``target``.

        The caller may still change the copy. Raises Refusal where too many wait.
        """
        other = state.copy()
        other.at = target
        other.came_from = state.at
        other.trail = (state.at, state.note, state.trail)
        other.speculative = state.speculative or speculative
        self.pending.append(other)
        self.check_pending()
        if other.parent is not None:
            other.parent.branches += 1
        return other

    def precise(self, state: State, regno: int) -> None:
        """Note that the verdict depends on the value of a scalar register of the top frame."""
        from pybpf.verifier.backtrack import mark_precise

        mark_precise(self, state, state.frame.index, regno)

    def precise_slot(self, state: State, frame: int, spi: int) -> None:
        """Note that the verdict depends on the scalar spilled in a slot of the stack."""
        from pybpf.verifier.backtrack import SLOTS, mark_masks, no_marks

        masks = no_marks()
        masks[frame] = 1 << SLOTS + spi
        mark_masks(self, state, masks)

    def iterates(self, state: State) -> bool:
        """Whether the iterator that r1 points to, at a call that advances it, is not at its end."""
        from pybpf.verifier.calls import iterator_is_active

        return iterator_is_active(self, state)

    def words(self, kind: int) -> str:
        """Return the messages' word for a kind, in this kernel."""
        text = kinds.words(kind)
        # MEM_RINGBUF was MEM_ALLOC before Linux 6.2.
        return text if self.rules.since(6, 2) else text.replace("ringbuf_", "alloc_")
