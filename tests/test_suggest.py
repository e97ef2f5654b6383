import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.suggest import did_you_mean, suggest

BUILTINS = ["comm", "count", "cpu", "exit", "pid", "print", "printf", "quantize", "sum", "time"]
EVENTS = ["sched/sched_switch", "sched/sched_wakeup", "syscalls/sys_enter_read"]


@pytest.mark.parametrize(
    ("name", "candidates", "want"),
    [
        ("cuont", BUILTINS, ("count",)),
        ("coun", BUILTINS, ("count",)),
        ("prntf", BUILTINS, ("printf",)),
        ("printx", BUILTINS, ("print", "printf")),
        ("PID", BUILTINS, ("pid",)),
        ("kid", BUILTINS, ("pid",)),
        ("nothing", BUILTINS, ()),
        ("", BUILTINS, ()),
        ("count", BUILTINS, ()),  # it is there
        ("sched/sched_swich", EVENTS, ("sched/sched_switch",)),
        ("sched_switch", EVENTS, ("sched/sched_switch",)),
        ("syscall/sys_enter_read", EVENTS, ("syscalls/sys_enter_read",)),
        ("x", ["a", "b", "c", "d"], ("a", "b", "c")),
    ],
)
def test_suggest(name, candidates, want):
    assert suggest(name, candidates) == want


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("nothing", ""),
        ("cuont", "; did you mean 'count'?"),
        ("printx", "; did you mean 'print' or 'printf'?"),
        ("cum", "; did you mean 'sum'?"),
    ],
)
def test_did_you_mean(name, want):
    assert did_you_mean(name, BUILTINS) == want


def test_three_names():
    assert did_you_mean("x", ["a", "b", "c"]) == "; did you mean 'a', 'b' or 'c'?"


def distance(a, b):
    """Optimal string alignment, straight from its definition."""
    if not a or not b:
        return len(a) + len(b)
    best = min(
        distance(a[1:], b) + 1,
        distance(a, b[1:]) + 1,
        distance(a[1:], b[1:]) + (a[0] != b[0]),
    )
    if len(a) > 1 and len(b) > 1 and (a[0], a[1]) == (b[1], b[0]):
        best = min(best, distance(a[2:], b[2:]) + 1)
    return best


words = st.text("ab", max_size=6)


@given(words, st.lists(words, max_size=4))
def test_finds_the_nearest_and_nothing_else(name, candidates):
    allowed = min(3, max(1, len(name) // 3))
    near = {c: distance(name, c) for c in candidates if c != name}
    best = min(near.values(), default=99)
    want = sorted(c for c, d in near.items() if d == best) if best <= allowed else []
    assert suggest(name, candidates) == tuple(want[:3])
