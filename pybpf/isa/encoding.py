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
from collections.abc import Iterator
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from pybpf.errors import EncodingError
from pybpf.isa.insn import ByteOrder, Insn, Program
from pybpf.isa.layout import bad_target, distances
from pybpf.isa.table import BY_OPCODE, DISTANCE_FIELD, FREE_FIELDS, OPS, Form, OpSpec

_REGISTERS = 11
_LDDW = OPS["lddw"].opcode
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


class _Raw(NamedTuple):
    """An instruction as its slots hold it; ``slot`` is the first."""

    slot: int
    op: OpSpec
    dst: int
    src: int
    off: int
    imm: int


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
    raws = list(_decode_words(struct.unpack(f"<{len(data) // 8}Q", data)))
    index_of = {raw.slot: index for index, raw in enumerate(raws)}
    names = _name_targets(raws, index_of, len(data) // 8)
    insns = []
    for slot, op, dst, src, off, imm in raws:
        field = DISTANCE_FIELD.get(op)
        if field is None:
            insns.append(Insn(op, dst, src, off, imm))
        elif field == "off":
            insns.append(Insn(op, dst, src, 0, imm, names[slot + 1 + off]))
        else:
            insns.append(Insn(op, dst, src, off, 0, names[slot + 1 + imm]))
    labels = MappingProxyType({name: index_of[slot] for slot, name in names.items()})
    return Program(tuple(insns), labels)


def decode_one(data: bytes, slot: int) -> Insn:
    """Return the instruction at a slot of raw little-endian ones, whatever its distance leads to.

    For programs that are none as a whole. Raises EncodingError where it is no instruction.
    """
    part = data[slot * 8 : (slot + 2) * 8]
    words = struct.unpack_from(f"<{len(part) // 8}Q", part)
    try:
        for raw in _decode_words(words):
            return Insn(*raw[1:])
    except EncodingError as error:
        raise EncodingError(slot + error.index, error.reason) from None
    raise EncodingError(slot, "the program has ended")


def _decode_words(words: tuple[int, ...]) -> Iterator[_Raw]:
    slot = 0
    while slot < len(words):
        word = words[slot]
        pattern = _match(word)
        if pattern is None:
            raise EncodingError(slot, _no_row(word))
        # What a mask covers belongs to the row; the rest are the operands.
        free, op = word & ~pattern.mask, pattern.op
        dst, src, off = free >> 8 & 0xF, free >> 12 & 0xF, free >> 16 & 0xFFFF
        imm = (free >> 32 ^ 0x80000000) - 0x80000000
        if dst >= _REGISTERS or src >= _REGISTERS:
            raise EncodingError(slot, f"{op.name}: {_no_register(max(dst, src))}")
        if op.opcode == _LDDW:
            imm = _wide_imm(words, slot, op)
        raw = _Raw(slot, op, dst, src, (off ^ 0x8000) - 0x8000, imm)
        if reason := _refused(op, raw.off, imm):
            raise EncodingError(slot, reason)
        yield raw
        slot += op.slots


def _match(word: int) -> _Pattern | None:
    for pattern in _patterns(word & 0xFF):
        if word & pattern.mask == pattern.value:
            return pattern
    return None


def _wide_imm(words: tuple[int, ...], slot: int, op: OpSpec) -> int:
    if slot + 1 == len(words):
        raise EncodingError(slot, f"{op.name} lacks its second slot")
    low, high = words[slot] >> 32, words[slot + 1] >> 32
    if words[slot + 1] & 0xFFFFFFFF:
        raise EncodingError(
            slot + 1, f"in the second slot of {op.name} everything but imm must be 0"
        )
    if op is _FUNC:
        if high:
            raise EncodingError(slot + 1, f"the second slot of {op.name} must be 0")
        return (low ^ 0x80000000) - 0x80000000
    return ((high << 32 | low) ^ 1 << 63) - (1 << 63)


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


def _name_targets(raws: list[_Raw], index_of: dict[int, int], slots: int) -> dict[int, str]:
    """Return a label for every slot that something refers to, in their order."""
    called: dict[int, bool] = {}
    for raw in raws:
        field = DISTANCE_FIELD.get(raw.op)
        if field is None:
            continue
        target = raw.slot + 1 + (raw.off if field == "off" else raw.imm)
        if target not in index_of:
            raise EncodingError(raw.slot, f"{raw.op.name}: {bad_target(target, slots)}")
        called[target] = called.get(target, False) or raw.op not in _JUMPS
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
            or not (-0x80000000 <= imm <= 0x7FFFFFFF or op.opcode == _LDDW)
        ):
            raise EncodingError(index, _misfit(op, dst, src, off, imm))
        if reason := _refused(op, off, imm):
            raise EncodingError(index, reason)
        words.append(value | operands)
        if op.opcode == _LDDW:
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
