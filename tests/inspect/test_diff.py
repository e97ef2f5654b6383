"""Two sides to what differs: instructions aligned, jumps by where they lead."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.dataclass import replace
from pybpf.inspect.code import of_bytes
from pybpf.inspect.diff import Side, _aligned, compare, of_code, of_loaded, of_object
from pybpf.inspect.difftext import as_data, text
from pybpf.inspect.facts import MapFacts
from pybpf.isa.assembler import assemble
from pybpf.isa.encoding import encode
from pybpf.objfile.object import Object


def side(source):
    return of_code(of_bytes(encode(assemble(source)), "little", "main"))


def signs(before, after):
    programs = compare(side(before), side(after)).programs
    return "".join(row.sign for row in programs[0].rows) if programs else ""


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("exit", "exit", ""),
        ("r0 = 1\nexit", "r0 = 2\nexit", "-+="),
        ("r0 = 1\nexit", "r0 = 1\nr0 = 2\nexit", "=+="),
        # The distance of the jump changes, where it leads does not.
        ("if r0 == 0 goto x\nx: exit", "if r0 == 0 goto x\nr0 = 0\nx: exit", "=+="),
        # All is the same but where the jump leads.
        ("if r0 == 0 goto x\nr1 = 0\nx: exit", "if r0 == 0 goto x\nx: r1 = 0\nexit", "-+=="),
        # Of labels that move only the names change.
        ("a: goto b\nb: goto a", "b: goto c\nc: goto b", ""),
        ("r1 = 5 ll\nexit", "r1 = 6 ll\nexit", "-+="),
    ],
)
def test_instructions(before, after, found):
    assert signs(before, after) == found


def test_slots_of_both_sides():
    rows = compare(side("r1 = 1 ll\nexit"), side("exit")).programs[0].rows
    assert [(row.sign, row.before, row.after) for row in rows] == [("-", 0, None), ("=", 2, 0)]


def test_what_is_added_and_removed():
    one = Side({"licence": "GPL"}, {"m": {"type": "hash", "entries": "1"}}, {}, {})
    other = Side({"licence": ""}, {"n": {"type": "array"}}, {"k": {"kind": "kfunc"}},
                 side("exit").programs)  # fmt: skip
    assert list(text(compare(one, other))) == [
        "licence: GPL -> none",
        "map m: removed (hash)",
        "map n: added (array)",
        "extern k: added",
        "",
        "program main: added, 1 instructions",
    ]
    assert compare(one, one).same
    assert list(text(compare(one, one))) == []


def test_a_loaded_program_and_its_object():
    ((_, code),) = side("exit").programs.values()
    told = {"type": "lru_hash", "entries": "8", "key": "struct flow", "content": "00"}
    maps = {"flows": told, ".bss": {"type": "array", "entries": "1"}, "elsewhere": {"type": "hash"}}
    programs = {"main": ({"section": "xdp", "type": "unspec"}, code), "other": ({}, code)}
    one = Side({"byte order": "little"}, maps, {"k": {}}, programs,
               kernel_names={"a.bss": ".bss", "flows": "flows"})  # fmt: skip
    rows = [MapFacts("flows", "lru_hash", 4, 8, 8, 0), MapFacts("a.bss", "array", 4, 8, 1, 0)]
    other = of_loaded(code, rows)
    assert compare(one, other).same
    assert compare(other, one).same
    rows[0] = MapFacts("flows", "hash", 4, 8, 8, 0, key="struct edge")
    assert list(text(compare(of_loaded(code, rows), one))) == [
        "map flows: type hash -> lru_hash, key struct edge -> struct flow"
    ]
    assert compare(side("exit"), one).same


def test_long_facts_are_cut_to_where_they_differ():
    content = "00" * 200
    one, other = (Side({}, {"m": {"content": c}}, {}, {}) for c in (content, content[:-2] + "01"))
    assert list(text(compare(one, other))) == ["map m: content …0 -> …1"]


def test_hunks():
    lines = [f"r0 = {n}" for n in range(20)]
    changed = [*lines]
    changed[10] = "r0 = 99"
    shown = list(text(compare(side("\n".join(lines)), side("\n".join(changed)))))
    assert shown[0] == "program main: 1 removed, 1 added, 19 the same"
    assert shown[1] == shown[-1] == "  ..."
    assert shown[5:7] == ["  10    - r0 = 10", "     10 + r0 = 99"]
    assert len(shown) == 11


def test_names_are_escaped():
    evil = Side({}, {"\x1b[2J": {"type": "a"}}, {}, {})
    assert all(line.isprintable() for line in text(compare(Side({}, {}, {}, {}), evil)))


def test_data_for_json():
    data = as_data(compare(side("r0 = 1\nexit"), side("r0 = 2\nexit")))
    assert not data["same"]
    (program,) = data["programs"]
    assert (program["name"], program["what"]) == ("main", "changed")
    assert program["insns"][1] == {"sign": "+", "before": None, "after": 0, "text": "r0 = 2"}


@given(st.lists(st.sampled_from("abc"), max_size=30), st.lists(st.sampled_from("abc"), max_size=30))
def test_what_is_aligned_is_the_same_and_in_order(before, after):
    pairs = _aligned(before, after)
    assert all(before[one] == after[other] for one, other in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))
    if before == after:
        assert len(pairs) == len(before)


def test_large_programs_that_repeat_themselves():
    """As many pairs as would take an exact alignment minutes."""
    before = ["r0 = 0", "r1 = 1"] * 20_000
    after = ["r1 = 1", "r0 = 0"] * 20_000
    assert len(_aligned(before, ["x", *after])) >= 0


def test_a_jump_says_to_which_slot_it_leads():
    rows = compare(side("exit"), side("goto x\nr0 = 1\nx: exit")).programs[0].rows
    assert [row.text for row in rows] == ["goto L1  ; to 2", "r0 = 1", "exit"]


def test_variables_are_compared_by_name(c_objects):
    found = Object.open(c_objects / "data.el.o")
    data = next(one for one in found.maps if one.initial and one.initial.strip(b"\0"))
    changed = replace(data, initial=bytes(len(data.initial)))
    others = tuple(changed if one is data else one for one in found.maps)
    before, after = of_object(found, []), of_object(replace(found, maps=others), [])
    (named,) = compare(before, after).maps
    assert named.name == data.name
    assert named.changes
    assert "content" not in {change.what for change in named.changes}
