"""The arithmetic of a kernel: its precision in; what computes with scalars as it does out."""

from __future__ import annotations

from functools import lru_cache

from pybpf.verifier.arcs import Arcs
from pybpf.verifier.precision import Precision
from pybpf.verifier.ranges import Ranges


@lru_cache
def arithmetic(precision: Precision, bits: int = 64, sub: int = 32) -> Ranges | Arcs:
    """Return the arithmetic of kernels of that precision; see `scalar` for its operations.

    ``bits`` and ``sub`` are the widths of a register and of its low part.
    """
    return (Arcs if precision.arcs else Ranges)(precision, bits, sub)
