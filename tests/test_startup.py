"""Start-up is part of the product: what a run does not need is not loaded. No time is measured."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Each takes milliseconds; the time of a whole run is about 70.
HEAVY = {
    "concurrent.futures", "construct", "dataclasses", "elftools", "gzip", "hypothesis", "inspect",
    "json", "logging", "pathlib", "resource", "shlex", "shutil", "subprocess", "tempfile",
}  # fmt: skip

RUN = """
import sys
from pybpf.cli import main
status = main(sys.argv[1:])
sys.stdout.flush()
print(status, *sys.modules, file=sys.stderr)
"""


def modules(*arguments):
    """Return the modules that a command loads, but for those that an editable install needs."""
    run = subprocess.run(
        [sys.executable, "-S", "-c", RUN, *arguments],
        capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    )  # fmt: skip
    status, *loaded = run.stderr.split()
    assert status == "0", run.stderr
    return set(loaded)


@pytest.mark.kernel
@pytest.mark.parametrize("command", ["run", "ply"])
def test_a_live_run_loads_nothing_heavy(command):
    loaded = modules(command, "BEGIN { @[pid] = count(); exit(0); }")
    assert "pybpf.session" in loaded
    assert not loaded & HEAVY
    others = ("pybpf.vm", "pybpf.isa.assembler", "pybpf.btf.reader")
    assert not {m for m in loaded if m.startswith(others)}


def test_a_check_of_events_loads_no_kernel():
    loaded = modules("events", "check", "--together", "s:syn u64 x", "e:t/x synthetic.syn y=$x")
    assert "pybpf.tracefs.dynevents.judge" in loaded
    assert not {m for m in loaded if m.startswith(("pybpf.kernel", "pybpf.compiler", "pybpf.vm"))}
    assert loaded & HEAVY <= {"pathlib"}  # which finds the data of known kernels


def test_help_on_events_loads_none_of_them():
    loaded = modules("events", "-h")
    assert not {m for m in loaded if m.startswith(("pybpf.tracefs", "pybpf.kernel"))}


def test_a_dry_run_loads_no_kernel():
    target = ROOT / "tests" / "data" / "targets" / "6.12.tar.gz"
    loaded = modules("run", "-e", "--target", str(target), "BEGIN { exit(0); }")
    assert not {m for m in loaded if m.startswith(("pybpf.session", "pybpf.events", "pybpf.vm"))}


@pytest.mark.parametrize("command", ["list", "ply", "doctor"])
def test_help_loads_no_compiler(command):
    run = modules(command, "-h")
    assert not {m for m in run if m.startswith("pybpf.compiler")}


def test_the_package_itself_loads_nothing():
    code = "import sys, pybpf; print(*(m for m in sys.modules if m.startswith('pybpf')))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert run.stdout == "pybpf\n"


@pytest.mark.kernel
@pytest.mark.parametrize("command", ["run", "ply"])
def test_a_live_run_asks_the_kernel_and_loads_no_model(command):
    loaded = modules(command, "BEGIN { @[pid] = count(); exit(0); }")
    assert not {m for m in loaded if m.startswith(("pybpf.verifier", "pybpf.corpus"))}


@pytest.mark.parametrize("options", [["-e", "--no-verify"], ["--vm", "--events", "/dev/null"]])
def test_what_does_not_verify_loads_no_model(options):
    target = ROOT / "tests" / "data" / "targets" / "6.12.tar.gz"
    loaded = modules("run", *options, "--target", str(target), "BEGIN { exit(0); }")
    assert "pybpf.verifier" not in loaded


def test_a_dry_run_loads_the_model_and_nothing_that_it_does_not_need():
    target = ROOT / "tests" / "data" / "targets" / "6.12.tar.gz"
    loaded = modules("run", "-e", "--target", str(target), "BEGIN { exit(0); }")
    assert "pybpf.verifier.verify" in loaded
    assert not loaded & (HEAVY - {"pathlib", "json", "gzip", "shutil", "tempfile"})
