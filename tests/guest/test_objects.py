"""Objects on kernels that let programs be attached to their functions: each kind counts there."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

OTHERS = Path(__file__).parents[1] / "objects"
RELEASE = tuple(map(int, os.uname().release.split("-")[0].split(".")[:2]))


@pytest.fixture
def opened(c_object):
    """Return a function: a C program in, its object out, which is closed after the test."""
    from pybpf.objects.object import Object

    held = []

    def opened(name):
        held.append(Object.open(c_object(name)))
        return held[-1]

    yield opened
    for each in held:
        each.close()


def test_functions_of_the_kernel(opened, in_the_kernel, settled):
    before = in_the_kernel()
    held = opened("counting_kernel")
    held.rodata.pid = os.getpid()
    late = () if RELEASE >= (6, 12) else ("on_many", "on_many_returns")  # no fprobe on Debian's 6.1
    for name in late:
        held.programs[name].autoload = False
    if "bpf" not in Path("/sys/kernel/security/lsm").read_text():
        held.programs["on_open"].autoload = False
    held.load()
    held.attach()
    assert held.unattached == {}
    for _ in range(3):
        os.getpgid(0)
    held.detach()
    found = held.bss
    counted = {name: found[name] for name in found}
    assert counted.pop("opened") >= 0
    assert counted == {
        "probes": 3, "returns": 3, "calls": 3, "entries": 3, "exits": 3,
        "many": 0 if late else 3, "many_returns": 0 if late else 3,
    }  # fmt: skip
    held.close()
    settled(before)


def test_everything_else_counts_too(opened):
    held = opened("counting")
    held.rodata.pid = os.getpid()
    held.load()
    held.attach(dev="lo", cgroup="self", frequency=99)
    assert held.unattached == {}
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    libc = ctypes.CDLL(None)
    for _ in range(3):
        libc.getppid()
    subprocess.run([sys.executable, OTHERS / "act.py"], check=True)
    held.detach()
    found = held.bss
    assert found.tracepoints == found.entered == found.returned == 3
    assert found.received == found.seen == found.sent == found.egress == 5
    assert found.filtered == 10
    assert found.samples


def test_nothing_of_a_module_is_asked_for_in_vain(opened):
    """Functions and kfuncs of modules are found in the module's own types."""
    from pybpf.btf.abi import Kind
    from pybpf.kernel.types import KernelTypes

    subprocess.run(["modprobe", "dummy"], check=True)
    types = KernelTypes()
    try:
        found = types.find(Kind.FUNC, "dummy_xmit")
        assert found is not None
        assert found.module == "dummy"
        assert not types.descriptor("dummy").closed
        held = opened("counting_kernel")
        for name, program in held.programs.items():
            program.autoload = name in {"on_entry", "on_exit"}
        held.programs["on_entry"].target = "dummy_xmit"
        held.programs["on_exit"].target = "dummy:dummy_xmit"
        held.load()
        assert len(held.attach()) == 2
    finally:
        types.close()


def test_a_function_of_another_program_is_replaced(opened):
    victim = opened("xdp_verdict").load()
    packet = bytes(64)
    assert victim.programs["judge"].run(data=packet).retval == 2
    held = opened("freplace")
    held.programs["get_verdict"].replace(victim.programs["judge"])
    held.load()
    held.attach()
    assert victim.programs["judge"].run(data=packet).retval == 1
    held.detach()
    assert victim.programs["judge"].run(data=packet).retval == 2


def test_kfuncs_of_the_kernel(opened):
    from pybpf.target.kernel_types import LIVE, read

    if not read(LIVE).function_number("bpf_task_from_pid"):
        pytest.skip("this kernel has no kfunc bpf_task_from_pid (Linux 6.2)")
    held = opened("kfuncs").load()
    held.attach()
    subprocess.run(["true"], check=True)
    assert held.bss.found > 0


def test_what_is_attached_by_its_pattern_may_be_nothing(opened):
    from pybpf.errors import KernelError

    held = opened("counting_kernel")
    for name, program in held.programs.items():
        program.autoload = name == "on_call"
    held.programs["on_call"].target = "no_such_function"
    held.load()
    with pytest.raises(KernelError, match="cannot probe no_such_function"):
        held.attach()


def test_operations_are_registered_and_taken_back(opened):
    """By a link, or before Linux 6.4 by the entry of their map."""
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    held = opened("struct_ops").load()
    held.attach()
    assert "slow" in available.read_text().split()
    held.detach()
    assert "slow" not in available.read_text().split()
