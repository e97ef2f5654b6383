"""`pybpf dis` of objects and of loaded programs; of plain bytes, see test_tools.py."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.kernel
def test_a_pinned_program(c_objects, tmp_path):
    """In a mount namespace of its own; a pinned map is told from a program, and nothing too."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    script = f"""
        mount -t bpf bpf {tmp_path} || exit 77
        pybpf="{sys.executable} -m pybpf"
        $pybpf load {c_objects}/maps_btf.el.o --pin {tmp_path}/here > /dev/null || exit 3
        $pybpf dis pinned:{tmp_path}/here/use_all || exit 4
        $pybpf inspect pinned:{tmp_path}/here/use_all || exit 5
        $pybpf dis pinned:{tmp_path}/here/hash
        $pybpf dis pinned:{tmp_path}/there
        exit 0
    """
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONUTF8": "1"},
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip(f"no bpf file system here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("use_all:                                ; int use_all(")
    assert "map_fd:routes ll" in done.stdout
    assert re.search(r"^prog:\d+: loaded program, little-endian, ", done.stdout, re.MULTILINE)
    assert done.stderr.splitlines() == [
        f"error: {tmp_path}/here/hash is a bpf-map, not a program: Invalid argument (errno 22)",
        f"error: nothing is pinned at {tmp_path}/there: No such file or directory (errno 2)",
    ]
