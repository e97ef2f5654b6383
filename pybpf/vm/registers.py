"""What a register holds before it is written, or after a call has destroyed it."""

from __future__ import annotations

from typing import NoReturn

from pybpf.vm.memory import Trap

REGISTERS = 11


class Unset(int):
    """A number that no operation accepts: its value is the register it stands in.

    The interpreter computes with plain integers and never asks whether a register holds one; that
    would cost every instruction. Computing with this one raises Trap instead.
    """

    __slots__ = ()

    def _refuse(self, *_: object) -> NoReturn:
        raise Trap(f"r{int.__repr__(self)} holds nothing: it was never set, or a call destroyed it")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refuse
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _refuse
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _refuse
    __neg__ = __pos__ = __invert__ = __abs__ = __bool__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __hash__ = int.__hash__


UNSET: tuple[int, ...] = tuple(Unset(number) for number in range(REGISTERS))
