"""What all commands have in common: help, errors, an exit status."""

import fcntl
import os
from pathlib import Path

import pytest

from pybpf import __version__
from pybpf.cli import _COMMANDS, run
from pybpf.errors import KernelError

HELP = "\n  hint: `pybpf {} -h` shows the arguments\n"
CHOICES = "invalid choice: 'nothing' (choose from 'tokens', 'ast', 'types', 'ir', 'alloc', 'asm')"
TRY = "\n  hint: try `pybpf -h`\n"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["help"], "error: 'help' is no command\n  hint: try `pybpf -h`\n"),
        (["version"], "error: 'version' is no command\n  hint: try `pybpf -v`\n"),
        ([], f"error: no command given: {', '.join(_COMMANDS)}{TRY}"),
        (["rnu"], f"error: 'rnu' is no command; did you mean 'run'?{TRY}"),
        (["frobnicate"], f"error: 'frobnicate' is no command{TRY}"),
        (
            ["--frob"],
            "error: unrecognized arguments: --frob\n  hint: `pybpf -h` shows the arguments\n",
        ),
        (
            ["BEGIN { exit(0); }"],
            "error: 'BEGIN { exit(0); }' is no command\n  hint: `pybpf run SCRIPT` runs a script\n",
        ),
        (["\x1b[31mred"], f"error: '\\x1b[31mred' is no command{TRY}"),
        (
            ["run", "--frob"],
            f"error: unrecognized arguments: --frob{HELP.format('run')}",
        ),
        (
            ["snapshot"],
            f"error: the following arguments are required: -o/--output{HELP.format('snapshot')}",
        ),
        (
            ["compile", "-d", "nothing", "BEGIN { exit(0); }"],
            f"error: argument -d/--dump: {CHOICES}{HELP.format('compile')}",
        ),
    ],
)
def test_wrong_arguments_are_one_error(pybpf, arguments, error):
    said = pybpf(*arguments)
    assert (said.status, said.out, said.err) == (1, "", error)


def test_help_names_all_commands(pybpf):
    said = pybpf("-h")
    assert (said.status, said.err) == (0, "")
    assert all(f"\n  {name} " in said.out for name in _COMMANDS)


@pytest.mark.parametrize("command", _COMMANDS)
def test_every_command_has_help(pybpf, command):
    said = pybpf(command, "-h")
    assert (said.status, said.err) == (0, "")
    assert said.out.startswith(f"usage: pybpf {command} ")


@pytest.mark.parametrize("arguments", [["-v"], ["--version"], ["run", "-v"]])
def test_version(pybpf, arguments):
    said = pybpf(*arguments)
    assert (said.status, said.out) == (0, f"pybpf {__version__}\n")


def test_python_m_pybpf(start):
    assert start("-v").end().out == f"pybpf {__version__}\n"


LOG = "\n  hint: -d shows the kernel's whole log\n"
BUG = "\n  hint: this is a bug in pybpf; -d shows where\n"


def fail_with(monkeypatch, error):
    def fail(_options):
        raise error

    monkeypatch.setattr(run, "main", fail)


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (KeyboardInterrupt(), 130, ""),
        (OSError(28, "No space left on device"), 1, "error: No space left on device\n"),
        (BrokenPipeError(), 1, ""),
        (
            KernelError(1, "cannot do it", hints=("ask",)),
            1,
            "error: cannot do it: Operation not permitted (errno 1)\n  hint: ask\n",
        ),
        (
            KernelError(22, "cannot load", log="R0 !read_ok\nmore\n"),
            1,
            f"error: cannot load: Invalid argument (errno 22){LOG}",
        ),
        (
            ZeroDivisionError("x"),
            1,
            f"internal error: ZeroDivisionError: x{BUG}",
        ),
    ],
)
def test_what_goes_wrong_is_one_message(pybpf, monkeypatch, error, status, text):
    fail_with(monkeypatch, error)
    monkeypatch.setattr("pybpf.cli._give_up_output", lambda: None)
    said = pybpf("run", "x")
    assert (said.status, said.out, said.err) == (status, "", text)


@pytest.mark.parametrize(("number", "status"), [((), 130), ((15,), 143)])
def test_a_signal_while_a_class_is_made_is_no_bug(pybpf, monkeypatch, number, status):
    class Interrupted:
        def __set_name__(self, _owner, _name):
            raise KeyboardInterrupt(*number)

    def fail(_options):
        type("Made", (), {"field": Interrupted()})

    monkeypatch.setattr(run, "main", fail)
    monkeypatch.setattr("pybpf.cli._give_up_output", lambda: None)
    said = pybpf("run", "x")
    assert (said.status, said.out, said.err) == (status, "", "")


def test_debug_shows_the_kernels_log(pybpf, monkeypatch):
    fail_with(monkeypatch, KernelError(22, "cannot load", log="R0 !read_ok\nmore\n"))
    assert pybpf("run", "-d", "x").err == (
        "error: cannot load: Invalid argument (errno 22)\nR0 !read_ok\nmore\n"
    )


def test_debug_shows_where_a_bug_is(pybpf, monkeypatch):
    fail_with(monkeypatch, ZeroDivisionError("x"))
    with pytest.raises(ZeroDivisionError):
        pybpf("run", "-d", "x")


@pytest.mark.parametrize("arguments", ["list --target", "-h", "-v", "ply -h", "run -v"])
def test_a_full_disk_is_one_error(start, arguments):
    target = [demo()] if arguments.endswith("--target") else []
    with Path("/dev/full").open("w") as full:
        said = start(*arguments.split(), *target, stdout=full).end()
    assert (said.status, said.err) == (1, "error: No space left on device\n")


def test_a_reader_that_goes_away_is_no_error(start):
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)  # the whole output may fit into others
    process = start("list", "--target", demo(), stdout=writer)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    said = process.end()
    assert (said.status, said.err) == (1, "")


def demo():
    return Path(__file__).parents[1] / "data" / "targets" / "6.12.tar.gz"
