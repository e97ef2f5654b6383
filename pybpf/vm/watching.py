"""Watching a run: a machine's instructions in; lines that say what each of them changed out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from pybpf.dataclass import dataclass
from pybpf.errors import PybpfError
from pybpf.isa.disassembler import format_insn
from pybpf.isa.semantics import MASK64
from pybpf.vm.memory import Trap

if TYPE_CHECKING:
    from pybpf.isa.insn import Program
    from pybpf.vm.machine import Machine

_WIDTH = 44
# watch : 'r' NUMBER | ('r' NUMBER | 'mem' | 'ctx') [('+' | '-') NUMBER] ':' NUMBER
_WATCH = re.compile(
    r"(r(?:10|[0-9])|mem|ctx)(?:([+-])([0-9]{1,20}|0x[0-9a-fA-F]{1,16}))?(?::([0-9]{1,9}))?"
)
_LONGEST = 4096


class WatchError(PybpfError):
    """What cannot be watched."""


@dataclass(frozen=True, slots=True)
class Watch:
    """A register (``size`` 0), or ``size`` bytes at an offset from what a register holds.

    The register -1 is r1 as it was when the program began: its memory or context.
    """

    text: str
    register: int
    offset: int = 0
    size: int = 0


def parse_watch(text: str) -> Watch:
    """Read ``r3``, ``r10-8:8``, ``mem+4:2`` or ``ctx:16``; raises WatchError."""
    found = _WATCH.fullmatch(text)
    if found is None:
        raise WatchError(
            f"'{text}' is nothing to watch\n  hint: r3, r10-8:8 (8 bytes on the stack), mem+4:2"
        )
    base, sign, number, size = found.groups()
    register = int(base[1:]) if base.startswith("r") else -1
    if size is None and (register < 0 or sign):
        raise WatchError(f"'{text}' does not say how many bytes\n  hint: such as {text}:8")
    if size is not None and not 0 < int(size) <= _LONGEST:
        raise WatchError(f"'{text}': 1 to {_LONGEST} bytes can be watched")
    offset = int(number or "0", 0) * (-1 if sign == "-" else 1)
    return Watch(text, register, offset, int(size or 0))


class Tracer:
    """A ``Trace`` that passes lines on: every instruction with what it set, and watched changes."""

    def __init__(
        self, emit: Callable[[str], None], *, steps: bool = True, watches: tuple[Watch, ...] = ()
    ) -> None:
        self.machine: Machine | None = None
        self._emit = emit
        self._steps = steps
        self._watches = watches
        self._values: dict[Watch, str] = {}
        self._before: tuple[Program, int, tuple[int | None, ...]] | None = None
        self._start = 0

    def __call__(self, program: Program, index: int, regs: tuple[int | None, ...]) -> None:
        """Tell what the instruction before did."""
        if self._before is None:
            self._start = regs[1] or 0
        self._tell(regs)
        self._before = program, index, regs

    def finish(self) -> None:
        """Tell of the last instruction, whose function and stack are gone."""
        if self._before is not None:
            self._tell(self._before[2], ended=True)

    def _tell(self, regs: tuple[int | None, ...], *, ended: bool = False) -> None:
        place = "start"
        if self._before is not None:
            program, index, before = self._before
            place = f"{index}: {format_insn(program.insns[index])}"
            if self._steps:
                changes = " ".join(
                    f"r{n}={'?' if now is None else hex(now)}"
                    for n, (was, now) in enumerate(zip(before, regs, strict=True))
                    if was != now
                )
                self._emit(f"{place:{_WIDTH}} {changes}".rstrip())
        for watch in () if ended else self._watches:
            now = self._look(watch, regs)
            was = self._values.get(watch)
            if now != was:
                self._values[watch] = now
                if place == "start" and now == "?":
                    continue
                self._emit(f"  {watch.text} = {now}" + ("" if self._steps else f"  ({place})"))

    def _look(self, watch: Watch, regs: tuple[int | None, ...]) -> str:
        value = self._start if watch.register < 0 else regs[watch.register]
        if value is None:
            return "?"
        if watch.size == 0:
            return f"{value} ({value:#x})"
        assert self.machine is not None
        address = (value + watch.offset) & MASK64
        try:
            return self.machine.memory.read(address, watch.size).hex(" ")
        except Trap:
            return "?"
