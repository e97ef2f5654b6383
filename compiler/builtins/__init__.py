"""The built-in names of the language, one row each, in four tables by kind."""

from __future__ import annotations

from pybpf.compiler.builtins.actions import ACTIONS
from pybpf.compiler.builtins.aggregations import AGGREGATIONS
from pybpf.compiler.builtins.functions import FUNCTIONS
from pybpf.compiler.builtins.values import VALUES

CALLABLE: tuple[str, ...] = (*ACTIONS, *AGGREGATIONS, *FUNCTIONS)
"""Names that take arguments."""
RESERVED: frozenset[str] = frozenset({*CALLABLE, *VALUES, "data", "regs", "caller", "retval"})
"""Names that no map may have."""

__all__ = ["ACTIONS", "AGGREGATIONS", "CALLABLE", "FUNCTIONS", "RESERVED", "VALUES"]
