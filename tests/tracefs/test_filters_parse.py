"""Filters as values: parsed, written, built, explained."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.errors import DynEventError
from pybpf.tracefs.dynevents.judge import judge
from pybpf.tracefs.dynevents.rules import rules_for
from pybpf.tracefs.filters.explain import each_comparison, explain_filter, filter_warnings
from pybpf.tracefs.filters.judge import judge_filter
from pybpf.tracefs.filters.parse import checked, parse_filter
from pybpf.tracefs.filters.value import And, Comparison, Cpus, Function, Not, Or, Text, where


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a==0x10", "a == 16"),
        ("a == -010", "a == -8"),
        ("((a == 1))", "a == 1"),
        ("!a == 1", "!(a == 1)"),
        ("!!(a==1)", "!!(a == 1)"),
        ("a == 1&&b == 2 || c == 3", "a == 1 && b == 2 || c == 3"),
        ("a == 1 && (b == 2 || c == 3)", "a == 1 && (b == 2 || c == 3)"),
        ("(a == 1 && b == 2) && c == 3", "(a == 1 && b == 2) && c == 3"),
        ("a ~ '*\"'", "a ~ '*\"'"),
        ("a.ustring ~ 'x'", 'a.ustring ~ "x"'),
        ("a.function == vfs_read", "a.function == vfs_read"),
        ("CPU & CPUS{0-3}", "CPU & CPUS{0-3}"),
    ],
)
def test_text_is_written_in_one_way(text, canonical):
    value = parse_filter(text)
    assert str(value) == canonical
    assert parse_filter(canonical) == value


NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True)
QUOTABLE = st.text(max_size=6).filter(lambda t: "\0" not in t and not {'"', "'"} <= set(t))
NUMBERS = st.integers(-(1 << 63), (1 << 64) - 1)
COMPARISONS = st.one_of(
    st.builds(Comparison, NAMES, st.sampled_from(("==", "!=", "<", "<=", ">", ">=", "&")), NUMBERS),
    st.builds(
        Comparison,
        NAMES,
        st.sampled_from(("==", "!=", "~")),
        st.builds(Text, QUOTABLE),
        st.sampled_from(("", "ustring")),
    ),
    st.builds(Comparison, NAMES, st.just("=="), st.builds(Function, NAMES), st.just("function")),
    st.builds(Comparison, NAMES, st.just("&"), st.just(Cpus("0-3,5"))),
)
FILTERS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=8,
)


@given(FILTERS)
def test_a_value_is_its_text(value):
    assert parse_filter(str(value)) == value
    assert checked(value) == value


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1000 + "a == 1" + ")" * 1000,
        "!" * 4000 + "a == 1",
        "!(" * 1300 + "a == 1" + ")" * 1300,
        "(a==1||(a==1&&" * 250 + "a==1" + "))" * 250,
    ],
    ids=["brackets", "not", "not brackets", "and or"],
)
def test_filters_nest_as_deep_as_there_is_room(text):
    value = parse_filter(text)
    assert str(parse_filter(str(value))) == str(value)
    assert set(each_comparison(value)) == {Comparison("a", "==", 1)}


@given(st.one_of(st.text(max_size=20), st.binary(max_size=20)))
def test_no_text_raises_anything_else(text):
    try:
        value = parse_filter(text)
    except DynEventError:
        return
    assert parse_filter(str(value)) == value


def test_building():
    value = where("id").eq(257) & ~(where("COMM").like("b*") | where("flags").bits(0o100))
    assert str(value) == 'id == 257 && !(COMM ~ "b*" || flags & 64)'
    assert str(where("x", ustring=True).ne("y") & where("a").lt(1) & where("b").ge(2)) == (
        'x.ustring != "y" && a < 1 && b >= 2'
    )
    assert str(where("f", function=True).ne(Function("vfs_read"))) == "f.function != vfs_read"


def test_what_would_be_read_otherwise_is_not_built():
    with pytest.raises(DynEventError, match="would read this filter as another one"):
        checked(And((where("a").eq(1),)))
    with pytest.raises(DynEventError):
        checked(where("a").eq("both ' and \""))
    with pytest.raises(DynEventError, match=r"Invalid value"):
        checked(where("CPU").eq(Cpus("0")), rules_for("6.1"))


SWITCH, OPENAT, RAW = "sched/sched_switch", "syscalls/sys_enter_openat", "raw_syscalls/sys_enter"


@pytest.mark.parametrize(
    ("event", "text", "column", "hint"),
    [
        (SWITCH, "prev_pid == 0 && next_pud == 1", 18, "did you mean next_pid?"),
        (SWITCH, "prev_pid == 0 &&", 17, "a comparison is missing at the end"),
        (SWITCH, "prev_pid = 0", 10, "equal is =="),
        (SWITCH, "prev_pid == next_pid", 13, "two fields cannot be compared with each other"),
        (SWITCH, "prev_comm == bash", 14, 'strings need quotes: "…"'),
        (SWITCH, "prev_pid == 0 and prev_pid == 1", 15, "comparisons are joined by && and ||"),
        (RAW, "args[0] == 1", 5, "elements of arrays cannot be compared"),
        (OPENAT, "dfd == -100", 8, "write 4294967196 for 32 bits, 18446744073709551516 for 64"),
        (OPENAT, "filename.string == 'x'", 9, "a field takes .ustring"),
        (SWITCH, "CPU == CPUS{9}", 14, "the kernel has 1 CPUs, from 0"),
        (SWITCH, "", 1, "0 removes the filter"),
    ],
)
def test_explanations(event, text, column, hint, record):
    world = record.world("7.3")
    verdict = judge_filter(text or "\n", event, world)
    error = explain_filter(text or "\n", verdict, event, world)
    (diagnostic,) = error.diagnostics
    assert diagnostic.span.column == column
    assert hint in diagnostic.hints[0]
    assert "drops the one before it" in diagnostic.hints[-1]


@pytest.mark.parametrize(
    ("event", "text", "warning"),
    [
        (SWITCH, "prev_pid == 1", None),
        (SWITCH, "prev_pid == 99999999999", "prev_pid has 32 bits: it is compared with 1215752191"),
        (RAW, "args == 1", "args is unsigned long[6], of 48 bytes: this is never true"),
        (OPENAT, 'filename ~ "/etc/*"', "filename points to user memory, which is read with"),
        (OPENAT, 'filename.ustring ~ "/etc/*"', None),
        (SWITCH, 'prev_comm.ustring == "x"', "prev_comm is no pointer: .ustring has no effect"),
        (SWITCH, 'prev_comm ~ "9*"', "a pattern that begins with a digit is compared as it is"),
        (SWITCH, 'prev_comm == "0123456789abcdef"', "prev_comm has at most 15 bytes"),
    ],
)
def test_warnings(event, text, warning, record):
    world = record.world("7.3")
    verdict = judge_filter(text, event, world)
    assert verdict.accepted
    found = [diagnostic.message for diagnostic in filter_warnings(text, verdict, event, world)]
    assert len(found) == (warning is not None)
    assert warning is None or found[0].startswith(warning)


def test_an_eprobe_does_not_mind_the_filter_of_its_event(record):
    world = judge("e:g/x sched.sched_switch a=$prev_pid", record.world("7.3")).after
    verdict = judge_filter("prev_pid == 1", SWITCH, world)
    (found,) = filter_warnings("prev_pid == 1", verdict, SWITCH, world)
    assert found.message == "the eprobe g/x takes every hit, whatever the event's filter"
