"""pybpf ply: the command line of ply, no more and no less."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pybpf import __version__

ROOT = Path(__file__).parents[2]
OPTIONS = {
    "-c": "--command", "-d": "--debug", "-e": "--dry-run", "-h": "--help", "-k": "--keep-going",
    "-S": "--dump", "-T": "--self-test", "-u": "--unbuffer", "-v": "--version",
}  # fmt: skip
MORE = "\n  hint: `pybpf ply -h` shows the arguments; `pybpf run` has more\n"

kernel = pytest.mark.kernel


def test_the_options_are_those_of_ply(pybpf):
    said = pybpf("ply", "-h")
    shown = re.findall(r"^  (-\w)(?: CMD)?, (--[\w-]+)", said.out, re.MULTILINE)
    assert (said.status, said.err) == (0, "")
    assert dict(shown) == OPTIONS
    assert set(re.findall(r"--[a-z][\w-]+", said.out)) == set(OPTIONS.values())


def test_run_has_all_of_them_too(pybpf):
    out = pybpf("run", "-h").out
    assert all(
        f"{short}, {long}" in out or f", {long} CMD" in out for short, long in OPTIONS.items()
    )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--vm", "END { }"], f"error: unrecognized arguments: --vm{MORE}"),
        (["--frob", "END { }"], f"error: unrecognized arguments: --frob{MORE}"),
        (["-x", "END { }"], f"error: unrecognized arguments: -x{MORE}"),
        (["END { }", "-c"], f"error: argument -c/--command: expected one argument{MORE}"),
        (
            ["--d", "END { }"],
            f"error: ambiguous option: --d could match --debug, --dry-run, --dump{MORE}",
        ),
        ([], "error: no script given\n  hint: such as 'BEGIN { print(\"hello\"); }'\n"),
        (["-k"], "error: no script given\n  hint: such as 'BEGIN { print(\"hello\"); }'\n"),
    ],
)
def test_bad_options_end_with_1(pybpf, arguments, error):
    said = pybpf("ply", *arguments)
    assert (said.status, said.out, said.err) == (1, "", error)


def test_the_version(pybpf):
    for option in ("-v", "--version"):
        assert pybpf("ply", option).out == f"pybpf {__version__}\n"


@kernel
@pytest.mark.parametrize(
    ("arguments", "status", "out"),
    [
        (["BEGIN { exit(0); }"], 0, ""),
        (["BEGIN { exit(3); }"], 3, ""),
        (["BEGIN { exit(259); }"], 3, ""),
        (["BEGIN { exit(-1); }"], 255, ""),
        (["BEGIN { exit(256); }"], 0, ""),
        (["END { exit(6); }", "-c", "true"], 6, ""),
        (["-c", "true", "END { print(1); }"], 0, "1\n"),
        (["-c", "exit 7", "END { print(1); }"], 0, "1\n"),
        (["-c", "kill -9 $$", "END { print(1); }"], 0, "1\n"),
        (["-c", "nosuchcommand 2>/dev/null", "END { print(1); }"], 0, "1\n"),
        (["--command=true", "END { print(1); }"], 0, "1\n"),
        (["-ctrue", "END { print($target > 1); }"], 0, "1\n"),
        (["-kuc", "true", "END { print(1); }"], 0, "1\n"),
        (["--keep", "--unbuf", "BEGIN { print(2); exit(1); }"], 1, "2\n"),
        (["BEGIN { print(2); exit(1); }", "-k"], 1, "2\n"),
        (["--", "BEGIN { print(2); exit(0); }"], 0, "2\n"),
        (["BEGIN { print($1, $2); exit(0); }", "-k", "3", "4"], 0, "3, 4\n"),
        (["-e", "BEGIN { print(2); }"], 0, ""),
        (["--dry-run", "BEGIN { print(2); }"], 0, ""),
    ],
)
def test_exit_statuses(pybpf, arguments, status, out):
    said = pybpf("ply", *arguments)
    assert (said.status, said.out, said.err) == (status, out, "")


def test_errors_end_with_1(pybpf):
    said = pybpf("ply", "-e", "BEGIN { nosuch(); }")
    assert (said.status, said.out) == (1, "")
    assert said.err.startswith("<script>:1:9: error: unknown function 'nosuch' in BEGIN\n")


@kernel
def test_interrupted_it_prints_the_maps_and_ends_with_1(start):
    process = start(
        "ply", "-u", 'BEGIN { m[1] = 2; } interval:20ms { print("t"); } END { print(3); }'
    )
    process.stdout.readline()
    said = process.end(2)
    assert said.status == 1
    assert said.out.endswith("3\n\nm:\n{ 1 }: 2\n")
    assert said.err == ""


@kernel
def test_a_dump_shows_types_ir_and_bytecode_and_runs(pybpf):
    said = pybpf("ply", "-S", "BEGIN { print(5); exit(0); }")
    assert re.findall(r"^-- (.+)$", said.out, re.MULTILINE) == ["types", "ir", "asm"]
    assert (said.status, said.out.endswith("    exit\n5\n")) == (0, True)


def test_a_dump_of_a_dry_run_does_not_run(pybpf):
    said = pybpf("ply", "-Se", "BEGIN { print(5); exit(0); }")
    assert said.status == 0
    assert said.out.endswith("    exit\n")


@kernel
def test_called_ply_it_is_ply(tmp_path):
    """By a link, and so by the first line of a script too."""
    program = tmp_path / "pybpf"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom pybpf.cli import main\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    link = tmp_path / "ply"
    link.symlink_to(program)
    script = tmp_path / "script"
    script.write_text(f"#!{link}\nBEGIN {{ print($1); exit(4); }}\n")
    script.chmod(0o755)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for command in ([link, script, "one"], [script, "one"], [program, "run", script, "one"]):
        run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert (run.returncode, run.stdout, run.stderr) == (4, "one    \n", "")
