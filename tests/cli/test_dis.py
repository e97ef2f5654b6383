"""`pybpf dis` of objects and of loaded programs; of plain bytes, see test_tools.py."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from pybpf.isa.abi import MapType, ProgType
from pybpf.isa.assembler import assemble

PARSE = """section xdp

over_packet:                            ; int over_packet(struct xdp_md *ctx)
; loops.c:18  int over_packet(struct xdp_md *ctx)
       0        r2 = 0
"""


def test_an_object_by_section_with_its_source(pybpf, c_objects):
    said = pybpf("dis", "-S", c_objects / "loops.el.o")
    assert (said.status, said.err) == (0, "")
    assert said.out.startswith("section socket\n\nbounded:")
    assert PARSE in said.out
    assert re.search(r"^  L1: +\d+  │ ╭─▶ r", said.out, re.MULTILINE)


def test_both_byte_orders_are_shown_alike(pybpf, c_objects):
    little, big = (pybpf("dis", c_objects / f"strings.{order}.o").out for order in ("el", "eb"))
    assert little
    assert len(little.splitlines()) == len(big.splitlines())


def test_a_program_with_all_that_it_calls(pybpf, c_objects):
    said = pybpf("dis", "--prog", "deep", c_objects / "subprogs_deep.el.o")
    names = [line.partition(":")[0] for line in said.out.splitlines() if line[:1].isalpha()]
    assert names == ["section socket", "deep", "level4", "level3", "level2", "level1", "level0"]


def test_a_program_that_is_not_there(pybpf, c_objects):
    said = pybpf("dis", "--prog", "deeep", c_objects / "subprogs_deep.el.o")
    assert (said.status, said.out) == (1, "")
    assert said.err == "error: no program is called 'deeep'; did you mean 'deep'?\n"


def test_bytes_have_no_programs(pybpf, stdin):
    stdin(bytes(assemble("exit")))
    said = pybpf("dis", "--prog", "x")
    assert (said.status, said.err) == (
        1,
        "error: - is not an object: it has no program of a name\n",
    )


def test_bytes_as_a_listing(pybpf, stdin):
    stdin(bytes(assemble("x: goto x")))
    assert pybpf("dis", "--arrows").out == "<stdin>:\n  L1: 0  ──▶ goto L1\n"
    stdin(bytes(assemble("exit")))
    assert pybpf("dis", "--bytes").out == "<stdin>:\n   0  95 00 00 00 00 00 00 00  exit\n"


def test_json(pybpf, c_objects):
    said = pybpf("dis", "--json", c_objects / "loops.el.o")
    bounded, over = json.loads(said.out)["code"]
    assert (bounded["name"], over["section"]) == ("bounded", "xdp")
    assert over["insns"][1] == {
        "slot": 1,
        "text": "r3 = *(u32 *)(r1 + 4)",
        "note": "ctx->data_end",
        "source": {
            "file": over["insns"][1]["source"]["file"],
            "line": 20,
            "column": over["insns"][1]["source"]["column"],
            "text": "u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;",
        },
    }


def test_an_object_without_lines_says_so(pybpf, c_objects):
    said = pybpf("dis", "-S", c_objects / "no_btf.el.o")
    assert said.status == 0
    assert said.err == f"{c_objects / 'no_btf.el.o'} has no source lines: `clang -g` adds them\n"


def test_arrows_where_the_terminal_has_ascii_only(c_objects):
    command = [sys.executable, "-m", "pybpf", "dis", c_objects / "loops.el.o"]
    environment = {"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert re.search(rb"^  L1: +\d+  \| \+-> r", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("number", ["x", "", "0", "-1", "99999999999999999999", "٣"])
def test_what_is_no_number_of_a_program(pybpf, number):
    said = pybpf("dis", f"prog:{number}")
    assert (said.status, said.out) == (1, "")
    assert said.err == (
        f"error: '{number}' is no number of a loaded program\n  hint: such as prog:7\n"
    )


@pytest.mark.kernel
def test_a_loaded_program(pybpf):
    from pybpf.kernel.maps import Map
    from pybpf.kernel.programs import load

    text = """
        r2 = r10; r2 += -8; *(u64 *)(r2 + 0) = 0
        r1 = map_fd[{}] ll; call bpf_map_lookup_elem
        if r0 != 0 goto some
        call two; exit
        some: r0 = 1; exit
        two: r0 = 2; exit
    """
    with Map(MapType.HASH, "counts", 8, 8, 4) as held:
        code = bytes(assemble(text.format(held.fileno())))
        with load(code, ProgType.SOCKET_FILTER, "looked_at") as prog:
            said = pybpf("dis", f"prog:{prog.info().id}")
            gone = prog.info().id
    assert (said.status, said.err) == (0, "")
    assert said.out.startswith("looked_at:\n")
    assert "r1 = map_fd:counts ll\n" in said.out
    assert "call sub1\n" in said.out
    assert "\nsub1:\n" in said.out
    said = pybpf("dis", f"prog:{gone}")
    assert said.status == 1


@pytest.mark.kernel
def test_a_loaded_program_with_types_and_lines(pybpf, c_objects):
    """What clang compiled, loaded by our own object loader's values."""
    from pybpf.kernel.programs import DebugInfo, load, load_btf
    from pybpf.objfile.corpus import corpus_programs
    from pybpf.objfile.object import Object

    found = Object.open(c_objects / "loops.el.o")
    corpus = next(corpus for program, corpus in corpus_programs(found) if program.section == "xdp")
    with load_btf(corpus.btf) as types:
        debug = DebugInfo(types, corpus.func_info)
        with load(corpus.insns, ProgType.XDP, "over_packet", debug=debug) as prog:
            said = pybpf("dis", f"prog:{prog.info().id}")
    assert said.out.startswith(
        "over_packet:                            ; int over_packet(struct xdp_md *ctx)\n"
    )
    assert "──▶" in said.out
