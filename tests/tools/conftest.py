import importlib.util
from pathlib import Path

import pytest

GUEST = Path(__file__).parents[2] / "tools" / "guest.py"


@pytest.fixture(scope="session")
def guest():
    """tools/guest.py, which is a script and in no package."""
    spec = importlib.util.spec_from_file_location("guest", GUEST)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
