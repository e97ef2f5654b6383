"""Bytes to programs and programs to bytes, for either byte order.

One slot of eight bytes, as one little-endian word:

     63                            32 31              16 15   12 11    8 7            0
    +--------------------------------+------------------+-------+-------+--------------+
    |              imm               |       off        |  src  |  dst  |    opcode    |
    +--------------------------------+------------------+-------+-------+--------------+

On a big-endian machine ``off`` and ``imm`` are big-endian, and the two registers trade places in
their byte. ``lddw`` takes a second slot that holds the high half of its ``imm`` and zeros:

     63                            32 31                                             0
    +--------------------------------+------------------------------------------------+
    |       bits 63..32 of imm       |                       0                        |
    +--------------------------------+------------------------------------------------+

Both directions are as strict as the kernel's verifier: every field that an operation does not use
must be zero. Source: RFC 9669 section 3, and check_alu_op, check_cond_jmp_op, check_ld_abs and
resolve_pseudo_ldimm64 in kernel/bpf/verifier.c.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cache, lru_cache
from types import MappingProxyType
from typing import NamedTuple

from pybpf.errors import EncodingError
from pybpf.isa.insn import ByteOrder, Insn, Program
from pybpf.isa.layout import bad_target, distances
from pybpf.isa.table import BY_OPCODE, DISTANCE_FIELD, FREE_FIELDS, OPS, Form, OpSpec

_REGISTERS = 11
_FUNC = OPS["lddw_func"]
# These take a descriptor, an index or a distance of 32 bits; the second slot is reserved.
_LOW_HALF_ONLY = frozenset({OPS["lddw_map_fd"], OPS["lddw_map_idx"]})
_JUMPS = frozenset(DISTANCE_FIELD) - {OPS["call_local"], _FUNC}
# The directions of an address space cast (to << 16 | from): the arena is 1, and 0 is the rest.
_CASTS = (1, 1 << 16)


class _Pattern(NamedTuple):
    """What the word of an operation must be: ``word & mask == value``."""

    mask: int
    value: int
    op: OpSpec


_FIELDS = {"dst": (8, 0xF), "src": (12, 0xF), "off": (16, 0xFFFF), "imm": (32, 0xFFFFFFFF)}


@cache
def _pattern(op: OpSpec) -> _Pattern:
    mask, value = 0xFF, op.opcode
    fixed = {"dst": 0, "src": op.src or 0, "off": op.off or 0, "imm": op.imm or 0}
    for name in _FIELDS.keys() - FREE_FIELDS[op.form]:
        shift, ones = _FIELDS[name]
        mask |= ones << shift
        value |= fixed[name] << shift
    return _Pattern(mask, value, op)


@cache
def _patterns(opcode: int) -> tuple[_Pattern, ...]:
    return tuple(_pattern(op) for op in BY_OPCODE.get(opcode, ()))


def decode(data: bytes, byteorder: ByteOrder = "little") -> Program:
    """Return the program that raw instructions hold.

    The targets of jumps get the labels ``L1``, ``L2``… in their order, those of local calls and
    ``lddw_func`` ``sub1``, ``sub2``…; an instruction that is both is a ``sub``. Raises
    EncodingError, which counts slots, where a slot holds no valid instruction or a jump none to go
    to.
    """
    if len(data) % 8:
        raise EncodingError(len(data) // 8, f"the last slot has only {len(data) % 8} of 8 bytes")
    if byteorder == "big":
        data = _swap(data, ">BBhi", "<BBhi")
    slots, insns = _decode_words(struct.unpack(f"<{len(data) // 8}Q", data))
    # Where each instruction leads that refers to another, as a slot.
    goals = {
        index: slots[index] + 1 + (insn.off if DISTANCE_FIELD[insn.op] == "off" else insn.imm)
        for index, insn in enumerate(insns)
        if insn.op in DISTANCE_FIELD
    }
    index_of = dict(zip(slots, range(len(slots)), strict=True))
    for index, goal in goals.items():
        if goal not in index_of:
            reason = f"{insns[index].op.name}: {bad_target(goal, len(data) // 8)}"
            raise EncodingError(slots[index], reason)
    names = _names((goal, insns[index].op) for index, goal in goals.items())
    for index, goal in goals.items():
        insns[index] = _labelled(insns[index], names[goal])
    labels = MappingProxyType({name: index_of[slot] for slot, name in names.items()})
    return Program(tuple(insns), labels)


def _labelled(insn: Insn, name: str) -> Insn:
    """Return an instruction that names where it leads, in place of the distance."""
    op, dst, src, off, imm = insn.op, insn.dst, insn.src, insn.off, insn.imm
    off, imm = (0, imm) if DISTANCE_FIELD[op] == "off" else (off, 0)
    return Insn(op, dst, src, off, imm, name)


def decode_one(data: bytes, slot: int) -> Insn:
    """Return the instruction at a slot of raw little-endian ones, whatever its distance leads to.

    For programs that are none as a whole. Raises EncodingError where it is no instruction.
    """
    part = data[slot * 8 : (slot + 2) * 8]
    words = struct.unpack_from(f"<{len(part) // 8}Q", part)
    if not words:
        raise EncodingError(slot, "the program has ended")
    try:
        insn = _decode_word(words[0])
        return insn if insn.op.slots == 1 else _decode_wide(insn, words[1:])
    except EncodingError as error:
        raise EncodingError(slot + error.index, error.reason) from None


def _decode_words(words: tuple[int, ...]) -> tuple[list[int], list[Insn]]:
    """Return the first slots of instructions, and these as their slots hold them."""
    slots: list[int] = []
    insns: list[Insn] = []
    slot, end = 0, len(words)
    try:
        while slot < end:
            insn = _decode_word(words[slot])
            if insn.op.slots > 1:
                insn = _decode_wide(insn, words[slot + 1 : slot + 2])
            slots.append(slot)
            insns.append(insn)
            slot += insn.op.slots
    except EncodingError as error:
        raise EncodingError(slot + error.index, error.reason) from None
    return slots, insns


# The instructions of programs are alike: half of them or more occur twice.
@lru_cache(maxsize=1 << 15)
def _decode_word(word: int) -> Insn:
    """Return the instruction of a slot; a ``lddw`` lacks the high half of its ``imm``."""
    pattern = _match(word)
    if pattern is None:
        raise EncodingError(0, _no_row(word))
    # What a mask covers belongs to the row; the rest are the operands.
    free, op = word & ~pattern.mask, pattern.op
    dst, src, off = free >> 8 & 0xF, free >> 12 & 0xF, free >> 16 & 0xFFFF
    if dst >= _REGISTERS or src >= _REGISTERS:
        raise EncodingError(0, f"{op.name}: {_no_register(max(dst, src))}")
    insn = Insn(op, dst, src, _signed(off, 16), _signed(free >> 32, 32))
    if op.slots == 1 and (reason := _refused(op, insn.off, insn.imm)):
        raise EncodingError(0, reason)
    return insn


def _match(word: int) -> _Pattern | None:
    for pattern in _patterns(word & 0xFF):
        if word & pattern.mask == pattern.value:
            return pattern
    return None


def _decode_wide(low: Insn, rest: tuple[int, ...]) -> Insn:
    """Return a ``lddw`` whose first slot is ``low`` and whose second is the first of ``rest``."""
    op, imm = low.op, low.imm
    if not rest:
        raise EncodingError(0, f"{op.name} lacks its second slot")
    high = rest[0] >> 32
    if rest[0] & 0xFFFFFFFF:
        raise EncodingError(1, f"in the second slot of {op.name} everything but imm must be 0")
    if op is not _FUNC:
        imm = _signed(high << 32 | imm & 0xFFFFFFFF, 64)
    elif high:
        raise EncodingError(1, f"the second slot of {op.name} must be 0")
    if reason := _refused(op, 0, imm):
        raise EncodingError(0, reason)
    return Insn(op, low.dst, imm=imm)


def _signed(value: int, bits: int) -> int:
    """Return the number that some bits stand for in two's complement."""
    sign = 1 << bits - 1
    return (value ^ sign) - sign


