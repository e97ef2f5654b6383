"""Counts are exact to the last event: held to strace, and to what is known to have been done."""

import re
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.kernel

DD = "dd if=/dev/zero of=/dev/null bs=1 count=5000 status=none"


@pytest.fixture(scope="module")
def reads():
    """Return how many times dd calls read, as strace counts."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    command = ["strace", "-c", "-e", "trace=read", *DD.split()]
    table = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    return int(re.search(r"(\d+) +read$", table, re.MULTILINE)[1])


@pytest.mark.parametrize("_again", range(10))
def test_a_count_is_what_strace_counts(run, reads, _again):
    script = "tracepoint:syscalls/sys_enter_read / pid == $target / { @[comm] = count(); }"
    assert run(script, DD).maps == {"@": {"dd": reads}}


@pytest.mark.parametrize("_again", range(10))
def test_a_quantize_and_a_sum_are_what_strace_counts(run, reads, _again):
    script = """tracepoint:syscalls/sys_enter_read / pid == $target / {
        @sizes["all"] = quantize(data->count);
        @sum["all"] = sum(1);
    }"""
    maps = run(script, DD).maps
    assert maps["@sum"] == {"all": reads}
    buckets = maps["@sizes"]["all"]
    assert sum(count for _, _, count in buckets) == reads
    assert buckets[0] == [0, 1, 5000]


@pytest.mark.slow
@pytest.mark.parametrize("_again", range(5))
def test_four_processes_on_all_cpus_lose_no_update(run, hammer, _again):
    script = """tracepoint:syscalls/sys_enter_getppid / !strcmp(comm, $hammer) / {
        @count["all"] = count();
        @sum["all"] = sum(3);
        @quantize["all"] = quantize(pid);
        @by_process[pid] = count();
    }"""
    result = run(script, hammer(4, 250_000))
    maps = result.maps
    assert maps["@count"] == {"all": 1_000_000}
    assert maps["@sum"] == {"all": 3_000_000}
    assert sum(count for _, _, count in maps["@quantize"]["all"]) == 1_000_000
    assert list(maps["@by_process"].values()) == [250_000] * 4
    assert (result.lost, result.misses) == ({}, 0)
