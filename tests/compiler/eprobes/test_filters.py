"""Filters as programs: the same answers as those of the offline evaluator."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybpf.compiler.eprobes.definition import RULES
from pybpf.compiler.lowering.patterns import ANY, Characters, read_pattern
from pybpf.errors import DynEventError, SourceError
from pybpf.events.eprobes.evaluate import Evaluator
from pybpf.events.eprobes.memory import Known, memory_of


@pytest.fixture(scope="session")
def passes(one_event, hits, sample):
    """Return whether a filter lets a record through in a program."""

    def run(text, raw=None, **facts):
        made = hits([f"e:e sub.evt a=$s:s16 if {text}"], one_event("sub/evt", sample.parent))
        raw = sample.record() if raw is None else raw
        return made.fields(raw, **{"memory": sample.memory, "comm": b"me"} | facts) is not None

    return run


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("s == -500", True), ("s < -499", True), ("s <= -501", False), ("s & 4", True),
        ("u > 65035", True), ("u >= 65037", False), ("u != 65036", False),

        ("four == 16777343", True),
        ("!(s == -500)", False), ("s == 1 || u == 65036 && four != 0", True), ("!s == 1", True),
        ('name == "bash"', True), ('name == "bas"', False), ('name != "bashx"', True),
        ('name ~ "ba*"', True), ('name ~ "*as*"', True), ('name ~ "*sh"', True),

        ('name ~ "b?sh"', True),
        ('name ~ "[a-c]ash"', True), ('name ~ "[!a-c]ash"', False), ('name ~ "ash"', False),
        ('where == "place"', True), ('where ~ "*e"', True), ('where != "place"', False),
        ('comm == "me"', True), ('COMM ~ "m*"', True), ("cpu == 1", True), ("CPU < 1", False),
        ('p.ustring == "/etc/hostname"', True), ('p.ustring ~ "/etc/*"', True),
        ('p == "/etc/hostname"', False), ('p != "other"', False), ('!(p != "other")', True),
        ("cpu & CPUS{1}", True), ("cpu == CPUS{0}", False), ("cpu != CPUS{0-1}", True),
        ("common_pid == 7", True), ("common_type == 5", True),
        ("list == 18446612682070003712", False),
    ],
)  # fmt: skip
def test_filters(text, holds, passes):
    assert passes(text, cpu=1, tid=7) is holds


@pytest.mark.parametrize(
    ("start", "end"),
    [("!" * 250, ""), ("(u == 1 || " * 250, ")" * 250), ("(" * 1000, ")" * 1000)],
    ids=["not", "or", "brackets"],
)
def test_filters_nest(start, end, passes):
    assert passes(f"{start}s == -500{end}")


def test_what_nests_too_deep_is_told(passes):
    with pytest.raises(DynEventError, match="a filter of a program has at most 256 levels"):
        passes("!" * 256 + "s == -500")


NAMES = st.sampled_from(["bash", "ba", "x", "", "abcabca", "zz]z"])
PATTERN = st.text(st.sampled_from("abcs*?[]!-z"), max_size=7)


@st.composite
def comparisons(draw):
    kind = draw(st.sampled_from(["s", "u", "four", "name", "where", "p.ustring"]))
    if kind in {"s", "u", "four"}:
        number = draw(st.integers(-600, 600) if kind == "s" else st.integers(0, 70000))
        return f"{kind} {draw(st.sampled_from(['==', '!=', '<', '<=', '>', '>=', '&']))} {number}"
    if draw(st.booleans()):
        return f'{kind} ~ "{draw(PATTERN)}"'
    return f'{kind} {draw(st.sampled_from(["==", "!="]))} "{draw(NAMES)}"'


FILTERS = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        inner.map(lambda f: f"!({f})"),
        st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(
            lambda t: f"({t[0]}) {t[1]} ({t[2]})"
        ),
    ),
    max_leaves=4,
)


@settings(max_examples=40, deadline=None)
@given(text=FILTERS, name=NAMES, where=NAMES, s=st.integers(-600, 600), readable=st.booleans())
def test_random_filters_hold_as_the_evaluator_says(text, name, where, s, readable, passes, sample):
    raw = bytearray(sample.record(s=s))
    raw[16:24] = name.encode().ljust(8, b"\0")
    raw[56:64] = where.encode().ljust(8, b"\0")
    raw[32:36] = ((len(where) + 1) << 16 | 56).to_bytes(4, "little")
    pieces = {sample.user: name.encode() + b"\0"} if readable else {}
    evaluate = Evaluator(f"e:e sub.evt a=$s:s16 if {text}", sample.parent, RULES)
    memory = memory_of(pieces) if readable else (lambda _at, _size: b"")

    expected = evaluate(bytes(raw), Known(memory=memory)).fires

    assert passes(text, bytes(raw), memory=pieces) is expected


def test_patterns():
    a = Characters(((97, 97),))
    assert read_pattern(b"a*?").characters == (a, ANY)
    assert read_pattern(b"a*?").stars == {1}
    assert read_pattern(b"[a-c!]").characters == (Characters(((97, 99), (33, 33))),)
    assert read_pattern(b"[!a]").characters == (Characters(((97, 97),), negated=True),)
    assert read_pattern(b"[]a]").characters == (Characters(((93, 93), (97, 97))),)
    assert read_pattern(b"[a").characters == (Characters(((91, 91),)), a)
    assert read_pattern(rb"\*").characters == (Characters(((42, 42),)),)


def test_a_pattern_looks_no_further_than_it_must(hits, one_event, sample):
    """Else each byte that a string of user space may have takes instructions."""

    def size(filter_):
        made = hits([f"e:e sub.evt a=$s:s16 if {filter_}"], one_event("sub/evt", sample.parent))
        return sum(len(probe.program.insns) for probe in made.compiled.script.probes)

    assert size('p.ustring ~ "/etc/*"') < 300 < size('p.ustring ~ "*.conf"')


def test_a_pattern_too_long_is_refused(passes):
    with pytest.raises(SourceError, match="the pattern has more than 62 characters"):
        passes(f'name ~ "*{"x" * 63}"')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("common_flags == 1", "the kernel hides 'common_flags' from programs"),
        ("nosuch == 1", "Field not found"),
        ("s ==", "Invalid value"),
    ],
)
def test_errors(text, message, passes):
    with pytest.raises(DynEventError, match=message):
        passes(text)
