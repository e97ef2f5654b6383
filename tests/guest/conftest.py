"""Tests in this folder run in a guest kernel, where a crash costs nothing, and skip elsewhere."""

import os
from pathlib import Path

import pytest

SKIP = pytest.mark.skip(reason="needs kprobes: run make test-kernels")


@pytest.hookimpl(tryfirst=True)  # before -m looks at the markers
def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("guest")
            if "PYBPF_GUEST" not in os.environ:  # set by tools/guest.py
                item.add_marker(SKIP)
