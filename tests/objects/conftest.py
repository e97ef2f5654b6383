"""What the tests of loaded objects share. They load only the C programs of this folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ACT = Path(__file__).with_name("act.py")


@pytest.fixture
def opened(c_objects):
    """Return a function: the name of a C program in, its object out; closed after the test."""
    from pybpf.objects.object import Object

    held = []

    def opened(name):
        if not (c_objects / f"{name}.el.o").exists():
            pytest.skip("this clang cannot compile it")
        held.append(Object.open(c_objects / f"{name}.el.o"))
        return held[-1]

    yield opened
    for each in held:
        each.close()


@pytest.fixture
def apart(c_objects, tmp_path):
    """Return a function that runs a shell script where mounts and networks are its own.

    ``$OBJECTS`` is the folder of objects, ``$FS`` a bpf file system, ``load`` the command, ``act``
    a program whose getppid() and packets programs may count.
    """
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a network namespace takes root, and unshare")

    def run(script, *, check=True):
        python = f"{sys.executable} -P -W error"
        prelude = (
            f"mkdir {tmp_path}/fs && mount -t bpf bpf {tmp_path}/fs && ip link set lo up\n"
            f"load() {{ {python} -m pybpf load \"$@\"; }}\nact='{sys.executable} {ACT}'\n"
        )
        environment = os.environ | {
            "OBJECTS": str(c_objects), "FS": f"{tmp_path}/fs", "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        done = subprocess.run(
            ["unshare", "-mn", "sh", "-ec", prelude + script], capture_output=True, text=True,
            timeout=120, check=False, env=environment,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stderr
        return done

    return run
