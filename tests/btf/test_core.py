"""CO-RE: bits are read where they are, in both byte orders; hostile types and accesses end."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.btf.abi import Encoding, Kind
from pybpf.btf.builder import Builder
from pybpf.btf.core import Core
from pybpf.btf.core_match import CoreError, essential, types_compatible, types_match
from pybpf.btf.ext import CoreKind, CoreRelocation
from pybpf.btf.reader import Btf
from pybpf.btf.types import (
    Array,
    Composite,
    Enum,
    Field,
    Forward,
    FuncProto,
    Int,
    Reference,
)
from pybpf.errors import TargetError

SIZES = (1, 2, 4, 8)
ORDERS = ("little", "big")


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("task_struct", "task_struct"),
        ("task_struct___old", "task_struct"),
        ("a___b___c", "a___b"),
        ("a____b", "a____b"),  # four are none
        ("a___", "a___"),
        ("___b", "___b"),
        ("a____", "a____"),
        ("a___b____c", "a"),
        ("", ""),
    ],
)
def test_names_without_flavour(name, bare):
    assert essential(name) == bare


# --- fields are read where they are ---------------------------------------------------------------


@st.composite
def fields(draw):
    """Return types of fields: size in bytes, signed, and the bits of a bit field or 0."""
    rows = []
    for number in range(draw(st.integers(1, 8))):
        size = draw(st.sampled_from(SIZES))
        bits = draw(st.one_of(st.just(0), st.integers(1, size * 8)))
        rows.append((f"f{number}", size, draw(st.booleans()), bits))
    return rows


def laid_out(rows, gaps, builder):
    """Return the members of a structure, in their order with gaps of bits before them, its size."""
    members, bit = [], 0
    for (name, size, signed, bits), gap in zip(rows, gaps, strict=False):
        bit += gap if bits else -bit % (size * 8) + gap % 3 * size * 8
        encoding = Encoding.SIGNED if signed else Encoding(0)
        number = builder.add(Int(f"int{size}{signed}", size, encoding, size * 8))
        members.append(Field(name, number, bit, bits))
        bit += bits or size * 8
    return members, -(-bit // 64) * 8


def nested(members, builder, size):
    """Return the same members, the second half of them in a nameless structure."""
    half = len(members) // 2
    if half == len(members):
        return members
    base = members[half].bit_offset // 64 * 64
    inner = tuple(Field(m.name, m.type, m.bit_offset - base, m.bit_size) for m in members[half:])
    number = builder.add(Composite(Kind.STRUCT, "", size - base // 8, inner, bit_fields=True))
    return [*members[:half], Field("", number, base, 0)]


def structure(rows, gaps, order, *, nest=False):
    builder = Builder(order)
    members, size = laid_out(rows, gaps, builder)
    shown = nested(members, builder, size) if nest else members
    number = builder.add(Composite(Kind.STRUCT, "s", size, tuple(shown), bit_fields=True))
    return Btf(builder.blob()), number, members, size


GAPS = st.lists(st.integers(0, 20), min_size=8, max_size=8)


@given(fields(), GAPS, GAPS, st.randoms(), st.sampled_from(ORDERS), st.booleans(), st.data())
def test_fields_are_read_where_they_are(rows, mine, theirs, random, order, nest, data):
    local, number, before, _ = structure(rows, mine, order)
    other = list(rows)
    random.shuffle(other)
    target, _, after, size = structure(other, theirs, order, nest=nest)
    places = {member.name: member for member in after}
    core = Core(local, target)
    memory = data.draw(st.binary(min_size=size + 8, max_size=size + 8))

    for index, (name, size, signed, bits) in enumerate(rows):

        def ask(kind, index=index):
            relocation = CoreRelocation(0, number, f"0:{index}", kind)
            return core.resolve(relocation).new.number

        assert ask(CoreKind.FIELD_EXISTS) == 1
        if crosses(before[index]) or crosses(places[name]):
            with pytest.raises(CoreError, match="is not within 64 bits"):
                ask(CoreKind.FIELD_BYTE_SIZE)
            continue
        assert ask(CoreKind.FIELD_SIGNED) == signed
        start, width = ask(CoreKind.FIELD_BYTE_OFFSET), ask(CoreKind.FIELD_BYTE_SIZE)
        value = int.from_bytes(memory[start : start + width], order)
        value = value << ask(CoreKind.FIELD_LSHIFT_U64) & (1 << 64) - 1
        if signed:
            value -= value >> 63 << 64
        value >>= ask(CoreKind.FIELD_RSHIFT_U64)
        assert value == read(memory, places[name].bit_offset, bits or size * 8, order, signed)


def crosses(member):
    """Say whether a bit field lies across the end of 64 aligned bits, which no load reads."""
    last = member.bit_offset + max(member.bit_size, 1) - 1
    return member.bit_offset // 64 != last // 64


def read(memory, bit, bits, order, signed):
    """Return bits of a memory, which count from the low end, or on big-endian machines the high."""
    whole = int.from_bytes(memory, order)
    shift = bit if order == "little" else len(memory) * 8 - bit - bits
    value = whole >> shift & (1 << bits) - 1
    return value - (value >> bits - 1 << bits) if signed else value


# --- what is refused ------------------------------------------------------------------------------


def ask(types, relocation):
    btf = Btf(types.blob())
    return Core(btf, btf).resolve(relocation)


def example():
    """Return types: 1 int, 2 array of 3 int, 3 struct s { int a; int b[3]; }, 4 enum, 5 struct."""
    types = Builder()
    types.add(Int("int", 4, Encoding.SIGNED, 32))
    types.add(Array(1, 1, 3))
    types.add(Composite(Kind.STRUCT, "s", 16, (Field("a", 1, 0), Field("b", 2, 32))))
    types.add(Enum(Kind.ENUM, "e", 4, signed=False, values=(("A", 1), ("B", 2))))
    types.add(Composite(Kind.STRUCT, "", 4, (Field("a", 1, 0),)))
    types.add(Forward("s"))
    return types


BAD = [
    (3, "", 0, "access string '': it is no numbers with colons between"),
    (3, ":0", 0, "access string ':0': it is no numbers with colons between"),
    (3, "0:", 0, "access string '0:': it is no numbers with colons between"),
    (3, "0::1", 0, "access string '0::1': it is no numbers with colons between"),
    (3, "-1", 0, "access string '-1': it is no numbers with colons between"),
    (3, "0 1", 0, "access string '0 1': it is no numbers with colons between"),
    (3, "٣", 0, "access string '٣': it is no numbers with colons between"),
    (3, "2147483648", 0, "access string '2147483648': 2147483648 is too large"),
    (3, ":".join("0" * 65), 0, f"access string '{'0:' * 30}…': 65 steps are more than 64"),
    (3, "0:2", 0, "struct s has no member 2"),
    (3, "0:1:3", 0, "array <anon> has no element 3"),
    (3, "0:0:0", 0, "int has no element 0"),
    (3, "1", 8, "access string '1': that of a type is 0"),
    (4, "2", 10, "access string '2': enum e has no such value"),
    (4, "0:0", 11, "access string '0:0': enum e has no such value"),
    (3, "0", 10, "access string '0': struct s has no such value"),
    (3, "0:0", 13, "there is no CO-RE relocation of kind 13"),
    (99, "0", 8, "there is no type 99: the object has 7"),
    (5, "0:0", 0, "struct <anon> has no name to be found by"),
    (0, "0", 8, "void has no name to be found by"),
    (0, "0:0", 0, "type 0, void, has no size"),
    (6, "0", 9, "type 6, struct s, has no size"),
]


@pytest.mark.parametrize(("number", "access", "kind", "reason"), BAD)
def test_bad_relocations_are_refused(number, access, kind, reason):
    with pytest.raises(CoreError) as error:
        ask(example(), CoreRelocation(0, number, access, kind))
    assert str(error.value) == reason


def test_a_refusal_is_the_same_when_asked_again():
    btf = Btf(example().blob())
    core = Core(btf, btf)
    for _ in range(2):
        with pytest.raises(CoreError, match="struct s has no member 9"):
            core.resolve(CoreRelocation(0, 3, "0:9", 0))


def test_types_of_modules_count_where_the_kernel_has_none():
    kernel, local = Builder(), Builder()
    for builder in (kernel, local):
        builder.add(Int("int", 4, Encoding.SIGNED, 32))
    kernel.add(Composite(Kind.STRUCT, "a", 8, (Field("x", 1, 32),)))
    base = Btf(kernel.blob())
    module = Builder(base=base)
    for name in ("a", "b"):
        module.add(Composite(Kind.STRUCT, name, 16, (Field("x", 1, 64),)))
        local.add(Composite(Kind.STRUCT, name, 4, (Field("x", 1, 0),)))
    core = Core(Btf(local.blob()), base, lambda: [Btf(module.blob(), base=base)])

    offsets = [core.resolve(CoreRelocation(0, n, "0:0", 0)).new.number for n in (2, 3)]
    assert offsets == [4, 8]
    assert core.resolve(CoreRelocation(0, 3, "0", CoreKind.TYPE_ID_TARGET)).new.number == 4


def test_pointers_of_32_bit_kernels():
    local, target = Builder(), Builder()
    for builder, size in ((local, 8), (target, 4)):
        builder.add(Int("long int", size, Encoding.SIGNED, size * 8))
        builder.add(Reference(Kind.PTR, 0))
        builder.add(Composite(Kind.STRUCT, "s", size, (Field("p", 2, 0),)))
    found = Core(Btf(local.blob()), Btf(target.blob())).resolve(CoreRelocation(0, 3, "0:0", 0))

    assert (found.old.size, found.new.size, found.resizable) == (8, 4, True)


# --- hostile types --------------------------------------------------------------------------------


def in_circles():
    """Return types that are made of themselves, and what of them is asked."""
    types = Builder()
    integer = types.add(Int("int", 4, Encoding.SIGNED, 32))
    itself = types.reserve()
    types.put(
        itself, Composite(Kind.STRUCT, "s", 4, (Field("", itself, 0), Field("a", integer, 0)))
    )
    pointer = types.reserve()
    types.put(pointer, Reference(Kind.PTR, pointer))
    typedef = types.reserve()
    types.put(typedef, Reference(Kind.TYPEDEF, typedef, "t"))
    array = types.reserve()
    types.put(array, Array(array, integer, 2))
    proto = types.reserve()
    types.put(proto, FuncProto(proto, (("", proto), ("", proto))))
    names = ("p", pointer), ("a", array), ("f", proto)
    numbers = [types.add(Reference(Kind.TYPEDEF, number, name)) for name, number in names]
    fields = tuple(Field(f"m{n}", n, 0) for n in (itself, pointer, typedef, array, proto))
    numbers.append(types.add(Composite(Kind.STRUCT, "all", 4, fields)))
    return Btf(types.blob()), [itself, typedef, *numbers]


@pytest.mark.parametrize("kind", CoreKind)
def test_types_made_of_themselves_come_to_an_end(kind):
    btf, numbers = in_circles()
    for number in numbers:
        for access in ("0", "0:0", "0:1", "0:2", "0:3", "0:4", "0:3:1:1", "0:0:0:1"):
            with suppress(CoreError):
                Core(btf, btf).resolve(CoreRelocation(0, number, access, kind))


def layers(wide, deep, make):
    """Return a type each of whose many parts is the next layer, down to an integer."""
    types = Builder()
    number = types.add(Int("int", 4, Encoding.SIGNED, 32))
    for _ in range(deep):
        number = types.add(make([number] * wide))
    return types, number


def test_many_ways_through_nameless_members_are_walked_once():
    types, inner = layers(
        500, 20, lambda parts: Composite(Kind.STRUCT, "", 4, tuple(Field("", p, 0) for p in parts))
    )
    lone = types.add(Composite(Kind.STRUCT, "s___mine", 4, (Field("x", 1, 0),)))
    types.add(Composite(Kind.STRUCT, "s", 4, (Field("", inner, 0),)))
    relocation = CoreRelocation(0, lone, "0:0", CoreKind.FIELD_EXISTS)

    assert ask(types, relocation).new.number == 1  # in s___mine itself


def test_many_ways_through_parameters_are_walked_once():
    types, inner = layers(500, 20, lambda parts: FuncProto(0, tuple(("", part) for part in parts)))
    btf = Btf(types.blob())

    assert types_compatible(btf, inner, btf, inner)
    assert types_match(btf, inner, btf, inner)


def test_many_pairs_of_members_are_too_many():
    types = Builder()
    integers = [types.add(Int("int", 4, Encoding(n & 1), 32)) for n in range(1200)]
    mine = types.add(Composite(Kind.STRUCT, "", 4, tuple(Field("x", n, 0) for n in integers[::2])))
    theirs = types.add(
        Composite(
            Kind.STRUCT, "", 4, tuple(Field("x", n, 0) for n in integers[1::2] + integers[:1])
        )
    )
    btf = Btf(types.blob())
    with pytest.raises(CoreError, match="over 100000 pairs of types would have to be compared"):
        types_match(btf, mine, btf, theirs)


ACCESS = st.one_of(
    st.text(max_size=8), st.from_regex(r"[0-9]{1,3}(:[0-9]{1,2}){0,5}", fullmatch=True)
)


@given(
    st.integers(24, 300),
    st.binary(min_size=1, max_size=4),
    ACCESS,
    st.integers(0, 14),
    st.integers(0, 9),
)
def test_damaged_types_raise_nothing_else(place, changed, access, kind, number):
    whole = example().blob()
    damaged = whole[:place] + changed + whole[place + len(changed) :]
    for local, target in ((whole, damaged), (damaged, whole), (damaged, damaged)):
        with suppress(TargetError):
            found = Core(Btf(local), Btf(target)).resolve(CoreRelocation(0, number, access, kind))
            assert str(found.spec)
            assert found.found is None or str(found.found)