def _refused(op: OpSpec, off: int, imm: int) -> str | None:
    """Say why the kernel refuses these operands, for the few rows where it looks at values."""
    if op in _LOW_HALF_ONLY and not 0 <= imm <= 0xFFFFFFFF:
        return f"{op.name}: the high half of imm must be 0"
    if op.form is Form.CALL_KFUNC and off < 0:
        return f"{op.name}: off is {off}, but an index of fd_array is not negative"
    if op.form is Form.ADDR_SPACE_CAST and imm not in _CASTS:
        return f"{op.name}: imm is {imm}, but must be 1 (a cast from 1 to 0) or 65536 (0 to 1)"
    return None


def _no_row(word: int) -> str:
    """Say which field keeps a word from being any instruction of its opcode."""
    patterns = _patterns(word & 0xFF)
    if not patterns:
        return f"no instruction has opcode {word & 0xFF:#04x}"

    def wrong(pattern: _Pattern) -> list[str]:
        difference = (word ^ pattern.value) & pattern.mask
        return [name for name, (shift, ones) in _FIELDS.items() if difference >> shift & ones]

    fewest = min(len(wrong(pattern)) for pattern in patterns)
    nearest = [pattern for pattern in patterns if len(wrong(pattern)) == fewest]
    name = wrong(nearest[0])[0]
    shift, ones = _FIELDS[name]
    allowed = sorted({p.value >> shift & ones for p in nearest if name in wrong(p)})
    what = nearest[0].op.name if len(nearest) == 1 else f"opcode {word & 0xFF:#04x}"
    listed = " or ".join(filter(None, [", ".join(map(str, allowed[:-1])), str(allowed[-1])]))
    return f"{what}: {name} is {word >> shift & ones}, but must be {listed}"


