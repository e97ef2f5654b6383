"""The symbols of the running kernel, as definitions of probes depend on them."""

import pytest

from pybpf.kernel.ftrace import world
from pybpf.kernel.ftrace.world import LiveSymbols, Repeated
from pybpf.tracefs.dynevents.rules import rules_for

KALLSYMS = """\
ffffffff81000000 T once
ffffffff81000010 t twice
ffffffff81000020 d twice
ffffffff81000030 t both
ffffffff81000040 t once.cold
ffffffffc0000000 t both\t[one]
ffffffffc0000010 t modules\t[one]
ffffffffc0000020 t modules\t[other]
ffffffffc0000030 t module\t[one]
ffffffffc0000040 t once\t[bpf]
ffffffffc0000050 t once\t[__builtin__ftrace]
"""


@pytest.fixture
def symbols(monkeypatch):
    monkeypatch.setattr(world, "read_kallsyms", lambda: KALLSYMS)
    return LiveSymbols()


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("once", (1, 0)),
        ("twice", (2, 0)),
        ("both", (1, 1)),
        ("modules", (0, 2)),
        ("module", (0, 1)),
        ("once.cold", (1, 0)),
        ("onc", (0, 0)),
        ("one:both", (0, 0)),
        ("", (0, 0)),
    ],
)
def test_how_many_symbols_have_a_name(symbols, name, counts):
    assert symbols.counts(name) == counts


@pytest.mark.parametrize(
    ("release", "repeated"),
    [("6.1", {"twice", "both", "modules"}), ("7.3", {"twice", "modules"})],
)
def test_names_that_are_not_unique(symbols, release, repeated):
    names = Repeated(symbols, rules_for(release))
    known = ("once", "twice", "both", "modules", "module", "nosuch", 7)
    assert {name for name in known if name in names} == repeated


def test_names_with_their_module(symbols):
    assert "one:modules" in symbols
    assert "one:twice" not in symbols
