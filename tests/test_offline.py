"""What needs no kernel runs without the extension, and where Python has nothing of Linux."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

NO_EXTENSION = """
import sys
sys.modules["pybpf._bpf_syscall"] = None
"""
NO_LINUX = f"""{NO_EXTENSION}
import os
for name in "fcntl", "grp", "pwd", "resource", "termios":
    sys.modules[name] = None
for name in "geteuid", "getuid", "memfd_create", "pidfd_open", "sched_getaffinity", "setns":
    vars(os).pop(name, None)
"""


def run(tmp_path, without, *argv, stdin=""):
    """Run Python without what ``without`` takes away, in a process of its own."""
    (tmp_path / "sitecustomize.py").write_text(without)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    return subprocess.run(
        [sys.executable, *argv],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


PROGRAM = "r0 = 2\nexit\n"
TARGET = "examples/demo-target.tar.gz"
RUN = ["run", "--vm", "--target", TARGET, "--events", "examples/demo-events.jsonl"]


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["asm", "--hex", "-"], "b7 00 00 00 02 00 00 00"),
        (["dis", "-"], "r0 = 2"),
        (["exec", PROGRAM], "r0 = 2 (0x2)"),
        (["verify", "--kernel", "6.12", "--type", "xdp", "-"], "accept   xdp"),
        (["compile", "--target", TARGET, "kprobe:f { @ = count(); }"], "exit"),
        ([*RUN, 'BEGIN { printf("%d\\n", 6 * 7); exit(0); }'], "42"),
        (["events", "check", "--kernel", "6.12", "p:my/ev do_sys_open"], "p:my/ev do_sys_open"),
        (["fuzz", "--minutes", "0.01", "--seed", "1", "--loops", "text,modes"], "seed 1"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_commands_that_work_on_any_system(tmp_path, argv, shown):
    stdin = "b7 00 00 00 02 00 00 00 95 00 00 00 00 00 00 00" if argv[0] == "dis" else PROGRAM
    result = run(tmp_path, NO_LINUX, "-m", "pybpf", *argv, stdin=stdin)
    assert result.returncode == 0, result.stderr
    assert shown in result.stdout + result.stderr


@pytest.mark.parametrize(
    "argv",
    [["run", "BEGIN { exit(0); }"], ["list", "tracepoint:sched:*"]],
    ids=lambda argv: argv[0],
)
def test_what_needs_the_kernel_says_what_is_missing(tmp_path, argv):
    result = run(tmp_path, NO_EXTENSION, "-m", "pybpf", *argv)
    assert result.returncode == 1
    assert result.stderr.startswith("error: cannot load the extension pybpf._bpf_syscall (")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("room", ["isa", "btf", "objfile"])
def test_rooms_pass_their_tests_without_the_extension(tmp_path, room):
    options = ["-q", "-n0", "-p", "no:cacheprovider"]
    result = run(tmp_path, NO_EXTENSION, "-m", "pytest", *options, f"tests/{room}")
    assert result.returncode == 0, result.stdout
    assert " passed" in result.stdout


@pytest.mark.parametrize(("platform", "built"), [("linux", True), ("darwin", False)])
def test_the_extension_is_built_for_linux_only(monkeypatch, platform, built):
    asked = {}
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr("setuptools.setup", lambda **options: asked.update(options))
    runpy.run_path(str(ROOT / "setup.py"))
    assert bool(asked["cffi_modules"]) == built
    assert bool(asked["options"]) == built
