"""What the tests of the compiler share."""

from pathlib import Path

import pytest

from pybpf.target.snapshot import SnapshotTarget

SNAPSHOT = Path(__file__).parents[1] / "data" / "targets" / "6.12.tar.gz"

ENVIRONMENT = {
    "N": "5",
    "NEG": "-5",
    "HEX": "0xffffffff",
    "OCT": "010",
    "BIG": "18446744073709551615",
    "TOO_BIG": "18446744073709551616",
    "DIGITS": "9" * 5000,
    "PADDED": " 7",
    "TRAILING": "7 ",
    "NO_OCT": "099",
    "WORD": "dd",
    "EMPTY": "",
    "1": "42",
    "target": "1234",
}


@pytest.fixture(scope="session")
def kernel():
    """Return Linux 6.12 on x86-64, with what a user may have set in the environment."""
    return SnapshotTarget.load(SNAPSHOT, environment=ENVIRONMENT)
