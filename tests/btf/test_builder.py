"""All kinds of types are written, and read back; a kernel's are written as they were."""

from pathlib import Path

import pytest

from pybpf.btf.abi import Encoding, Kind
from pybpf.btf.builder import Builder
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
    kind_of,
)
from pybpf.errors import BtfError

EVERY = [
    Int("int", 4, Encoding.SIGNED, 32),
    Int("odd", 8, Encoding.CHAR | Encoding.BOOL, 7, 3),
    Reference(Kind.PTR, 1),
    Array(1, 2, 17),
    Composite(Kind.STRUCT, "s", 8, (Field("a", 1, 0, 3), Field("", 3, 32)), bit_fields=True),
    Composite(Kind.UNION, "u", 1 << 31, (Field("far", 1, 0xFFFFFFFF),)),
    Enum(Kind.ENUM, "e", 4, signed=True, values=(("LOW", -(1 << 31)), ("HIGH", (1 << 31) - 1))),
    Enum(Kind.ENUM, "", 4, signed=False, values=(("MOST", (1 << 32) - 1),)),
    Enum(Kind.ENUM64, "w", 8, signed=True, values=(("WIDE", -(1 << 63)), ("MINUS", -2))),
    Enum(Kind.ENUM64, "w", 8, signed=False, values=(("WIDEST", (1 << 64) - 1),)),
    Forward("away"),
    Forward("far", union=True),
    Reference(Kind.TYPEDEF, 1, "alias"),
    Reference(Kind.VOLATILE, 0),
    Reference(Kind.CONST, 14),
    Reference(Kind.RESTRICT, 15),
    FuncProto(0, (("x", 1), ("", 0))),
    Func("f", 17, 1),
    Var("v", 1, 2),
    DataSec(".data", 12, (Placed(19, 0, 4), Placed(19, 8, 4))),
    Float("double", 8),
    DeclTag("note", 5, -1),
    DeclTag("note", 17, 1, attribute=True),
    Reference(Kind.TYPE_TAG, 1, "user"),
    Reference(Kind.TYPE_TAG, 1, "noderef", attribute=True),
]


def test_there_is_one_of_each_kind():
    assert {kind_of(t) for t in EVERY} == set(Kind) - {Kind.VOID}


@pytest.mark.parametrize("byteorder", ["little", "big"])
def test_each_is_read_as_it_was_written(byteorder):
    builder = Builder(byteorder)
    assert [builder.add(t) for t in EVERY] == list(range(1, len(EVERY) + 1))
    btf = Btf(builder.blob())
    assert btf.byteorder == byteorder
    assert [btf.type(n) for n in range(len(btf))] == [None, *EVERY]
    assert list(btf.types()) == list(enumerate(EVERY, start=1))


def test_a_type_that_refers_to_itself():
    builder = Builder()
    node = builder.reserve()
    link = builder.add(Reference(Kind.PTR, node))
    builder.put(node, Composite(Kind.STRUCT, "node", 8, (Field("next", link, 0),)))
    btf = Btf(builder.blob())
    assert btf.pointed(btf.member(btf.struct("node"), "next").type) == node


def test_numbers_without_types():
    builder = Builder()
    builder.add(Forward("a"))
    builder.reserve()
    with pytest.raises(BtfError, match=r"no BTF: type 2 was reserved and not put"):
        builder.blob()
    with pytest.raises(BtfError, match=r"no BTF: type 3 is none of 1 to 2"):
        builder.put(3, Forward("b"))


@pytest.mark.parametrize(
    ("t", "reason"),
    [
        (
            FuncProto(0, (("x", 1),) * 65536),
            "a FUNC_PROTO has no room for all that it says: (anon)",
        ),
        (Float("f", 1 << 32), "a FLOAT has no room for all that it says: f"),
        (Reference(Kind.PTR, -1), "a PTR has no room for all that it says: (anon)"),
        (
            Composite(Kind.STRUCT, "s", 4, (Field("m", 1, 1 << 24, 0),), bit_fields=True),
            "a bit field has no room for all that it says: m",
        ),
    ],
)
def test_what_does_not_fit(t, reason):
    with pytest.raises(BtfError) as caught:
        Builder().add(t)
    assert caught.value.reason == reason


def test_what_goes_on_from_a_base():
    whole = Builder()
    for t in EVERY:
        whole.add(t)
    base = Btf(whole.blob())
    builder = Builder(base=base)
    own = Composite(Kind.STRUCT, "own", 4, (Field("a", 1, 0),))
    assert builder.add(own) == len(base)
    assert builder.add(Func("f", 17, 0)) == len(base) + 1
    split = Btf(builder.blob(), base=base)
    assert (split.first, len(split)) == (len(base), len(base) + 2)
    assert split.type(5) == base.type(5)
    assert split.type(split.struct("own")) == own
    assert split.struct("s") == base.struct("s")
    assert split.function_number("f") == base.function_number("f")  # the base's goes first
    assert split.enumerator("WIDEST") == (1 << 64) - 1
    assert base.struct("own") is None
    assert [number for number, _ in split.types()] == [len(base), len(base) + 1]
    assert split.place(split.first) == 24
    assert split.place(1) == 0


def test_the_running_kernel():
    path = Path("/sys/kernel/btf/vmlinux")
    if not path.exists():
        pytest.skip("this kernel has no BTF")
    btf = Btf(path.read_bytes())
    builder = Builder(btf.byteorder)
    for _, t in btf.types():
        builder.add(t)
    again = Btf(builder.blob())
    assert all(a == b for a, b in zip(again.types(), btf.types(), strict=True))
