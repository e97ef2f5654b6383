"""pybpf asm: formats, several programs, listings, warnings."""

from __future__ import annotations

import pytest

from pybpf.objfile.object import Object

TWO = """
.map hits, type=array, value=8, entries=1
.prog xdp, first
    r1 = hits ll
    call one
    exit
.prog tc, second
    r0 = TC_ACT_OK
    exit
.func one
    r0 = 1
    exit
"""
FIRST = "18110000000000000000000000000000 8510000001000000 9500000000000000 b700000001000000"
FIRST = bytes.fromhex(FIRST + "9500000000000000")


@pytest.fixture
def two(tmp_path):
    path = tmp_path / "two.s"
    path.write_text(TWO)
    return path


@pytest.mark.parametrize("name", ["two.o", "two"])
def test_objects(pybpf, two, tmp_path, name):
    options = [] if name.endswith(".o") else ["-f", "object"]
    said = pybpf("asm", two, "-o", tmp_path / name, *options)

    assert (said.status, said.out, said.err) == (0, "", "")
    assert [p.name for p in Object.open(tmp_path / name).programs] == ["first", "second"]


def test_an_object_for_a_big_endian_machine(pybpf, two, tmp_path):
    pybpf("asm", two, "-o", tmp_path / "two.o", "--big-endian")

    assert Object.open(tmp_path / "two.o").byteorder == "big"


def test_one_of_several_programs(pybpf, two, tmp_path):
    said = pybpf("asm", two, "-p", "first", "-o", tmp_path / "first.bin")

    assert (said.status, said.err) == (0, "")
    assert (tmp_path / "first.bin").read_bytes() == FIRST


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], """has several programs: first, second
  hint: -p takes the name of one, and -o FILE.o writes them all
"""),
        (["-p", "firs"], "has no program 'firs'; did you mean 'first'?\n"),
    ],
)  # fmt: skip
def test_which_program_is_asked(pybpf, two, options, message):
    said = pybpf("asm", two, "--hex", *options)

    assert (said.status, said.out) == (1, "")
    assert said.err == f"error: {two} {message}"


def test_plain_instructions_have_no_name(pybpf, stdin):
    stdin(b"exit")
    said = pybpf("asm", "--hex", "-p", "x")

    assert said.err == "error: <stdin> has no program 'x', but instructions alone\n"


def test_a_c_array(pybpf, two):
    said = pybpf("asm", two, "-f", "c", "-p", "second")

    assert said.out == (
        "static const unsigned char second[] = {\n"
        "\t0xb7, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,\n"
        "\t0x95, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,\n"
        "};\n"
    )


def test_a_listing_writes_no_bytes_without_a_file(pybpf, two, tmp_path):
    said = pybpf("asm", "--listing", two)
    assert said.out.startswith("xdp: first\n   slot  bytes")

    both = pybpf("asm", "-l", two, "-o", tmp_path / "two.o")
    assert both.out == said.out
    assert (tmp_path / "two.o").exists()


def test_a_warning_does_not_stop(pybpf, stdin):
    stdin(b"r0 = 1")
    said = pybpf("asm", "--hex")

    assert (said.status, said.out) == (0, "b7 00 00 00 01 00 00 00\n")
    assert said.err == (
        "<stdin>:1:1: warning: the program goes on behind its last instruction\n"
        "    r0 = 1\n"
        "    ^^^^^^\n"
        "  hint: end it with exit or goto\n"
    )


def test_maps_alone_are_an_object_only(pybpf, stdin, tmp_path):
    stdin(b".map m, type=ringbuf, entries=4096")
    assert pybpf("asm", "--hex").err == "error: <stdin> holds no instruction\n"
    stdin(b".map m, type=ringbuf, entries=4096")
    assert pybpf("asm", "-o", tmp_path / "m.o").status == 0
