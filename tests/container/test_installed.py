"""What an installation takes: packages, and room on the disk."""

import platform
import re
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LIMIT = 6 << 20
PAGE = (Path(__file__).parents[2] / "docs/containers.md").read_text()
PACKAGES = {"cffi", "construct", "pybpf", "pycparser", "pyelftools"}


@pytest.fixture(scope="module")
def installed(site):
    return site(".".join(platform.python_version_tuple()[:2]))


def test_nothing_else_is_installed(installed):
    assert {folder.name.partition("-")[0] for folder in installed.glob("*.dist-info")} == PACKAGES


def test_it_takes_less_than_six_mebibytes(installed):
    """Python's caches of bytecode are not part of it: `pip install --no-compile` makes none."""
    files = [file for file in installed.rglob("*") if file.is_file()]
    assert not [file for file in files if file.suffix == ".pyc"]
    size = sum(file.stat().st_size for file in files)
    assert size < LIMIT
    said = float(re.search(r"that takes ([0-9.]+) MiB", PAGE)[1])
    assert abs(size / (1 << 20) - said) < 0.2


def test_the_extension_carries_no_debugging_information(installed):
    (extension,) = installed.glob("pybpf/_bpf_syscall*.so")
    data = extension.read_bytes()
    assert b".debug_info" not in data
    assert len(data) < 100_000
