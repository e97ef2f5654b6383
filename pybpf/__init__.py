"""Compile ply scripts and eBPF assembler to programs; load, trace, run and take them apart.

The names below are loaded when first used, so that ``import pybpf`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pybpf.compiler.pipeline import compile_script
    from pybpf.isa.assembler import assemble
    from pybpf.isa.disassembler import disassemble
    from pybpf.isa.insn import Program
    from pybpf.objects.object import Object
    from pybpf.tracing import trace
    from pybpf.vm.interpreter import interpret

__version__ = "0.1.0"

__all__ = [
    "Object",
    "Program",
    "__version__",
    "assemble",
    "compile_script",
    "disassemble",
    "interpret",
    "trace",
]

_HOMES = {
    "Object": "pybpf.objects.object",
    "Program": "pybpf.isa.insn",
    "assemble": "pybpf.isa.assembler",
    "compile_script": "pybpf.compiler.pipeline",
    "disassemble": "pybpf.isa.disassembler",
    "interpret": "pybpf.vm.interpreter",
    "trace": "pybpf.tracing",
}


def __getattr__(name: str) -> object:
    """Load a public name from its home module (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
