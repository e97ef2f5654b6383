"""asm, dis, compile, list and snapshot."""

import subprocess
import sys
from pathlib import Path

import pytest

TARGET = Path(__file__).parents[1] / "data" / "targets" / "6.12.tar.gz"
TEXT = "r0 = 1\nexit\n"
CODE = bytes.fromhex("b7000000 01000000 95000000 00000000")
BIG = bytes.fromhex("b7000000 00000001 95000000 00000000")
SHOWN = "    r0 = 1\n    exit\n"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "text.s"
    path.write_text(TEXT)
    return path


def test_asm_writes_bytes(source):
    command = [sys.executable, "-m", "pybpf", "asm", source]
    assert subprocess.run(command, capture_output=True, check=True).stdout == CODE


@pytest.mark.parametrize(("options", "code"), [([], CODE), (["--big-endian"], BIG)])
def test_asm_writes_a_file(pybpf, source, tmp_path, options, code):
    said = pybpf("asm", source, "-o", tmp_path / "out", *options)
    assert (said.status, said.out, said.err) == (0, "", "")
    assert (tmp_path / "out").read_bytes() == code


def test_asm_prints_hexadecimal(pybpf, stdin):
    stdin(TEXT.encode())
    assert pybpf("asm", "--hex").out == "b7 00 00 00 01 00 00 00\n95 00 00 00 00 00 00 00\n"


def test_asm_shows_what_is_wrong(pybpf, stdin):
    stdin(b"r0 = 1\nr0 += foo\n")
    said = pybpf("asm")
    assert (said.status, said.out) == (1, "")
    assert said.err.startswith("<stdin>:2:")


@pytest.mark.parametrize(
    "data",
    [
        CODE,
        CODE.hex().encode(),
        CODE.hex(" ").upper().encode() + b"\n",
        b"0x" + b", 0x".join(b"%02x" % byte for byte in CODE),
    ],
)
def test_dis_takes_bytes_and_hexadecimal(pybpf, stdin, tmp_path, data):
    stdin(data)
    assert pybpf("dis").out == SHOWN
    (tmp_path / "code").write_bytes(data)
    assert pybpf("dis", tmp_path / "code").out == SHOWN


def test_dis_of_the_other_byte_order(pybpf, stdin):
    stdin(BIG)
    assert pybpf("dis", "--big-endian", "-").out == SHOWN


NEITHER = "neither an object nor instructions"


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "error: <stdin> is empty\n"),
        (
            CODE[:-1],
            f"error: <stdin>: offset 0x8: {NEITHER}: the last slot has only 7 of 8 bytes\n",
        ),
        (b"b7 00 0", "error: <stdin> holds an odd number of hexadecimal digits: 5\n"),
        (b"\xff" * 8, None),
        (b"what is this?", None),
    ],
)
def test_dis_of_what_is_no_code(pybpf, stdin, data, error):
    stdin(data)
    said = pybpf("dis")
    assert (said.status, said.out) == (1, "")
    assert said.err.startswith("error: ")
    if error is not None:
        assert said.err == error


@pytest.mark.parametrize(
    ("stage", "line"),
    [
        ("tokens", "1:9     name                  exit"),
        ("ast", "      call exit  <1:9>"),
        ("types", "    exit #0(7:int)"),
        ("ir", "    bpf_ringbuf_submit(v1, 0)"),
        ("alloc", "leave:"),
        ("asm", "    call bpf_ringbuf_submit"),
    ],
)
def test_compile_prints_each_stage(pybpf, stage, line):
    said = pybpf("compile", "--target", TARGET, "-d", stage, "BEGIN { exit($1); }", "7")
    assert (said.status, said.err) == (0, "")
    assert line in said.out.splitlines()


def test_compile_prints_the_program(pybpf):
    said = pybpf("compile", "--target", TARGET, "BEGIN { exit(1); }")
    assert "    call bpf_ringbuf_submit\n" in said.out


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("tracepoint:sched/sched_sw*", ["tracepoint:sched/sched_switch"]),
        ("t:sched/sched_sw*", ["tracepoint:sched/sched_switch"]),
        ("*/sched_switch", ["tracepoint:sched/sched_switch"]),
        ("kprobe:vfs_rea[d]", ["kprobe:vfs_read"]),
        ("k:vfs_rea[d]", ["kprobe:vfs_read"]),
        ("kretprobe:vfs_read", ["kretprobe:vfs_read"]),
        ("vfs_read", ["kprobe:vfs_read"]),
    ],
)
def test_list_prints_probes(pybpf, pattern, lines):
    said = pybpf("list", "--target", TARGET, pattern)
    assert said.status == 0
    assert set(lines) <= set(said.out.splitlines())
    assert all(line.split(":")[0] == lines[0].split(":")[0] for line in said.out.splitlines())


def test_list_prints_everything(pybpf):
    lines = pybpf("list", "--target", TARGET).out.splitlines()
    assert "tracepoint:sched/sched_switch" in lines
    assert "kprobe:vfs_read" in lines


def test_list_of_nothing(pybpf):
    said = pybpf("list", "--target", TARGET, "nosuch*")
    assert (said.status, said.out, said.err) == (1, "", "nothing matches 'nosuch*'\n")


@pytest.mark.kernel
def test_list_on_a_kernel_without_kprobes(pybpf, monkeypatch):
    from pybpf.kernel import attach

    monkeypatch.setattr(attach.features, "pmu", lambda _name: None)
    monkeypatch.setattr(attach.features, "config", dict)
    reason = "this kernel has no kprobes (CONFIG_KPROBES or CONFIG_KPROBE_EVENTS is missing)"
    said = pybpf("list", "kprobe:vfs_*")
    assert (said.status, said.out, said.err) == (1, "", f"error: {reason}\n")
    said = pybpf("list", "*sched_switch")
    assert (said.status, said.err) == (0, "")
    assert "tracepoint:sched/sched_switch\n" in said.out
    assert pybpf("list").err == f"warning: {reason}\n"


@pytest.mark.kernel
def test_a_snapshot_compiles_as_this_machine_does(pybpf, tmp_path):
    saved = tmp_path / "host.tar.gz"
    assert pybpf("snapshot", "-o", saved).status == 0
    script = "tracepoint:sched/sched_switch { @[data->prev_comm] = sum(data->prev_pid); }"
    here = pybpf("compile", script)
    assert (here.status, here.err) == (0, "")
    assert pybpf("compile", "--target", saved, script) == here
