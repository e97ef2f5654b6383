"""Objects with bytes changed: an ObjectError, or all that is shown of them, fit for terminals."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.errors import ObjectError
from pybpf.inspect import facts
from pybpf.inspect.code import of_program, of_sections
from pybpf.inspect.diff import compare, of_object
from pybpf.inspect.difftext import text
from pybpf.inspect.graph import calls_dot, flow_dot
from pybpf.inspect.listing import Style, as_data, listing
from pybpf.inspect.names import Names
from pybpf.inspect.page import Shown, page
from pybpf.inspect.report import report
from pybpf.objfile.object import Object

NAMES = (
    "core_fields.el",
    "core_types.eb",
    "maps_inner.el",
    "subprogs_deep.eb",
    "kfuncs.el",
    "tags.el",
)


@pytest.fixture(scope="module")
def whole(c_objects):
    return [(c_objects / f"{name}.o").read_bytes() for name in NAMES]


def look(found):
    """Show all that can be shown, and return it as lines."""
    names = Names(found.btf, found.elf)
    lines = []
    for code in of_sections(found, names):
        lines += listing(code, Style(source=True, bytes=True))
        as_data(code)
    codes = [of_program(program, names) for program in found.programs]
    for code in codes:
        lines += [*flow_dot(code), *calls_dot(code)]
    known = facts.of_object(found, dict(enumerate(codes)), {})
    lines += report(known)
    page(known, [*map(Shown, known.programs, codes)])
    lines += text(compare(of_object(found, codes), of_object(found, [])))
    assert compare(of_object(found, codes), of_object(found, codes)).same
    return lines


def test_what_clang_made(whole):
    for data in whole:
        assert len(look(Object.parse(data))) > 50


@given(data=st.data())
def test_mutations(whole, data):
    mutant = bytearray(data.draw(st.sampled_from(whole)))
    places = st.integers(0, len(mutant) - 1)
    for at, byte in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=20)):
        mutant[at] = byte
    with contextlib.suppress(ObjectError):
        lines = look(Object.parse(bytes(mutant), "x.o"))
        assert all(line.isprintable() for line in lines)
