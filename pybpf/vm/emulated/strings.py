"""Helpers that parse numbers, and that print. Source: kernel/bpf/helpers.c."""

from __future__ import annotations

import re
from collections.abc import Mapping
from errno import EINVAL, ERANGE
from types import MappingProxyType

from pybpf.isa.semantics import MASK64
from pybpf.vm.emulated.arguments import U32
from pybpf.vm.helpers import text_at
from pybpf.vm.machine import Helper, Machine
from pybpf.vm.printk import format_message

_SPACES = b" \t\n\v\f\r\xa0"
_BASE = 0x1F
_LONGEST = 32
_DIGITS = {8: rb"[0-7]+", 10: rb"[0-9]+", 16: rb"[0-9a-fA-F]+"}
_ZEROES = (6, 12)
"""The release from which on a number that cannot be parsed is set to 0."""
_MOST_ARGUMENTS = 12


def _parse(text: bytes, flags: int) -> tuple[int, bool, int]:
    """Return the number, whether a minus is before it, and how many bytes it takes.

    Instead of the last a negative errno, for what is none.
    """
    base = flags & _BASE
    if flags & ~_BASE or base not in {0, 8, 10, 16} or not text:
        return 0, False, -EINVAL
    rest = text.lstrip(_SPACES)
    negative = rest[:1] == b"-"
    rest = rest[negative:]
    if not rest:
        return 0, negative, -EINVAL
    before = len(text) - len(rest)
    rest = rest[:_LONGEST]
    if base == 0:
        base = 16 if re.match(rb"0[xX][0-9a-fA-F]", rest) else 8 if rest[:1] == b"0" else 10
    prefix = 2 if base == 16 and rest[:2].lower() == b"0x" else 0
    digits = re.match(_DIGITS[base], rest[prefix:])
    if digits is None:
        return 0, negative, -EINVAL
    value = int(digits[0], base)
    return value, negative, -ERANGE if value > MASK64 else before + prefix + digits.end()


def _store(vm: Machine, place: int, value: int, result: int) -> int:
    if result >= 0 or vm.world.release >= _ZEROES:
        vm.memory.store(place, 8, value if result >= 0 else 0)
    return result


def strtol(vm: Machine, text: int, size: int, flags: int, place: int) -> int:
    """Parse a signed number; return how many bytes it takes."""
    value, negative, result = _parse(vm.memory.read(text, size), flags)
    if result >= 0 and value > (1 << 63) - 1 + negative:
        result = -ERANGE
    return _store(vm, place, -value if negative else value, result)


def strtoul(vm: Machine, text: int, size: int, flags: int, place: int) -> int:
    """Parse an unsigned number; return how many bytes it takes."""
    value, negative, result = _parse(vm.memory.read(text, size), flags)
    if result >= 0 and negative:
        result = -EINVAL
    return _store(vm, place, value, result)


def _formatted(vm: Machine, template: int, size: int, data: int, length: int) -> bytes | None:
    length &= U32
    if length & 7 or length > _MOST_ARGUMENTS * 8:
        return None
    arguments = [vm.memory.load(data + offset, 8) for offset in range(0, length, 8)]
    text = vm.memory.read(template, size & U32)
    return format_message(text, arguments, lambda address: text_at(vm, address))


def trace_vprintk(vm: Machine, template: int, size: int, data: int, length: int) -> int:
    """Print a line into the world's ``printed``; return its length."""
    text = _formatted(vm, template, size, data, length)
    if text is None:
        return -EINVAL
    vm.world.print(text)
    return len(text)


def seq_printf(vm: Machine, _seq: int, template: int, size: int, data: int, length: int) -> int:
    """Print into what a reader of an iterator gets, which is the world's ``printed`` here."""
    text = _formatted(vm, template, size, data, length)
    if text is None:
        return -EINVAL
    vm.world.print(text)
    return 0


def seq_write(vm: Machine, _seq: int, data: int, length: int) -> int:
    """Pass bytes to a reader of an iterator."""
    text = vm.memory.read(data, length & U32)
    vm.world.print(text)
    return 0


TABLE: Mapping[str, Helper] = MappingProxyType(
    {
        "bpf_strtol": Helper(4, strtol),
        "bpf_strtoul": Helper(4, strtoul),
        "bpf_trace_vprintk": Helper(4, trace_vprintk),
        "bpf_seq_printf": Helper(5, seq_printf),
        "bpf_seq_write": Helper(3, seq_write),
    }
)
