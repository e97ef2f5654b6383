import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
KERNEL = "6.12"  # the quickest to boot, and in the stable suite


def guest_py(*args, **environment):
    """Run tools/guest.py; stdin is empty."""
    return subprocess.run(
        [sys.executable, CHECKOUT / "tools/guest.py", *args],
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("suite", "wanted", "expected"),
    [
        ("bookworm", "trixie", "trixie"),
        ("bookworm-security", "trixie", "trixie-security"),
        ("bookworm", "bookworm", "bookworm"),
        ("bookworm", "trixie-backports", "trixie-backports"),
        ("bookworm-security", "trixie-backports", None),
        ("cloud-sdk-bookworm", "trixie", None),
        ("nodistro", "trixie", None),
        ("bookworms", "trixie", None),
    ],
)
def test_suites_are_renamed(guest, suite, wanted, expected):
    assert expected == guest.rename_suite(suite, "bookworm", wanted)


def test_one_line_sources_are_rewritten(guest):
    text = """\
# deb http://old.example/debian bookworm main
deb http://mirror.example/debian bookworm main contrib # the nearest
deb [signed-by=/a/key.gpg arch=amd64] http://mirror.example/security bookworm-security main
deb-src http://mirror.example/debian bookworm main
deb http://other.example/stuff stable main
"""

    assert (
        guest.rewrite_list(text, "bookworm", "trixie")
        == """\
deb http://mirror.example/debian trixie main contrib
deb [signed-by=/a/key.gpg arch=amd64] http://mirror.example/security trixie-security main
"""
    )


def test_deb822_sources_are_rewritten(guest):
    text = """\
Types: deb deb-src
# the nearest
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /a/key.gpg

Types: deb
URIs: http://other.example/stuff
Suites: nodistro

Types: deb
URIs: http://mirror.example/security
suites:
 bookworm-security
Components: main
"""

    assert (
        guest.rewrite_deb822(text, "bookworm", "trixie")
        == """\
Types: deb
# the nearest
URIs: http://mirror.example/debian
Suites: trixie trixie-updates
Components: main
Signed-By: /a/key.gpg

Types: deb
URIs: http://mirror.example/security
Suites: trixie-security
Components: main
"""
    )


@pytest.mark.parametrize(
    ("kernel", "names", "expected"),
    [
        ("6.1", "6.1.0-9-amd64 6.1.0-57-amd64 6.1.0-50-amd64", "6.1.0-57-amd64"),
        ("6.1", "6.12.118+deb13-amd64", None),
        ("6.12", "6.12.90+deb13.1-amd64 6.12.90+deb13-amd64", "6.12.90+deb13.1-amd64"),
        ("6.12", "6.12.99+deb13-amd64 6.12.118+deb13-amd64", "6.12.118+deb13-amd64"),
        ("7.3", "7.3.4+deb13-cloud-amd64 7.3.4+deb13-rt-amd64 7.3.4+deb13-amd64-dbg", None),
        ("7.3", "7.3.4+deb13-amd64-unsigned 7.3.3+deb13-amd64", "7.3.3+deb13-amd64"),
        ("7.3", "", None),
    ],
)
def test_the_newest_plain_release_is_picked(guest, kernel, names, expected):
    packages = [f"linux-image-{name}" for name in names.split()]

    assert expected == guest.newest_release(packages, kernel)


def test_a_kernel_that_is_there_is_not_fetched_again(tmp_path):
    (tmp_path / KERNEL).mkdir()
    done = guest_py("fetch", KERNEL, PYBPF_KERNELS=str(tmp_path), PATH="/nowhere")

    assert (0, f"{KERNEL}: {tmp_path / KERNEL}\n", "") == (
        done.returncode,
        done.stdout,
        done.stderr,
    )


def test_what_a_guest_needs_is_named(guest, tmp_path):
    programs = {"vng": "pip install virtme-ng", "file": "apt-get install file"}
    missing = guest.missing_programs(str(tmp_path))

    assert len(missing) == len(guest.PROGRAMS)
    assert {f"{name} ({how})" for name, how in programs.items()} <= set(missing)


