"""Which pid namespace numbers this process: the answer of /proc, and the kernel's own."""

import os
import subprocess
import sys

import pytest

from pybpf.errors import KernelError
from pybpf.kernel import maps, namespaces, tracefs

ASK = "from pybpf.kernel import namespaces as n; n._LINK = {!r}; print(n.pid_namespace())"
REAL = namespaces._LINK


def asked(link, *before):
    command = [*before, sys.executable, "-c", ASK.format(link)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def kernel_tells():
    return namespaces._asked() is not None


@pytest.fixture(params=[REAL, "/nonexistent"], ids=["proc", "kernel"])
def link(request):
    if request.param != REAL and not kernel_tells():
        pytest.skip("the kernel does not tell without /proc (Linux 6.11)")
    return request.param


def test_the_initial_namespace_is_none_to_speak_of(link):
    if os.stat(REAL).st_ino != namespaces._INITIAL:  # noqa: PTH116
        pytest.skip("the tests run in a pid namespace")
    assert asked(link).stdout == "None\n"


def test_a_namespace_by_its_device_and_inode(link):
    said = asked(link, "unshare", "--pid", "--fork", "--mount-proc")
    if "unshare failed" in said.stderr:
        pytest.skip(said.stderr)
    device, inode = map(int, said.stdout.strip("()\n").split(", "))
    assert device == os.stat(REAL).st_dev  # noqa: PTH116 - a minor number below 256
    assert inode not in {0, namespaces._INITIAL}


def test_nobody_may_tell(monkeypatch):
    def refuse(_):
        raise OSError

    monkeypatch.setattr(namespaces, "_LINK", "/nonexistent")
    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert namespaces.pid_namespace() is None


def test_without_sys_the_cpus_are_unknown():
    with pytest.raises(KernelError) as error:
        maps._cpus("nonsense")
    assert str(error.value) == (
        "cannot read /sys/devices/system/cpu/nonsense: No such file or directory (errno 2)\n"
        "  hint: mount -t sysfs none /sys"
    )


def test_a_container_is_told_how_to_get_what_is_mounted_outside(monkeypatch):
    monkeypatch.setattr(tracefs, "pid_namespace", lambda: (4, 5))
    assert tracefs._given("/sys/kernel/tracing") == (
        (
            "a container can be given the host's: "
            "--volume /sys/kernel/tracing:/sys/kernel/tracing:ro"
        ),
    )
