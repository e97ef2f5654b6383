import os
import re
from pathlib import Path

import pytest

TRACEFS = Path("/sys/kernel/tracing")


def test_this_is_the_kernel_that_was_asked_for():
    assert os.uname().release.startswith(os.environ["PYBPF_GUEST"] + ".")


def test_the_build_options_are_where_installed_kernels_have_them():
    options = Path(f"/boot/config-{os.uname().release}").read_text()

    assert "\nCONFIG_KPROBES=y\n" in options


@pytest.mark.parametrize("probe", ["kprobe", "uprobe"])
def test_probes_have_a_perf_type(probe):
    number = Path(f"/sys/bus/event_source/devices/{probe}/type").read_text()

    assert int(number) > 5  # what lies below is fixed in the kernel's uapi


def test_the_functions_that_can_be_probed_are_listed():
    functions = (TRACEFS / "available_filter_functions").read_text()

    assert "\nvfs_read\n" in functions


def test_tracepoints_have_formats():
    text = (TRACEFS / "events/syscalls/sys_enter_read/format").read_text()

    assert text.startswith("name: sys_enter_read\n")


def test_symbols_have_addresses():
    symbol = re.search(r"(?m)^(\w+) T vfs_read$", Path("/proc/kallsyms").read_text())

    assert int(symbol[1], 16) > 0xFFFFFFFF80000000


def test_the_checkout_can_be_written_to():
    path = Path(__file__).with_suffix(".written-in-a-guest")
    path.write_text("gone with the guest")

    assert path.read_text() == "gone with the guest"