def test_a_guest_needs_a_kernel(guest, tmp_path, monkeypatch):
    monkeypatch.setenv("PYBPF_KERNELS", str(tmp_path))
    monkeypatch.setattr(guest, "PROGRAMS", {})
    expected = f"no kernel in {tmp_path}/6.1: run `python tools/guest.py fetch 6.1` first"

    with pytest.raises(guest.GuestError, match=re.escape(expected)):
        guest.run("6.1", ["true"], cpus=1, memory="1G", timeout=1)


@pytest.fixture
def kernel(kernel_in_guest):
    """A kernel series that can be booted here."""
    return kernel_in_guest


@pytest.mark.boots_guest
@pytest.mark.timeout(300)
def test_a_guest_gives_output_and_status(kernel):
    script = 'echo "$@"; echo to stderr >&2; pwd; id -u; echo $PYBPF_OBJECTS; exit 42'
    run = ("run", kernel, "--cpus", "1", "--", "sh", "-c", script, "sh", "a  b", "$c")
    done = guest_py(*run, PYBPF_OBJECTS="/some/objects")

    assert (done.stderr, done.returncode) == ("", 42)
    assert f"a  b $c\nto stderr\n{CHECKOUT}\n0\n/some/objects\n" == done.stdout


@pytest.fixture
def kernels(guest, kernel, tmp_path):
    """A kernels folder for one test alone."""
    (tmp_path / kernel).symlink_to(guest.kernels_dir() / kernel)
    return tmp_path


def running_in(kernels):
    """The command lines of processes that were started with something in a folder."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            lines.append(path.read_bytes())
    return [line for line in lines if bytes(kernels) in line]


@pytest.mark.boots_guest
def test_a_guest_past_its_time_is_killed(kernel, kernels):
    done = guest_py("run", kernel, "--timeout", "1", "--", "true", PYBPF_KERNELS=str(kernels))

    assert (done.stdout, done.returncode) == ("", 125)
    assert done.stderr.startswith(f"guest.py: guest {kernel} not done after 1 s, killed; the end")
    assert [kernels / kernel] == list(kernels.iterdir())


@pytest.mark.boots_guest
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_guest_ends_with_the_process_that_runs_it(kernel, kernels, number):
    argv = [sys.executable, CHECKOUT / "tools/guest.py", "run", kernel, "--", "true"]
    with subprocess.Popen(argv, env=os.environ | {"PYBPF_KERNELS": str(kernels)}) as process:
        while not running_in(kernels):
            assert process.poll() is None
        process.send_signal(number)

    assert process.returncode == 128 + number
    assert [kernels / kernel] == list(kernels.iterdir())
    while running_in(kernels):  # killed, but perhaps not gone yet; pytest's timeout is the judge
        pass


@pytest.mark.boots_guest
@pytest.mark.timeout(300)
def test_an_oops_ends_a_guest_and_is_shown(kernel):
    script = "echo before; echo c >/proc/sysrq-trigger; sleep 1000"
    done = guest_py("run", kernel, "--cpus", "1", "--", "sh", "-c", script)

    assert (done.stdout, done.returncode) == ("before\n", 125)
    assert f"guest {kernel} ended without a status" in done.stderr
    assert "sysrq triggered crash" in done.stderr


@pytest.mark.boots_guest
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("cpus", "tests"), [("2", "not one_cpu"), ("1", "one_cpu")])
def test_the_guest_tests_pass(kernel, cpus, tests, request):
    objects = shutil.which("clang") and request.getfixturevalue("c_objects").parent
    pytest_ = ["python", "-m", "pytest", "-q", "--timeout=600", "-m", f"not slow and {tests}"]
    done = guest_py(
        *("run", kernel, "--cpus", cpus, "--timeout", "840", "--", *pytest_, "tests/guest"),
        PYBPF_OBJECTS=str(objects or ""),
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b[1-9][0-9]* passed", done.stdout), done.stdout
