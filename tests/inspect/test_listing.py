"""Code to lines: arrows, labels, notes, source lines, and that nothing upsets a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.inspect.code import Code, Part, of_bytes
from pybpf.inspect.listing import _LANES, Style, arrows, as_data, listing
from pybpf.isa.assembler import assemble
from pybpf.isa.encoding import encode
from pybpf.isa.insn import LineInfo, Program

TEXT = """
    r2 = 0
again: if r2 > 4 goto out
    if r2 == 2 goto again
    r2 += 1
    goto again
out: r0 = 0x123456789 ll
    exit
"""


def code(text, **more):
    return Code("main", "", assemble(text), (Part("main", 0),), **more)


def shown(found, **style):
    return "\n".join(listing(found, Style(**style)))


def test_arrows_labels_and_slots():
    assert shown(code(TEXT)) == (
        "main:\n"
        "         0        r2 = 0\n"
        "  again: 1  ╭─┬─▶ if r2 > 4 goto out\n"
        "         2  │ ├── if r2 == 2 goto again\n"
        "         3  │ │   r2 += 1\n"
        "         4  │ ╰── goto again\n"
        "    out: 5  ╰───▶ r0 = 0x123456789 ll\n"
        "         7        exit"
    )


def test_arrows_of_ascii():
    lines = shown(code(TEXT), ascii=True).splitlines()
    assert lines[2:4] == [
        "  again: 1  +-+-> if r2 > 4 goto out",
        "         2  | +-- if r2 == 2 goto again",
    ]


def test_without_arrows():
    assert "goto again" in shown(code(TEXT), arrows=False)
    assert "─" not in shown(code(TEXT), arrows=False)


def test_a_jump_to_itself():
    assert shown(code("x: goto x")).splitlines()[1] == "  x: 0  ──▶ goto x"


def test_bytes_stand_between_number_and_text():
    program = assemble("r0 = 0x123456789 ll\nexit")
    found = of_bytes(encode(program), "little", "main")
    assert shown(found, bytes=True).splitlines() == [
        "main:",
        "   0  18 00 00 00 89 67 45 23  r0 = 0x123456789 ll",
        "      00 00 00 00 01 00 00 00",
        "   2  95 00 00 00 00 00 00 00  exit",
    ]


def test_source_lines_come_once_and_line_0_never():
    lines = (
        LineInfo(0, "dir/a.c", 3, 1, "x = 1;"),
        LineInfo(1, "dir/a.c", 3, 5, "x = 1;"),
        LineInfo(2, "dir/a.c", 0, 0, ""),
        LineInfo(3, "dir/b.h", 3, 1, "y"),
    )
    program = Program(assemble("r0 = 0\nr1 = 0\nr2 = 0\nexit").insns, lines=lines)
    found = Code("main", "", program, (Part("main", 0),))
    texts = [line for line in shown(found, source=True).splitlines() if line[0] == ";"]
    assert texts == ["; a.c:3  x = 1;", "; b.h:3  y"]


def test_notes_are_aligned_and_prototypes_too():
    found = Code(
        "main", "", assemble("r0 = 0\nexit"), (Part("main", 0, "int main(void)"),),
        notes={0: "nothing"},
    )  # fmt: skip
    heading, first, _ = shown(found).splitlines()
    assert heading.index(";") == 40
    assert first == f"   0  {'r0 = 0':40}  ; nothing"


def test_what_upsets_a_terminal_is_escaped():
    evil = "\x1b[2J\n"
    line = LineInfo(0, evil, 1, 1, evil)
    found = Code(
        evil, evil, Program(assemble("exit").insns, lines=(line,)), (Part(evil, 0, evil),),
        notes={0: evil}, texts={0: evil},
    )  # fmt: skip
    lines = list(listing(found, Style(source=True)))
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)
    assert r"\x1b[2J\n" in lines[2]


def test_data_for_json():
    data = as_data(code(TEXT, notes={0: "zero"}))
    assert data["functions"] == [{"name": "main", "slot": 0, "prototype": ""}]
    assert data["insns"][0] == {"slot": 0, "text": "r2 = 0", "note": "zero"}
    assert data["insns"][1] == {
        "slot": 1, "text": "if r2 > 4 goto out", "label": "again", "target": 5,
    }  # fmt: skip
    assert [row["slot"] for row in data["insns"]] == [0, 1, 2, 3, 4, 5, 7]


@pytest.mark.parametrize("count", [1, _LANES, _LANES + 3])
def test_arrows_that_find_no_lane_are_left_out(count):
    jumps = [(n, 2 * count - n) for n in range(count)]
    rows = arrows(jumps, 0, 2 * count + 1)
    assert len(rows[count]) == 2 * min(count, _LANES) + 2
    assert sum("▶" in row for row in rows.values()) == min(count, _LANES)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=40))
def test_every_arrow_begins_and_ends_where_it_should(jumps):
    rows = arrows(jumps, 0, 31)
    ends = {target for _, target in jumps}
    assert {len(row) for row in rows.values()} <= {2 * n + 2 for n in range(_LANES + 1)}
    for line, row in rows.items():
        assert ("▶" in row) <= (line in ends)
        if line not in ends and line not in {origin for origin, _ in jumps}:
            assert set(row) <= {" ", "│"}
