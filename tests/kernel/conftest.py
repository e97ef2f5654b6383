"""Tests marked ``kernel`` run where a kernel lets us, and say why where none does."""

import pytest

from pybpf.errors import KernelError


def why_not():
    try:
        from pybpf.kernel import features
    except KernelError as error:  # the extension was not built
        return error
    return features.why_unavailable()


def pytest_collection_modifyitems(items):
    marked = [item for item in items if item.get_closest_marker("kernel")]
    if marked and (error := why_not()):
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=f"no BPF here: {error}"))
