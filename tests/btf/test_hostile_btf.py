"""BTF that was tampered with: read and dumped in bounded time and room, or refused by BtfError."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.btf import order
from pybpf.btf.abi import Encoding, Kind
from pybpf.btf.builder import Builder
from pybpf.btf.cdump import dump
from pybpf.btf.listing import lines
from pybpf.btf.reader import Btf
from pybpf.btf.types import (
    Array,
    Composite,
    DataSec,
    DeclTag,
    Enum,
    Field,
    Float,
    Forward,
    Func,
    FuncProto,
    Int,
    Placed,
    Reference,
    Var,
)
from pybpf.errors import BtfError

# One of each kind; what they refer to is all over the place.
EVERY = [
    Int("int", 4, Encoding.SIGNED, 32), Float("double", 8), Array(1, 1, 2),
    *(Reference(kind, n, "t") for n, kind in enumerate((Kind.PTR, Kind.CONST, Kind.VOLATILE), 2)),
    Reference(Kind.TYPEDEF, 4, "alias"), Reference(Kind.TYPE_TAG, 1, "user"), Forward("away"),
    Composite(Kind.STRUCT, "s", 8, (Field("a", 1, 0, 3), Field("", 11, 32)), bit_fields=True),
    Composite(Kind.UNION, "", 4, (Field("b", 1, 0),)), Reference(Kind.RESTRICT, 4),
    Enum(Kind.ENUM, "e", 4, signed=True, values=(("LOW", -1), ("HIGH", 1))),
    Enum(Kind.ENUM64, "w", 8, signed=False, values=(("WIDE", 1 << 63),)),
    FuncProto(1, (("x", 4), ("", 0))), Func("f", 15, 1), Var("v", 1, 1),
    DataSec(".data", 8, (Placed(17, 0, 4),)), DeclTag("note", 10, -1),
]  # fmt: skip


def seed(order, copies=3):
    """Return a BTF with types of all kinds, which refer to each other."""
    builder = Builder(order)
    for start in range(0, copies * len(EVERY), len(EVERY)):
        for t in EVERY:
            builder.add(t)
        node = builder.reserve()
        link = builder.add(Reference(Kind.PTR, node))
        members = (Field("next", link, 0), Field("s", start + 10, 64), Field("e", start + 13, 128))
        builder.put(node, Composite(Kind.STRUCT, "node", 128, members))
        builder.add(FuncProto(link, (("n", node), ("", 0))))
    return builder.blob()


SEEDS = [seed("little"), seed("big")]
MARKS = ["<", ">"]
WORDS = st.one_of(
    st.integers(0, 90),
    st.integers(0, 0xFFFFFFFF),
    st.builds(
        lambda kind, count, flag: flag << 31 | kind << 24 | count,
        st.integers(0, 20), st.integers(0, 4), st.integers(0, 1),
    ),
)  # fmt: skip


@st.composite
def tampered(draw):
    """Return a BTF with a few words, or bytes, of another."""
    which = draw(st.integers(0, 1))
    data = bytearray(SEEDS[which])
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(data) // 4 - 1)) * 4
        struct.pack_into(MARKS[which] + "I", data, at, draw(WORDS))
    end = draw(st.sampled_from([len(data), len(data), draw(st.integers(0, len(data)))]))
    return bytes(data[:end])


def look(btf):
    """Ask all that can be asked."""
    for number in range(-1, len(btf) + 1):
        for ask in (btf.name, btf.kind, btf.skip, btf.pointed, btf.element, btf.integer, btf.size,
                    btf.array, btf.fields, btf.members, btf.variables, btf.externs, btf.linkage,
                    btf.enumerators, btf.prototype, btf.place):  # fmt: skip
            ask(number)
        btf.member(number, "next")
    btf.struct("node")
    btf.enumerator("LOW")


@given(tampered())
def test_nothing_else_is_raised(data):
    with suppress(BtfError):
        btf = Btf(data)
        look(btf)
        with suppress(BtfError):
            list(lines(btf))
        assert len(dump(btf)) < 1 << 24


def test_a_size_in_gigabytes_is_not_written_out():
    members = (Field("far", 2, 0xFFFFFFF8),)
    btf = built(Composite(Kind.STRUCT, "s", 0x20000000, members), Forward("x"))
    assert "char __pad0[536870911];" in dump(btf)


def test_many_structures_of_one_name():
    btf = built(*(Composite(Kind.STRUCT, "s", 0, ()) for _ in range(20_000)))
    assert "struct s___20000 {};" in dump(btf)


def test_many_values_of_one_name():
    values = tuple(("A", n) for n in range(60_000))
    btf = built(Enum(Kind.ENUM, "e", 4, signed=False, values=values))
    assert "A___60000 = 59999,\n" in dump(btf)
    assert btf.enumerator("A") is None


@pytest.mark.parametrize(
    "ring",
    [
        pytest.param([Reference(Kind.TYPEDEF, 1, "t")], id="typedef"),
        pytest.param([Composite(Kind.STRUCT, "s", 4, (Field("a", 1, 0),))], id="structure"),
        pytest.param([Array(2, 2, 2), Reference(Kind.TYPEDEF, 1, "t")], id="array"),
        pytest.param(
            [Composite(Kind.STRUCT, "s", 4, (Field("", 2, 0),)),
             Composite(Kind.UNION, "", 4, (Field("a", 1, 0),))], id="nameless",
        ),
    ],
)  # fmt: skip
def test_types_that_hold_themselves(ring):
    with pytest.raises(BtfError, match=r"type [12] holds itself"):
        dump(built(*ring))


def test_types_that_refer_to_themselves_by_name():
    node = Composite(Kind.STRUCT, "node", 8, (Field("next", 2, 0),))
    assert "\tstruct node *next;\n" in dump(built(node, Reference(Kind.PTR, 1)))


def test_names_that_are_none():
    btf = built(Enum(Kind.ENUM, "e", 4, signed=True, values=(("", 1), ("", 2), ("a\x1b\n", 3))))
    assert "enum e {\n\t_ = 1,\n\t____2 = 2,\n\ta__ = 3,\n};" in dump(btf)
    assert list(lines(btf))[-1] == "\t'a\\x1b\\n' val=3"


def test_too_deep(monkeypatch):
    monkeypatch.setattr(order, "_DEEPEST", 10)
    typedefs = [Reference(Kind.TYPEDEF, n + 2, f"t{n}") for n in range(11)]
    with pytest.raises(BtfError, match="type 11 is nested deeper than 10"):
        dump(built(*typedefs, Forward("end")))


@pytest.mark.parametrize("count", [20_000])
def test_long_chains(count):
    """Each refers to the next, or to all that follow by what it refers to."""
    typedefs = (Reference(Kind.TYPEDEF, n + 2, f"t{n}") for n in range(count))
    assert "typedef t1 t0;" in dump(built(*typedefs, Forward("end")))
    names = [Composite(Kind.STRUCT, f"s{n}", 0, (Field("a", n + 2, 0),)) for n in range(count)]
    assert "struct s0 {" in dump(built(*names, Forward("end")))
    pointers = [Reference(Kind.PTR, n + 2) for n in range(count)]
    with pytest.raises(BtfError, match="type 65 is nested deeper than 64"):
        dump(built(*pointers, Forward("end"), Reference(Kind.TYPEDEF, 1, "t")))


def built(*types):
    builder = Builder()
    for t in types:
        builder.add(t)
    return Btf(builder.blob())
