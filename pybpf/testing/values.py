"""Hypothesis strategies for C types and for values of them, for fuzzing decoders and renderers."""

from __future__ import annotations

from hypothesis import strategies as st

from pybpf.events.layout import Plain
from pybpf.rows import Buckets, Cell, Stack, Value
from pybpf.types import (
    CHAR,
    S8,
    S16,
    S32,
    S64,
    U8,
    U16,
    U32,
    U64,
    VOID,
    Array,
    DataLoc,
    Int,
    Ptr,
    Show,
    Struct,
    Type,
    Typedef,
    is_string,
    show_of,
    strip,
    struct_of,
)

INTS = (CHAR, S8, S16, S32, S64, U8, U16, U32, U64)
_NUMBER_SHOWS = tuple(show for show in Show if show not in (Show.STACK, Show.BYTES))


def scalars() -> st.SearchStrategy[Type]:
    """Draw integers of every width and of every format, pointers and ``__data_loc`` words."""
    ints = st.sampled_from(INTS)
    return st.one_of(
        ints,
        st.builds(Typedef, st.just("alias"), ints, st.sampled_from(_NUMBER_SHOWS)),
        st.just(Typedef("stack_t", S32, Show.STACK)),
        st.just(Ptr(VOID)),
        st.builds(DataLoc, st.just(CHAR), st.booleans()),
    )


def strings() -> st.SearchStrategy[Type]:
    """Draw char arrays, as a string or as bytes."""
    arrays = st.builds(Array, st.just(CHAR), st.integers(1, 40))
    return arrays | st.builds(Typedef, st.just("mem"), arrays, st.just(Show.BYTES))


def structs(fields: st.SearchStrategy[Type]) -> st.SearchStrategy[Struct]:
    """Draw structs, named and not, of up to four fields."""
    named = st.sampled_from(("", "pair")), st.lists(fields, max_size=4)
    return st.tuples(*named).map(
        lambda drawn: struct_of(drawn[0], [(f"f{i}", t) for i, t in enumerate(drawn[1])])
    )


def types() -> st.SearchStrategy[Type]:
    """Draw any type that has values: scalars, strings, arrays and structs, nested."""
    return st.recursive(
        scalars() | strings(),
        lambda inner: st.builds(Array, inner, st.integers(0, 3)) | structs(inner),
        max_leaves=6,
    )


def plain_values(t: Type) -> st.SearchStrategy[Plain]:
    """Draw values of a type as a decoder of bytes returns them."""
    match strip(t):
        case Int() as base:
            return st.integers(0, (1 << base.bits) - 1).map(base.wrap)
        case Array(count=count) if is_string(t):
            return st.binary(max_size=count).map(lambda text: text.ljust(count, b"\0"))
        case Array(element=element, count=count):
            return st.tuples(*[plain_values(element)] * count)
        case Struct(fields=fields):
            return st.tuples(*(plain_values(f.type) for f in fields))
        case DataLoc():
            return st.integers(0, (1 << 32) - 1)
        case _:
            return st.integers(0, (1 << 64) - 1)


def values(t: Type) -> st.SearchStrategy[Value]:
    """Draw values of a type as they are in rows: stack ids are stacks."""
    if show_of(t) is Show.STACK:
        frames = st.lists(st.integers(0, (1 << 64) - 1), max_size=4).map(tuple)
        return st.builds(Stack, st.integers(-(1 << 31), (1 << 31) - 1), frames)
    match strip(t):
        case Array(element=element, count=count) if not is_string(t):
            return st.tuples(*[values(element)] * count)
        case Struct(fields=fields):
            return st.tuples(*(values(f.type) for f in fields))
        case _:
            return plain_values(t)


def histograms() -> st.SearchStrategy[Cell]:
    """Draw histograms of integer types, with as many buckets as the type has bits."""
    return st.sampled_from(INTS).flatmap(
        lambda t: st.lists(
            st.just(0) | st.integers(0, (1 << 64) - 1), min_size=t.bits, max_size=t.bits
        ).map(lambda counts: Cell(Buckets(tuple(counts)), t))
    )


def cells() -> st.SearchStrategy[Cell]:
    """Draw a value of any type, or a histogram, together with the type."""
    return types().flatmap(lambda t: values(t).map(lambda v: Cell(v, t))) | histograms()
