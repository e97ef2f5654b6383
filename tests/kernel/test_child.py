"""The command of -c: held back, released, ended with all that it started."""

import errno
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pybpf.errors import KernelError

try:
    from pybpf.kernel.child import Child, descendants, program
except KernelError as error:
    pytest.skip(str(error), allow_module_level=True)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("ls", ("ls",)),
        ("ls -l  /tmp", ("ls", "-l", "/tmp")),
        ("dd if=/dev/zero of=/dev/null bs=1", ("dd", "if=/dev/zero", "of=/dev/null", "bs=1")),
        ("env A=1 ls", ("env", "A=1", "ls")),
    ],
)
def test_a_plain_command_needs_no_shell(command, words):
    path, arguments = program(command)
    assert (Path(path).name, tuple(arguments)) == (words[0], words)


@pytest.mark.parametrize(
    "command",
    [
        "ls 'a b'", "ls *.py", "ls $HOME", "ls ~", "ls > /dev/null", "ls 2>&1", "ls 2>&-", "ls # x",
        "sh -c 'a; b'", 'ls "a|b"', "ls {a,b}", "ls ${A}",
    ],
)  # fmt: skip
def test_a_shell_that_prepares_a_single_command_gives_way_to_it(command):
    assert program(command) == ("/bin/sh", ("sh", "-c", f"exec {command}"))


@pytest.mark.parametrize(
    "command",
    [
        "", " ", "ls; ls", "ls && ls", "ls | wc", "ls &", "(ls)", "ls\nls", "nosuchcommand",
        "exit 3", "A=1 ls", "$(ls)", "ls $(ls)", "`ls`", "ls `ls`", "ls 'a", "echo hi", "true",
        "test -f x",
        "if ls; then ls; fi", "! ls", "{ ls; }", "cd /tmp", ". /dev/null", "ls ';'",
    ],
)  # fmt: skip
def test_a_shell_stays_for_what_only_it_can_do(command):
    assert program(command) == ("/bin/sh", ("sh", "-c", command))


def status(child):
    """Wait for the child and return its exit status, leaving it to be reaped."""
    poll = select.poll()
    poll.register(child, select.POLLIN)
    assert poll.poll(10_000)
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT).si_status


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture(autouse=True)
def _nothing_is_left():
    before = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.parametrize(
    ("command", "want"),
    [("exit 3", 3), ("true", 0), ("ls /nosuch 2>/dev/null", 2), ("nosuch 2>/dev/null", 127)],
)
def test_the_command_runs_when_released(command, want):
    with Child(command) as child:
        child.release()
        assert status(child) == want


def test_the_command_does_not_run_before(tmp_path):
    with Child(f"touch {tmp_path}/ran") as child:
        time.sleep(0.05)
        assert state(child.pid) == "T"
    assert not (tmp_path / "ran").exists()


def test_it_keeps_its_pid_and_knows_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("WORD", "here")
    with Child(f"echo $$ $WORD > {tmp_path}/out; exit 0") as child:
        child.release()
        assert status(child) == 0
        assert (tmp_path / "out").read_text() == f"{child.pid} here\n"


def test_a_script_without_a_first_line_is_for_the_shell(tmp_path):
    path = tmp_path / "script"
    path.write_text("exit 5\n")
    path.chmod(0o755)
    with Child(str(path)) as child:
        child.release()
        assert status(child) == 5


def test_a_child_that_was_killed_while_it_waited_can_be_released():
    with Child("true") as child:
        os.kill(child.pid, signal.SIGKILL)
        assert status(child) == signal.SIGKILL
        child.release()


def test_closing_ends_all_that_the_command_started(tmp_path):
    with Child(f"sleep 1000 & sleep 1000 & echo > {tmp_path}/up; wait; echo") as child:
        child.release()
        while not (tmp_path / "up").exists():
            time.sleep(0.01)
        others = list(descendants(child.pid))
        assert len(others) == 2
    until = time.monotonic() + 10
    while any(Path(f"/proc/{pid}/exe").exists() for pid in others):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_command_that_does_not_want_to_end_is_killed(monkeypatch):
    monkeypatch.setattr("pybpf.kernel.child._GRACE_MS", 50)
    with Child("trap '' TERM; echo up; while :; do sleep 1000; done") as child:
        child.release()
        while "sleep" not in [
            Path(f"/proc/{pid}/comm").read_text().strip() for pid in descendants(child.pid)
        ]:
            time.sleep(0.01)
        pid = child.pid
    assert not Path(f"/proc/{pid}").exists()


def test_the_command_has_the_signals_of_a_fresh_process(tmp_path):
    """What Python ignores is back at its default; what the user has ignored stays ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Child(f"exec grep Sig /proc/self/status > {tmp_path}/status") as child:
            child.release()
            assert status(child) == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    lines = dict(line.split(":") for line in (tmp_path / "status").read_text().splitlines())
    assert int(lines["SigBlk"], 16) == 0
    ignored = int(lines["SigIgn"], 16)
    bits = [1 << number - 1 for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)]
    assert [bool(ignored & bit) for bit in bits] == [True, False, False]


ORPHANS = """
import sys, time
from pybpf.kernel.child import Child
child = Child("exec sleep 1000")
if sys.argv[1] == "released":
    child.release()
print(child.pid, flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("how", ["released", "held"])
def test_it_does_not_outlive_a_parent_that_is_killed(how):
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, "-c", ORPHANS, how],
        stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": root},
    ) as parent:  # fmt: skip
        pid = int(parent.stdout.readline())
        parent.kill()
    until = time.monotonic() + 10
    while Path(f"/proc/{pid}/exe").exists() and state(pid) != "Z":
        assert time.monotonic() < until
        time.sleep(0.01)


def test_children_of_many_threads():
    def work():
        for _ in range(5):
            with Child("true") as child:
                child.release()
                codes.append(status(child))

    codes = []
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0] * 20


def test_a_refusal_to_watch_it_leaves_nothing(monkeypatch):
    def refuse(_pid):
        raise OSError(errno.ENOSYS, "no")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(KernelError) as error:
        Child("true")
    assert str(error.value) == "cannot watch the command: Function not implemented (errno 38)"


def test_a_refusal_to_fork_leaves_nothing(monkeypatch):
    def refuse(*_):
        raise KernelError(errno.EAGAIN, "cannot fork a process for the command")

    monkeypatch.setattr("pybpf.kernel.child.child_start", refuse)
    with pytest.raises(KernelError, match="cannot fork"):
        Child("true")
