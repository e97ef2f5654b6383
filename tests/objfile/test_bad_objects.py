"""Damaged and hostile objects: an ObjectError that names the place, in bounded time and memory."""

from __future__ import annotations

import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pybpf.errors import ObjectError
from pybpf.objfile.object import Object


@pytest.fixture(scope="module")
def whole(c_objects):
    return [file.read_bytes() for file in sorted(c_objects.glob("*.o"))]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no ELF file: it does not begin with 7f 45 4c 46"),
        (b"#!/bin/sh\n", "no ELF file: it does not begin with 7f 45 4c 46"),
        (b"\x7fELF", "no ELF file"),
        (b"\x7fELF\x02\x01\x01" + bytes(9), "no ELF file"),
    ],
)
def test_no_elf(data, reason):
    with pytest.raises(ObjectError) as caught:
        Object.parse(data, "x.o")
    assert str(caught.value).startswith(f"x.o: {reason}")


def test_another_machine():
    with pytest.raises(ObjectError, match="no relocatable object"):
        Object.open("/bin/true")


def changed(data: bytes, at: int, layout: str, value: int) -> bytes:
    return data[:at] + struct.pack(layout, value) + data[at + struct.calcsize(layout) :]


@pytest.mark.parametrize(
    ("at", "layout", "value", "reason"),
    [
        (18, "<H", 62, "for another machine: EM_X86_64, not EM_BPF"),
        (40, "<Q", 1 << 60, "section"),
        (58, "<H", 1, "its section headers have 1 bytes, not 64"),
        (60, "<H", 0x4000, "its table of 16384 sections ends behind the end of the file"),
        (62, "<H", 0x7FFF, "the names of its sections are in none: 32767"),
    ],
)
def test_lying_headers(c_objects, at, layout, value, reason):
    data = changed((c_objects / "xdp_parse.el.o").read_bytes(), at, layout, value)
    with pytest.raises(ObjectError, match=reason):
        Object.parse(data, "x.o")


def test_the_place_is_named(c_objects):
    data = (c_objects / "xdp_pass.el.o").read_bytes()
    at = data.index(struct.pack("<BBhi", 0xB7, 0, 0, 2))
    with pytest.raises(ObjectError) as caught:
        Object.parse(changed(data, at, "<B", 0xFF), "x.o")
    assert str(caught.value) == "x.o: section xdp offset 0x0: no instruction has opcode 0xff"


def attempt(data: bytes) -> None:
    try:
        Object.parse(data, "x.o")
    except ObjectError as error:
        if not str(error).startswith("x.o:"):
            raise


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_mutations(whole, data):
    """Bytes, words and ends of real objects are changed; nothing but an ObjectError comes out."""
    blob = bytearray(data.draw(st.sampled_from(whole)))
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(blob) - 1))
        width = data.draw(st.sampled_from([1, 2, 4, 8]))
        value = data.draw(
            st.one_of(
                st.integers(0, (1 << 8 * width) - 1),
                st.sampled_from([0, 1, (1 << 8 * width) - 1, 1 << 8 * width - 1]),
            )
        )
        blob[at : at + width] = value.to_bytes(width, "little")
    end = data.draw(st.one_of(st.just(len(blob)), st.integers(0, len(blob))))
    attempt(bytes(blob[:end]))


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=400))
def test_arbitrary_bytes(data):
    attempt(b"\x7fELF\x02\x01\x01" + data)
