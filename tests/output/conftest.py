"""A small symbol table and the styles the output tests render with."""

from __future__ import annotations

import time

import pytest

from pybpf.output.values import Style

SYMBOLS = {0xFFFFFFFF81000000: "vfs_read", 0xFFFFFFFF81001000: "ksys_read"}


class Symbols:
    """Two functions of 4096 bytes each."""

    def resolve(self, address):
        name = SYMBOLS.get(address & ~0xFFF)
        return None if name is None else (name, address & 0xFFF)

    def addresses(self, name):
        return tuple(address for address, known in SYMBOLS.items() if known == name)


@pytest.fixture(scope="session")
def symbols():
    return Symbols()


@pytest.fixture(scope="session")
def style(symbols):
    return Style(symbols)


@pytest.fixture
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC0")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
