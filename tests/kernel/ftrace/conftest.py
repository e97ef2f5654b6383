"""What tests of the live tracer share. They use instances and events that only they have."""

import ctypes
import os
import re
from pathlib import Path

import pytest

from pybpf.errors import PybpfError
from pybpf.kernel.ftrace.cleanup import found
from pybpf.kernel.ftrace.dynevents import require
from pybpf.kernel.ftrace.instance import instance
from pybpf.kernel.ftrace.owner import new_owner
from pybpf.kernel.tracefs import open_tracefs


@pytest.hookimpl(tryfirst=True)  # before -m looks at the markers
def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("one_cpu")


@pytest.fixture
def tree():
    """Give access to tracefs, or skip with the reason; nothing may be left that was not there."""
    try:
        with open_tracefs() as tree, instance(tree, str(new_owner())):
            require(tree, ["uprobe"])
    except PybpfError as error:
        pytest.skip(f"no tracing here: {error}")
    with open_tracefs() as tree:
        before = left(tree)
        yield tree
        assert left(tree) == before


def left(tree):
    """Return what is of this process: others may trace as well."""
    return [one.name for one in found(tree) if one.owner and one.owner.pid == os.getpid()]


@pytest.fixture
def made(tree):
    """Return an instance of our own."""
    with instance(tree, str(new_owner())) as made:
        yield made


@pytest.fixture(scope="session")
def libc():
    return ctypes.CDLL(None)


@pytest.fixture(scope="session")
def place(libc):
    """Return a function: where in which file a function of libc is, as uprobes want it."""

    def place(name):
        address = ctypes.cast(getattr(libc, name), ctypes.c_void_p).value
        for line in Path("/proc/self/maps").read_text().splitlines():
            found = re.match(r"(\w+)-(\w+) \S+ (\w+) \S+ \d+ +(/.*)", line)
            if found and int(found[1], 16) <= address < int(found[2], 16):
                return f"{found[4]}:{address - int(found[1], 16) + int(found[3], 16):#x}"
        raise AssertionError(name)

    return place


@pytest.fixture
def mine(made):
    """Let an instance record this process alone, and return it."""
    made.write("trace_clock", "mono")
    made.write("set_event_pid", str(os.getpid()))
    return made
