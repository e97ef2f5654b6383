import os
import subprocess
import sys

import pytest

from pybpf.kernel.ftrace.owner import Owner, alive, new_owner, owner_of


def test_a_name_tells_its_owner_and_the_owner_its_name():
    owner = new_owner()
    assert owner.pid == os.getpid()
    assert alive(owner)
    assert owner_of(str(owner)) == owner
    assert owner_of(f"{owner}_sched") == owner
    assert new_owner() != owner


@pytest.mark.parametrize(
    "name", ["sched", "pybpf", "pybpf_1_2", "pybpf_1_2_0_x", "pybpf_1_2_0_3x", "xpybpf_1_2_0_3"]
)
def test_other_names_have_no_owner(name):
    assert owner_of(name) is None


def test_a_pid_that_another_process_got_is_another_owner():
    owner = new_owner()
    assert not alive(Owner(owner.pid, owner.start - 1, owner.namespace, owner.serial))


def test_a_process_that_waits_to_be_reaped_is_dead():
    code = "from pybpf.kernel.ftrace.owner import new_owner; print(new_owner(), flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", f"{code}; input()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        owner = owner_of(process.stdout.readline().strip())
        assert owner.pid == process.pid
        assert alive(owner)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not alive(owner)
    assert not alive(owner)


def test_a_process_of_another_namespace_is_seen_from_the_one_around():
    if os.geteuid():
        pytest.skip("making a namespace takes root")
    code = "from pybpf.kernel.ftrace.owner import new_owner; print(new_owner(), flush=True)"
    with subprocess.Popen(
        ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
         sys.executable, "-c", f"{code}; input()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        owner = owner_of(process.stdout.readline().strip())
        assert owner.pid == 1
        assert owner.namespace
        assert alive(owner)
        process.communicate("")
    assert not alive(owner)
