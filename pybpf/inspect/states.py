"""A program that a verifier walks through in; what is known before each of its instructions out.

A slot may be reached on many paths: what its registers held the first times is kept, each value
once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybpf.verifier.kinds import NOT_INIT
from pybpf.verifier.log import show_reg, show_slot

if TYPE_CHECKING:
    from pybpf.verifier.env import Env
    from pybpf.verifier.state import Reg, State

_VISITS, _VALUES = 12, 4
MORE = "…"


class States:
    """Listens to a verification (``verify(…, log=…)``).

    ``visits``: how often a slot was reached. ``values``: by slot and the name of a register or a
    place on the stack (``R1``, ``fp-8``), what it held, as the kernel writes it; the last is ``…``
    where there was more.
    """

    def __init__(self) -> None:
        self.visits: dict[int, int] = {}
        self.values: dict[int, dict[str, list[str]]] = {}
        # Registers never change, so that a text is that of the object; which must live for that.
        self._texts: dict[tuple[int, int], tuple[Reg, str]] = {}

    def insn(self, env: Env, state: State) -> None:  # noqa: ARG002 - what a log is called with
        """Keep what is known before an instruction."""
        count = self.visits[state.at] = self.visits.get(state.at, 0) + 1
        if count > _VISITS:
            return
        frame = state.frame
        known = self.values.setdefault(state.at, {})
        for number, reg in enumerate(frame.regs):
            if reg.kind != NOT_INIT:
                _add(known, f"R{number}", self._text(reg, frame.index))
        for spi in sorted(frame.stack):
            if text := show_slot(frame.stack[spi], frame.index):
                _add(known, f"fp-{8 * spi + 8}", text)

    def _text(self, reg: Reg, frame: int) -> str:
        found = self._texts.get((id(reg), frame))
        if found is None:
            found = self._texts[id(reg), frame] = reg, show_reg(reg, frame)
        return found[1]

    def done(self, env: Env, state: State) -> None:
        """Nothing: what is known afterwards is known before the next."""

    def note(self, text: str) -> None:
        """Nothing: paths are not told apart."""


def _add(known: dict[str, list[str]], name: str, text: str) -> None:
    values = known.setdefault(name, [])
    if text not in values and MORE not in values:
        values.append(text if len(values) < _VALUES else MORE)
