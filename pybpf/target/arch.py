"""Registers and calling conventions of the architectures a script can be compiled for."""

from __future__ import annotations

from dataclasses import dataclass

from pybpf.types import Struct


@dataclass(frozen=True, slots=True)
class Arch:
    """One architecture. ``regs`` is what a kprobe's context points to (struct pt_regs / user_pt_regs).

    ``arguments`` names the registers of the first integer arguments of a kernel function;
    further ones lie on the stack from ``stack_arguments`` bytes above ``sp`` on, at function entry
    (None: not described). ``syscall_prefixes`` are what today's kernels put before ``sys_``.
    """

    name: str
    byteorder: str
    regs: Struct
    arguments: tuple[str, ...]
    retval: str
    ip: str
    sp: str
    stack_arguments: int | None
    syscall_prefixes: tuple[str, ...]
