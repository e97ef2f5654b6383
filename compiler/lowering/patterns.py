"""Lower a match with a pattern: all states of the pattern at once, as the bits of a register.

State n is reached once n of the pattern's characters are matched; a star keeps a state alive. There
are no branches, so that the verifier has one way to follow, however long the text. Nor is there a
mask of all ones or none: since Linux 6.18 the verifier follows both where one meets an AND.
"""

from __future__ import annotations

from pybpf.compiler import ir, tast
from pybpf.compiler.builder import Builder
from pybpf.compiler.lowering import memory
from pybpf.compiler.lowering.state import Lowering
from pybpf.dataclass import dataclass
from pybpf.errors import Diagnostic, SourceError
from pybpf.types import size_of

MOST_CHARACTERS = 62
"""How many characters of the text a pattern may name: each takes a bit, as does the start."""


@dataclass(frozen=True, slots=True)
class Characters:
    """What one character may be: in one of ``ranges``, or (``negated``) in none of them."""

    ranges: tuple[tuple[int, int], ...]
    negated: bool = False


ANY = Characters((), negated=True)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern: one Characters for each of the text's, and before which of them a star stands."""

    characters: tuple[Characters, ...]
    stars: frozenset[int]


# pattern: {'*' | '?' | '[' ['!'] {C ['-' C]} ']' | '\' C | C}
def read_pattern(text: bytes) -> Pattern:
    """Return the pattern of a text; a bracket that is not closed stands for itself.

    Source: glob_match() of lib/glob.c.
    """
    found: list[Characters] = []
    stars: set[int] = set()
    at = 0
    while at < len(text):
        one = text[at : at + 1]
        at += 1
        if one == b"*":
            stars.add(len(found))
        elif one == b"?":
            found.append(ANY)
        elif one == b"[" and (closed := _class(text, at)) is not None:
            characters, at = closed
            found.append(characters)
        else:
            if one == b"\\" and at < len(text):
                one = text[at : at + 1]
                at += 1
            found.append(Characters(((one[0], one[0]),)))
    return Pattern(tuple(found), frozenset(stars))


def _class(text: bytes, at: int) -> tuple[Characters, int] | None:
    """Return the class whose opening bracket is before ``at``, and where the pattern goes on."""
    negated = text[at : at + 1] == b"!"
    at += negated
    ranges: list[tuple[int, int]] = []
    while at < len(text) and (text[at : at + 1] != b"]" or not ranges):
        low = high = text[at]
        at += 1
        if text[at : at + 1] == b"-" and text[at + 1 : at + 2] not in {b"", b"]"}:
            high = text[at + 1]
            at += 2
        ranges.append((low, high))
    return (Characters(tuple(ranges), negated), at + 1) if at < len(text) else None


def matches(state: Lowering, node: tast.Like) -> ir.VReg:
    """Return whether a string matches, as 0 or 1; it ends at a NUL or with its array.

    Raises SourceError for a pattern of too many characters.
    """
    pattern = read_pattern(node.pattern)
    if len(pattern.characters) > MOST_CHARACTERS:
        message = f"the pattern has more than {MOST_CHARACTERS} characters"
        raise SourceError(Diagnostic(message, node.span))
    b = state.builder
    base, offset = memory.place(state, node.text)
    size = _looked_at(pattern, size_of(node.text.type))
    stays = sum(1 << star for star in pattern.stars)
    last = 1 << len(pattern.characters)
    # ``alive`` is 1 as long as the text goes on.
    states, accepted, alive = b.copy(1), b.copy(0), b.copy(1)
    for at in range(size):
        character = b.load(base, offset + at, 1)
        ended = _is(b, character, 0)
        accepted = _or(b, accepted, _times(b, states, _and(b, ended, alive)))
        alive = _and(b, alive, b.bin(ir.BinOp.XOR, ended, 1))
        passed = b.bin(ir.BinOp.LSH, _and(b, states, _matching(b, character, pattern)), 1)
        states = _or(b, passed, _and(b, states, stays)) if stays else passed
    accepted = _or(b, accepted, _times(b, states, alive))
    shifted = b.bin(ir.BinOp.RSH, accepted, last.bit_length() - 1)
    return _and(b, shifted, 1)


def _looked_at(pattern: Pattern, size: int) -> int:
    """Return how many of a text's bytes decide: all, where a star stands before more characters."""
    end = len(pattern.characters)
    if pattern.stars - {end}:
        return size
    return min(size, end if end in pattern.stars else end + 1)


def _and(b: Builder, left: ir.VReg, right: ir.Operand) -> ir.VReg:
    return b.bin(ir.BinOp.AND, left, right)


def _or(b: Builder, left: ir.VReg, right: ir.Operand) -> ir.VReg:
    return b.bin(ir.BinOp.OR, left, right)


def _times(b: Builder, left: ir.VReg, right: ir.Operand) -> ir.VReg:
    return b.bin(ir.BinOp.MUL, left, right)


def _is(b: Builder, character: ir.VReg, value: int) -> ir.VReg:
    """Return 1 where a character has a value, else 0."""
    differs = b.bin(ir.BinOp.XOR, character, value) if value else character
    return b.bin(ir.BinOp.RSH, b.bin(ir.BinOp.SUB, differs, 1), 63)


def _within(b: Builder, character: ir.VReg, low: int, high: int) -> ir.VReg:
    """Return 1 where a character is in a range, else 0."""
    if low == high:
        return _is(b, character, low)
    below = b.bin(ir.BinOp.SUB, character, low)
    above = b.bin(ir.BinOp.SUB, b.copy(high), character)
    outside = b.bin(ir.BinOp.RSH, _or(b, below, above), 63)
    return b.bin(ir.BinOp.XOR, outside, 1)


def _matching(b: Builder, character: ir.VReg, pattern: Pattern) -> ir.VReg:
    """Return which of the pattern's characters this one may be, as bits."""
    wanted: dict[Characters, int] = {}
    for at, one in enumerate(pattern.characters):
        wanted[one] = wanted.get(one, 0) | 1 << at
    result = b.copy(wanted.pop(ANY, 0))
    for one, bits in wanted.items():
        inside = b.copy(0)
        for low, high in one.ranges:
            inside = _or(b, inside, _within(b, character, low, high))
        if one.negated:
            inside = b.bin(ir.BinOp.XOR, inside, 1)
        result = _or(b, result, _times(b, inside, bits))
    return result