def _no_register(number: int) -> str:
    return f"there is no register r{number}, only r0 to r10"


def _names(goals: Iterable[tuple[int, OpSpec]]) -> dict[int, str]:
    """Return a label for every slot that something refers to, in their order."""
    called: dict[int, bool] = {}
    for slot, op in goals:
        called[slot] = called.get(slot, False) or op not in _JUMPS
    names = {}
    counts = {True: 0, False: 0}
    for slot in sorted(called):
        subprogram = called[slot]
        counts[subprogram] += 1
        names[slot] = f"{'sub' if subprogram else 'L'}{counts[subprogram]}"
    return names


def encode(program: Program, byteorder: ByteOrder = "little") -> bytes:
    """Return the raw instructions of a program; jumps to labels get their distances.

    What a map symbol stands for is not known here: ``imm`` is written as it is. Raises
    EncodingError, which counts instructions, for a field that does not fit, an unknown label, and a
    jump that leaves the program, enters a ``lddw`` or does not reach.
    """
    words: list[int] = []
    for index, (insn, distance) in enumerate(zip(program.insns, distances(program), strict=True)):
        op, dst, src, off, imm, symbol = (
            insn.op, insn.dst, insn.src, insn.off, insn.imm, insn.symbol,
        )  # fmt: skip
        if distance is not None and symbol is not None:
            field = DISTANCE_FIELD[op]
            if off if field == "off" else imm:
                raise EncodingError(index, f"{op.name} has both a label and a distance in {field}")
            off, imm = (distance, imm) if field == "off" else (off, distance)
        mask, value, _ = _pattern(op)
        operands = dst << 8 | src << 12 | (off & 0xFFFF) << 16 | (imm & 0xFFFFFFFF) << 32
        if (
            operands & mask
            or not 0 <= dst < _REGISTERS
            or not 0 <= src < _REGISTERS
            or not -0x8000 <= off <= 0x7FFF
            or not (-0x80000000 <= imm <= 0x7FFFFFFF or op.slots > 1)
        ):
            raise EncodingError(index, _misfit(op, dst, src, off, imm))
        if reason := _refused(op, off, imm):
            raise EncodingError(index, reason)
        words.append(value | operands)
        if op.slots > 1:
            words.append(_second_slot(index, op, imm))
    data = struct.pack(f"<{len(words)}Q", *words)
    return _swap(data, "<BBhi", ">BBhi") if byteorder == "big" else data


def _second_slot(index: int, op: OpSpec, imm: int) -> int:
    bits = 32 if op is _FUNC else 64
    if not -(1 << bits - 1) <= imm < 1 << bits - 1:
        raise EncodingError(index, f"{op.name}: imm {imm} does not fit {bits} signed bits")
    return 0 if op is _FUNC else (imm >> 32 & 0xFFFFFFFF) << 32


def _misfit(op: OpSpec, dst: int, src: int, off: int, imm: int) -> str:
    """Say which field of an instruction cannot be encoded."""
    free = FREE_FIELDS[op.form]
    for name, value in (("dst", dst), ("src", src), ("off", off), ("imm", imm)):
        if value and name not in free:
            return f"{op.name} does not use {name}, which is {value} but must be 0"
    for register in (dst, src):
        if not 0 <= register < _REGISTERS:
            return f"{op.name}: {_no_register(register)}"
    if not -0x8000 <= off <= 0x7FFF:
        return f"{op.name}: off {off} does not fit 16 signed bits"
    return f"{op.name}: imm {imm} does not fit 32 signed bits"


def _swap(data: bytes, theirs: str, ours: str) -> bytes:
    """Turn slots of one byte order into those of the other."""
    count = len(data) // 8
    fields: list[int] = []
    for opcode, registers, off, imm in struct.iter_unpack(theirs, data):
        fields += (opcode, registers >> 4 | (registers & 0xF) << 4, off, imm)
    return struct.pack(f"{ours[0]}{ours[1:] * count}", *fields)
