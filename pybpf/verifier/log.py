"""Steps of the verifier in; its trace as the kernel would print it (log level 1) out, line by line.

    0: R1=ctx() R10=fp0
    ; return 1; @ prog.c:3
    0: (b7) r0 = 1                        ; R0=1
    1: (95) exit
    processed 2 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0

Registers and stack slots are written as Linux 6.18 and newer write them: all of them where a path
begins, and behind an instruction those that it names or changed. Instructions are written as `pybpf
dis` writes them. Source of the form: print_verifier_state in kernel/bpf/log.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pybpf.verifier import kinds
from pybpf.verifier import opcodes as op
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import BASE, BTF_ID, MAP_KEY, MAP_PTR, MAP_VALUE, MEM, SCALAR, STACK
from pybpf.verifier.program import Raw
from pybpf.verifier.report import Report
from pybpf.verifier.scalar import UNKNOWN, Scalar
from pybpf.verifier.state import Frame, Reg, Slot, State

_COLUMN, _TAB = 40, 8
_U64, _U32 = (1 << 64) - 1, (1 << 32) - 1
_S64, _S32 = 1 << 63, 1 << 31
_DECIMAL_S, _DECIMAL_U = 1 << 15, (1 << 16) - 1
_HERE = ""
_MAPS = frozenset({MAP_PTR, MAP_KEY, MAP_VALUE})


class KernelLog:
    """Listens to a verification (``verify(…, log=…)``) and writes lines, without line ends.

    ``text`` is asked for the instruction at a slot, ``place`` for the source line that it is from.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        text: Callable[[int], str],
        place: Callable[[int], str | None] = lambda _: None,
    ) -> None:
        self._write = write
        self._text = text
        self._place = place
        self._env: Env | None = None
        self._heading: str | None = None
        self._open = ""
        self._source: str | None = None
        self._frame: Frame | None = None
        self._regs: list[Reg] = []
        self._stack: dict[int, Slot] = {}

    def insn(self, env: Env, state: State) -> None:
        """Write where a path begins all that is known, and keep the instruction for ``done``."""
        if self._env is None:
            self._heading = _HERE
        self._env = env
        if self._heading is not None:
            heading = self._heading or f"{state.at}:"
            self._write(f"{heading} {_shown(state, state.frame)}".rstrip())
            self._heading = None
        source = self._place(state.at)
        if source is not None and source != self._source:
            self._write(f"; {source}")
            self._source = source
        self._open = f"{state.at}: ({env.slots[state.at].code:02x}) {self._text(state.at)}"
        self._frame = state.frame
        self._regs, self._stack = state.frame.regs.copy(), state.frame.stack.copy()

    def done(self, env: Env, state: State) -> None:
        """Write the instruction with its operands, and what else it changed."""
        frame, before = state.frame, self._frame
        assert before is not None
        if frame is before:
            changed = [n for n, reg in enumerate(frame.regs) if reg is not self._regs[n]]
            slots = [spi for spi, slot in frame.stack.items() if slot != self._stack.get(spi)]
            numbers = _operands(env.slots[state.at])
            text = " ".join(_parts(state, frame, changed if numbers is None else numbers, slots))
            self._close(f"; {text}" if text else "")
            return
        self._close("")
        if frame.index > before.index:
            self._write(f"caller:\n {_shown(state, before)}\ncallee:\n {_shown(state, frame)}")
            self._heading = _HERE
        elif frame.index < before.index:
            self._write(f"returning from callee:\n {_shown(state, before)}")
            self._write(f"to caller at {before.site + 1}:\n {_shown(state, frame)}")

    def note(self, text: str) -> None:
        """Write a line of the kernel's; one that ends with a colon is a path that begins."""
        if text.endswith(": safe") and self._heading is not None:
            self._write(f"{self._heading} safe")
            self._heading = None
        elif text.endswith(":"):
            self._heading = f"\n{text}"
            self._source = None
        else:
            self._write(text)

    def finish(self, report: Report, limit: int) -> None:
        """Write the verdict and the counts; ``limit``: the kernel's on instructions processed."""
        self._close("")
        if report.message:
            self._write(report.message)
        if report.depths:
            self._write(f"stack depth {'+'.join(map(str, report.depths))}")
        env = self._env
        kept = [len(states) for states in env.explored.values()] if env else []
        most, peak = max([1, *kept]) - 1, max(env.peak_states if env else 0, sum(kept))
        self._write(
            f"processed {report.processed} insns (limit {limit}) max_states_per_insn {most} "
            f"total_states {report.states} peak_states {peak}"
        )

    def _close(self, state: str) -> None:
        if self._open:
            column = max(len(self._open) + _TAB // 2, _COLUMN)
            column = -(-column // _TAB) * _TAB - 2
            self._write(f"{self._open:{column}}{state}" if state else self._open)
        self._open = ""


def _operands(slot: Raw) -> list[int] | None:
    """Return the registers that an instruction names; None for those that have others (calls).

    Registers that are only linked to them change too, and are not shown: that is the kernel's way.
    """
    kind = slot.code & op.CLASS
    if kind in {op.JMP, op.JMP32}:
        operation = slot.code & op.OP
        if operation in {op.OP_CALL, op.OP_EXIT, op.OP_JA, op.OP_MAY_GOTO}:
            return None
    if kind == op.LD:
        return None
    if kind == op.ST or (kind not in {op.LDX, op.STX} and not slot.code & op.SOURCE):
        return [slot.dst]
    return sorted({slot.dst, slot.src})


def _shown(state: State, frame: Frame) -> str:
    """Return all that is known of a frame."""
    return " ".join(_parts(state, frame, range(11), frame.stack))


def _parts(
    state: State, frame: Frame, numbers: list[int] | range, slots: list[int] | dict[int, Slot]
) -> Iterator[str]:
    """Yield registers and slots of a frame, then the references that are held."""
    if frame.index and (numbers or slots):
        yield f"frame{frame.index}:"
    for number in numbers:
        reg = frame.regs[number]
        if reg.kind != kinds.NOT_INIT:
            yield f"R{number}={show_reg(reg, frame.index)}"
    for spi in sorted(slots):
        text = show_slot(frame.stack[spi], frame.index)
        if text:
            yield f"fp{-8 * spi - 8}={text}"
    if isinstance(numbers, range):
        if state.refs:
            yield "refs=" + ",".join(str(ref.id) for ref in state.refs)
        if frame.callback is not None:
            yield "cb"


def show_slot(slot: Slot, frame: int = 0) -> str:
    """Return what eight bytes of stack hold; empty where nothing was written."""
    letters = "".join(kinds.SLOT_LETTERS[byte] for byte in slot.bytes)
    if slot.reg is not None and kinds.SPILL in slot.bytes:
        return letters.partition("r")[0] + show_reg(slot.reg, frame)
    return letters if letters.strip("?") else ""


def show_reg(reg: Reg, frame: int = 0) -> str:
    """Return a register's value as the kernel prints it; ``frame``: whose it is."""
    base = reg.kind & BASE
    if reg.kind == SCALAR and reg.val.const is not None:
        return _signed(_wrapped(reg.val.const, 64))
    text = kinds.words(reg.kind)
    if base == STACK:
        text += f"[{reg.frame}]" if reg.frame != frame else ""
        if reg.val.const is not None:
            return text + _signed(_wrapped(reg.val.const + reg.off, 64))
    if base == BTF_ID:
        text += reg.extra if isinstance(reg.extra, str) else f"#{reg.btf}"
    return f"{text}({','.join(_details(reg, base))})"


def _details(reg: Reg, base: int) -> Iterator[str]:
    if reg.id:
        yield f"id={reg.id}" + (f"{reg.delta:+d}" if reg.delta is not None else "")
    if reg.ref:
        yield f"ref_obj_id={reg.ref}"
    if base in _MAPS and reg.map is not None:
        if reg.map.name:
            yield f"map={reg.map.name}"
        yield f"ks={reg.map.key_size},vs={reg.map.value_size}"
    if reg.kind != SCALAR and reg.off:
        yield f"off={_signed(reg.off)}"
    if base in kinds.PACKETS or base == kinds.PACKET_END:
        yield f"r={_unsigned(max(reg.range, 0))}"
    if base == MEM:
        yield f"sz={_unsigned(reg.size)}"
    if reg.val.const is None:
        yield from _ranges(reg.val)
    elif reg.val.const:
        yield f"imm={_signed(_wrapped(reg.val.const, 64))}"


def _ranges(val: Scalar) -> Iterator[str]:
    """Yield the bounds that say something; those of equal value together; then the known bits."""
    bounds = [
        ("smin", val.smin, -_S64), ("smax", val.smax, _S64 - 1),
        ("umin", val.umin, 0), ("umax", val.umax, _U64),
        ("smin32", val.smin32, -_S32), ("smax32", val.smax32, _S32 - 1),
        ("umin32", val.umin32, 0), ("umax32", val.umax32, _U32),
    ]  # fmt: skip
    left = [(name, value) for name, value, nothing in bounds if value != nothing]
    while left:
        name, value = left.pop(0)
        # Those of the same side only: smin, umin, smin32, umin32.
        alike = [one for one in left if one[1] == value and one[0][1:4] == name[1:4]]
        left = [one for one in left if one not in alike]
        number = _signed(value) if name[0] == "s" else _unsigned(value)
        yield "=".join([name, *(one[0] for one in alike), number])
    if (val.value, val.mask) != (UNKNOWN.value, UNKNOWN.mask):
        yield f"var_off=({val.value:#x}; {val.mask:#x})"


def _wrapped(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def _signed(value: int) -> str:
    return str(value) if -_DECIMAL_S <= value < _DECIMAL_S else f"{value & _U64:#x}"


def _unsigned(value: int) -> str:
    return str(value) if value <= _DECIMAL_U else f"{value:#x}"
