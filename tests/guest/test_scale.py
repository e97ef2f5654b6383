"""Attaching to tens of thousands of functions at once, and to as many as single events allow."""

import os
import re
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from pybpf.errors import TargetError
from pybpf.kernel import features

KPROBES = Path("/sys/kernel/debug/kprobes/list")
MANY = 20_000
# Registers that ftrace does not save for everyone take an event for each function.
SINGLY = "/ regs->cs == 0x10 / { @[caller] = count(); }"


@pytest.fixture
def multi():
    if not features.kprobe_multi():
        pytest.skip("this kernel has no kprobe.multi")


@pytest.mark.usefixtures("multi")
@pytest.mark.parametrize("provider", ["kprobe", "kretprobe"])
def test_all_functions(run, target, provider):
    """What a program calls itself is not counted, but for that nothing is lost."""
    assert len(target.functions()) > MANY
    done = run(f"{provider}:* {{ @ = count(); }}", lambda: [os.getppid() for _ in range(100)])
    assert done.maps["@"][()] > 100
    assert len(done.skipped) < 50


@pytest.mark.usefixtures("multi")
def test_all_functions_by_what_they_are_called(run):
    done = run(
        "kprobe:* / pid == $self / { @[caller] = count(); }",
        lambda: [os.getppid() for _ in range(100)],
    )
    calls = {name.partition("+")[0]: count for name, count in done.maps["@"].items()}
    # Of its names the kernel prints the first.
    assert [n for name, n in calls.items() if name.endswith("sys_getppid")] == [100]


def over_loopback():
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
        server.accept()[0] as other,
    ):
        one.sendall(b"x")
        assert other.recv(1) == b"x"


@pytest.mark.usefixtures("multi")
def test_a_subsystem(run):
    done = run("kprobe:tcp_* { @[caller] = count(); }", over_loopback)
    calls = {name.partition("+")[0] for name in done.maps["@"]}
    assert {"tcp_sendmsg", "tcp_recvmsg", "tcp_v4_connect"} <= calls


def test_too_many_for_single_events(run):
    """They would take minutes, and files that there are not."""
    body, why = "{ @ = count(); }", "without kprobe.multi (Linux 5.18, CONFIG_FPROBE)"
    if features.kprobe_multi():
        body, why = SINGLY, "as it uses registers that kprobe.multi does not have"
    with pytest.raises(TargetError) as error:
        run(f"BEGIN {{ exit(0); }} kprobe:* {body}")
    said = re.sub(r"\d\d,?\d\d\d", "MANY", str(error.value))
    assert said == (
        f"kprobe:* stands for MANY functions: {why}, each takes an event of its own, and 1,000 may "
        "be opened\n"
        "  hint: choose fewer functions by a narrower pattern: "
        "`pybpf list` shows what one matches\n"
        "  hint: `pybpf run --max-probes MANY` allows as many, and takes its time"
    )


def kprobes():
    return len(KPROBES.read_text().splitlines())


def wait_until(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_a_signal_while_attaching(start, in_the_kernel, settled, number, status):
    before = in_the_kernel()
    process = start(f"BEGIN {{ print(1); }} kprobe:tcp_* {SINGLY} END {{ print(2); }}")
    wait_until(lambda: kprobes() > 10)
    assert process.end(number) == (status, "")
    settled(before)


def test_more_are_allowed_on_request(start, target):
    count = len([name for name in target.functions() if name.startswith("vfs_")])
    script = f"kprobe:vfs_* {SINGLY}"
    assert start("--max-probes", str(count - 1), "-c", "true", script).end()[0] == 1
    status, said = start("--max-probes", str(count), "-c", "true", script).end()
    assert status == 0
    assert re.search(r"^\{ vfs_read\+\d+ *\}: \d+$", said, re.MULTILINE)


def read_to_the_end(terminal):
    shown = b""
    with suppress(OSError):  # the end, of a terminal that nobody else has open
        while data := os.read(terminal, 4096):
            shown += data
    os.close(terminal)
    return shown


def test_a_bar_on_a_terminal(start, monkeypatch):
    """It is drawn, and nothing of it is left when the script begins."""
    monkeypatch.setattr("pybpf.cli.progress._MANY", 10)
    terminal, of_the_child = os.openpty()
    singly = "/ regs->cs / { @ = count(); }"
    process = start(
        *("-c", "true", f"kprobe:vfs_* {singly}"),
        first=lambda: os.dup2(of_the_child, 2),
    )
    os.close(of_the_child)
    status, _ = process.end()
    shown = read_to_the_end(terminal)
    assert status == 0
    assert shown.endswith(b"\r\x1b[K")
    bars = shown.replace(b"\x1b[K", b"").split(b"\r")
    bar = rb"attaching \[#*( *)\] \d+ of \d+ functions"
    spaces = [len(found[1]) for found in (re.fullmatch(bar, one) for one in bars if one) if found]
    assert len(spaces) == len([one for one in bars if one]) > 2
    assert spaces[0] == 30
