"""Read aggregations that are arrays: elements in, the entries they stand for out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pybpf.isa.insn import ByteOrder
from pybpf.script import STACK_ERRORS, Filled, MapSpec


def touched(
    spec: MapSpec,
    elements: Iterable[tuple[bytes, Sequence[bytes]]],
    cpus: Sequence[int],
    size: int,
    byteorder: str,
) -> Iterator[tuple[bytes, Sequence[bytes]]]:
    """Yield (key, values) for what was ever changed, as a hash would have it.

    ``cpus`` are the numbers of the CPUs that an element has values of, which only keys with a CPU
    need; ``size`` is how many bytes of a value are the entry's own.
    """
    empty = bytes(spec.value_size)
    stacks = any(what is Filled.STACK for _, what in spec.filled)
    by_cpu = any(what is Filled.CPU for _, what in spec.filled)
    for index, (_, values) in enumerate(elements):
        number = index - STACK_ERRORS if stacks else 0
        key = spec.constants[0 if stacks else index]
        if not by_cpu:
            if any(value != empty for value in values):
                yield _key(spec, key, 0, number, byteorder), [value[:size] for value in values]
            continue
        for cpu, value in zip(cpus, values, strict=True):
            if value != empty:
                yield _key(spec, key, cpu, number, byteorder), [value[:size]]


def _key(spec: MapSpec, constant: bytes, cpu: int, stack: int, byteorder: str) -> bytes:
    """Return a key with the fields that follow from its place."""
    if not spec.filled:
        return constant
    key = bytearray(constant)
    order: ByteOrder = "little" if byteorder == "little" else "big"
    for offset, what in spec.filled:
        number = cpu if what is Filled.CPU else stack
        key[offset : offset + 4] = (number & 0xFFFFFFFF).to_bytes(4, order)
    return bytes(key)
