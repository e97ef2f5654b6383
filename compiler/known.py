"""What a rule of ``simplify`` may ask about the place where an operation stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pybpf.compiler.ir import Op, Operand, VReg
from pybpf.compiler.width import FULL, Width, of_constant
from pybpf.dataclass import dataclass


class Known(Protocol):
    """What is known where the operation stands."""

    def constant(self, register: VReg) -> int | None:
        """Return the constant that a register holds."""

    def width(self, operand: Operand) -> Width:
        """Return how wide a value is."""

    def definition(self, operand: Operand) -> Op | None:
        """Return the only definition of a register, if what it reads has not changed since."""

    def read_once(self, register: VReg) -> bool:
        """Whether the register is mentioned once."""

    def is_pointer(self, register: VReg) -> bool:
        """Whether the verifier takes the register for a pointer."""


@dataclass(frozen=True, slots=True)
class KnownConstants:
    """Nothing is known but that some registers hold constants."""

    constants: Mapping[VReg, int]

    def constant(self, register: VReg) -> int | None:
        """Return the constant that a register holds."""
        return self.constants.get(register)

    def width(self, operand: Operand) -> Width:
        """Return the width of a constant, or of any value."""
        return of_constant(operand) if isinstance(operand, int) else FULL

    def definition(self, operand: Operand) -> None:
        """Return None: no definition is known."""
        del operand

    def read_once(self, register: VReg) -> bool:
        """Return False: there may be other readers."""
        del register
        return False

    def is_pointer(self, register: VReg) -> bool:
        """Return True: it may be one."""
        del register
        return True


NOTHING = KnownConstants({})
