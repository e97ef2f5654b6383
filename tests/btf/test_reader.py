"""The kernel's BTF is read: structures, members, functions; other bytes are refused."""

import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.btf.reader import Btf, Integer, Kind, Member, Proto
from pybpf.errors import BtfError, TargetError

NAMES = b"\0int\0pair\0first\0bits\0inner\0call\0arg\0alias\0away\0ONE\0LOW\0WIDE\0BOTH\0"


def name(text):
    return NAMES.index(b"\0" + text + b"\0") + 1


def head(text, kind, other, parts=0, flag=0):
    return struct.pack("<III", name(text) if text else 0, flag << 31 | kind << 24 | parts, other)


TYPES = [
    head(b"int", 1, 4) + struct.pack("<I", 1 << 24 | 32),
    head(b"", 4, 8, 1) + struct.pack("<III", name(b"inner"), 1, 32),
    head(b"pair", 4, 16, 3, 1)
    + struct.pack("<III", name(b"first"), 1, 0)
    + struct.pack("<III", name(b"bits"), 4, 3 << 24 | 33)
    + struct.pack("<III", 0, 2, 64),
    head(b"alias", 8, 5),
    head(b"", 10, 1),
    head(b"", 2, 3),
    head(b"", 13, 4, 1) + struct.pack("<II", name(b"arg"), 6),
    head(b"call", 12, 7),
    head(b"away", 7, 0),
    head(b"", 6, 4, 2) + struct.pack("<IIII", name(b"ONE"), 1, name(b"BOTH"), 0xFFFFFFFF),
    head(b"", 6, 4, 2, 1) + struct.pack("<IiIi", name(b"LOW"), -5, name(b"BOTH"), 3),
    head(b"", 19, 8, 2) + struct.pack("<IIIIII", name(b"WIDE"), 1, 1 << 31, name(b"ONE"), 1, 0),
]


def blob(*more):
    types = b"".join([*TYPES, *more])
    sizes = (24, 0, len(types), len(types), len(NAMES))
    return struct.pack("<HBBIIIII", 0xEB9F, 1, 0, *sizes) + types + NAMES


def test_structures_and_members():
    btf = Btf(blob())
    pair = btf.struct("pair")
    assert pair == 3
    assert btf.struct("int") is None
    assert btf.struct("nosuch") is None
    assert btf.struct("") == 2
    assert btf.member(pair, "first") == Member(1, 0, 0)
    assert btf.member(pair, "bits") == Member(4, 33, 3)
    assert btf.member(pair, "inner") == Member(1, 96, 0)
    assert btf.member(pair, "nosuch") is None
    assert set(btf.members(pair)) == {"first", "bits", "inner"}
    assert btf.declares("away")
    assert not btf.declares("pair")


def test_functions_and_types():
    btf = Btf(blob())
    assert btf.function("call") == Proto(4, (("arg", 6),))
    assert btf.function("pair") is None
    assert btf.skip(4) == 1
    assert btf.kind(6) is Kind.PTR
    assert btf.pointed(6) == 3
    assert btf.integer(1) == Integer(signed=True, bits=32, offset=0)
    assert btf.integer(3) is None
    assert btf.name(1) == "int"
    assert btf.kind(0) is btf.kind(99) is Kind.VOID


def test_functions_of_one_name_have_types_of_their_own():
    btf = Btf(blob(head(b"", 13, 1), head(b"call", 12, 13)))
    assert btf.prototype(8) == btf.function("call") == Proto(4, (("arg", 6),))
    assert btf.prototype(14) == Proto(1, ())
    assert btf.prototype(3) is None


def test_names_of_enums():
    btf = Btf(blob())
    assert btf.enumerator("ONE") == 1
    assert btf.enumerator("LOW") == -5
    assert btf.enumerator("WIDE") == 1 << 63 | 1
    assert btf.enumerator("BOTH") is None  # 0xffffffff in one, 3 in another
    assert btf.enumerator("pair") is btf.enumerator("nosuch") is btf.enumerator("") is None


@pytest.mark.parametrize("data", [b"", b"\x9f\xeb", b"x" * 40, blob()[:-1], blob()[:60]])
def test_other_bytes_are_refused(data):
    with pytest.raises(TargetError, match="no BTF"):
        Btf(data)


@given(st.integers(24, len(blob()) - 1), st.binary(min_size=1, max_size=4))
def test_no_bytes_raise_anything_else(place, changed):
    data = blob()
    with suppress(TargetError):
        btf = Btf(data[:place] + changed + data[place + len(changed) :])
        btf.function("call")
        pair = btf.struct("pair") or 1
        btf.member(pair, "inner")
        btf.members(pair)
        btf.enumerator("ONE")
        for number in range(12):
            btf.name(number)
            btf.integer(btf.element(btf.skip(btf.pointed(number))))


def test_the_running_kernel():
    path = Path("/sys/kernel/btf/vmlinux")
    if not path.exists():
        pytest.skip("this kernel has no BTF")
    btf = Btf(path.read_bytes())
    task = btf.struct("task_struct")
    assert {"pid", "comm", "real_parent"} <= set(btf.members(task))
    assert btf.integer(btf.skip(btf.member(task, "pid").type)).bits == 32
    assert btf.enumerator("BPF_PROG_TYPE_KPROBE") == 2


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "offset 0x0: its first two bytes are not 0xeb9f"),
        (b"\x9f\xeb", "offset 0x0: a header has 24 bytes, and there are 2"),
        (blob()[:2] + b"\2" + blob()[3:], "offset 0x2: its version is 2, not 1"),
        (blob()[:-1], "offset 0x11c: its 65 bytes of names end behind all 348 of it"),
        (blob()[:60], "offset 0x18: its 260 bytes of types end behind all 60 of it"),
        (blob()[:-1] + b"x", "offset 0x15d: its last name has no end"),
        (blob(head(b"", 4, 8, 1)), "offset 0x11c: its last type is cut off"),
        (blob(b"xy"), "offset 0x11c: its last type is cut off"),
        (blob(head(b"", 0, 8)), "offset 0x11c: a type is of kind 0, which is not known"),
        (blob(head(b"", 21, 8)), "offset 0x11c: a type is of kind 21, which is not known"),
    ],
)  # fmt: skip
def test_what_is_wrong_and_where(data, error):
    with pytest.raises(BtfError) as caught:
        Btf(data)
    assert str(caught.value) == f"no BTF: {error}"


@pytest.mark.parametrize(
    ("more", "error"),
    [
        (head(b"", 2, 14), "offset 0x11c: type 13 refers to type 14, and they end at 13"),
        (
            struct.pack("<III", 65, 7 << 24, 0),
            "offset 0x11c: type 13: a name is at 65 of 65 bytes of names",
        ),
    ],
)
def test_types_that_are_not_there(more, error):
    btf = Btf(blob(more))
    with pytest.raises(BtfError) as caught:
        list(btf.types())
    assert str(caught.value) == f"no BTF: {error}"
    with pytest.raises(BtfError, match="no BTF: there is no type 14: they end at 13"):
        btf.type(14)


def test_equal_names_and_names_that_end_others():
    more = struct.pack("<III", name(b"inner") + 2, 4 << 24, 0)  # "ner"
    assert Btf(blob(more)).struct("ner") == 13
    types = [struct.pack("<III", at, 4 << 24, 0) for at in (5, 1)]
    texts = b"\0twi\0twi\0"
    sizes = (24, 0, 24, 24, len(texts))
    twice = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, *sizes) + b"".join(types) + texts
    assert Btf(twice).struct("twi") == 1
