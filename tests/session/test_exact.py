"""Counts are exact to the last event: held to strace, and to what is known to have been done.

To the last that the kernel lets a program see, that is; those that it skips it counts.
"""

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
    result = run(script, DD)
    assert result.all_but_misses(result.maps["@"]["dd"], reads)


@pytest.mark.parametrize("_again", range(10))
def test_a_quantize_and_a_sum_are_what_strace_counts(run, reads, _again):
    script = """tracepoint:syscalls/sys_enter_read / pid == $target / {
        @sizes["all"] = quantize(data->count);
        @sum["all"] = sum(1);
    }"""
    result = run(script, DD)
    counted = result.maps["@sum"]["all"]
    assert result.all_but_misses(counted, reads)
    ((low, high, ones), *others) = result.maps["@sizes"]["all"]
    assert (low, high, ones + sum(count for _, _, count in others)) == (0, 1, counted)
    assert result.all_but_misses(ones, 5000)


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
    counted = maps["@count"]["all"]
    assert result.all_but_misses(counted, 1_000_000)
    assert maps["@sum"] == {"all": 3 * counted}
    assert sum(count for _, _, count in maps["@quantize"]["all"]) == counted
    assert sum(maps["@by_process"].values()) == counted
    assert all(result.all_but_misses(n, 250_000) for n in maps["@by_process"].values())
    assert result.lost == {}
