import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.vm.memory import AddressSpace, Trap


@pytest.fixture
def space():
    return AddressSpace()


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("byteorder", ["little", "big"])
def test_what_is_stored_is_loaded_in_the_byte_order_asked_for(size, byteorder):
    space = AddressSpace(byteorder)
    region = space.add(bytearray(16), "r")

    space.store(region.address + 3, size, 0x1122334455667788)

    low = 0x1122334455667788 & ((1 << size * 8) - 1)
    assert space.load(region.address + 3, size) == low
    assert space.read(region.address + 3, size) == low.to_bytes(size, byteorder)
    assert bytes(region.data[:3]) == bytes(3)
    assert bytes(region.data[3 + size :]) == bytes(13 - size)


def test_a_region_is_the_callers_bytes_not_a_copy(space):
    data = bytearray(4)

    space.write(space.add(data, "r").address, b"abcd")

    assert data == b"abcd"


def test_no_bytes_may_be_read_and_written_anywhere(space):
    assert space.read(0, 0) == b""
    space.write(0, b"")


@pytest.mark.parametrize(
    ("offset", "size", "message"),
    [
        (-1, 1, "cannot load 1 byte at offset -1 of r: outside its 16 bytes"),
        (16, 1, "cannot load 1 byte at offset 16 of r: outside its 16 bytes"),
        (9, 8, "cannot load 8 bytes at offset 9 of r: outside its 16 bytes"),
        (1 << 30, 4, "cannot load 4 bytes at offset 1073741824 of r: outside its 16 bytes"),
    ],
)
def test_an_access_outside_names_its_region(space, offset, size, message):
    region = space.add(bytearray(16), "r")
    space.add(bytearray(16), "neighbour")

    with pytest.raises(Trap) as caught:
        space.load(region.address + offset, size)

    assert str(caught.value) == message


def test_other_wrong_accesses_say_why(space):
    constant = space.add(bytearray(8), "constant", writable=False)
    freed = space.add(bytearray(8), "freed")
    space.free(freed, "it was submitted")

    for action, message in (
        (lambda: space.load(0, 8), "cannot load 8 bytes at 0x0: null pointer"),
        (lambda: space.store(8, 4, 1), "cannot store 4 bytes at 0x8: null pointer"),
        (
            lambda: space.load(0xFFFF888000000000, 8),
            "cannot load 8 bytes at 0xffff888000000000: no memory of the program is there",
        ),
        (
            lambda: space.store(constant.address, 8, 1),
            "cannot store 8 bytes at offset 0 of constant: it is read-only",
        ),
        (
            lambda: space.write(constant.address + 4, bytes(8)),
            "cannot store 8 bytes at offset 4 of constant: outside its 8 bytes",
        ),
        (
            lambda: space.read(freed.address, 8),
            "cannot load 8 bytes at offset 0 of freed: it was submitted",
        ),
    ):
        with pytest.raises(Trap) as caught:
            action()
        assert str(caught.value) == message


def test_a_retired_region_lives_until_things_settle(space):
    region = space.add(bytearray(b"x"), "r")
    space.retire(region)

    assert space.load(region.address, 1) == ord("x")

    space.settle()
    with pytest.raises(Trap, match="no memory of the program is there"):
        space.load(region.address, 1)


@given(st.integers(0, (1 << 64) - 1), st.sampled_from([1, 2, 4, 8]))
def test_any_address_is_either_in_a_region_or_refused(address, size):
    space = AddressSpace()
    region = space.add(bytearray(64), "r")

    inside = region.address <= address and address + size <= region.end
    if inside:
        space.load(address, size)
    else:
        with pytest.raises(Trap):
            space.load(address, size)


def test_zeros_are_made_only_where_they_fit():
    space = AddressSpace()
    region = space.add(bytearray(b"abcdef"), "memory")

    space.clear(region.address + 1, 2)
    space.clear(region.address + 9, 0)
    assert region.data == b"a\0\0def"
    with pytest.raises(Trap, match="cannot store 1099511627776 bytes at offset 0 of memory"):
        space.clear(region.address, 1 << 40)
