"""Whatever text comes in, out comes a compiled script or a SourceError, however large it is."""

from __future__ import annotations

import contextlib
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybpf.compiler.dump import dump
from pybpf.compiler.parser import MAX_DEPTH
from pybpf.compiler.pipeline import compile_script
from pybpf.compiler.printer import print_script
from pybpf.errors import ParseError, SourceError
from pybpf.source import Source
from pybpf.testing.scripts import asts, soups
from pybpf.testing.tracepoints import FIRST
from pybpf.testing.tracepoints import target as tracepoints

TARGET = tracepoints()
pytestmark = pytest.mark.timeout(600)


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(asts().map(print_script) | soups() | st.text())
def test_any_text_compiles_or_is_refused(text):
    with contextlib.suppress(SourceError):
        compile_script(text, TARGET)


PROVIDERS = ["kprobe:", "kretprobe:", "tracepoint:", "interval:", "profile:", "BEGIN:", ""]
PLACES = st.text("*?[]!@+()|-^/:.0123456789abcdfghistxz_é", max_size=12)


@settings(deadline=None)
@given(st.sampled_from(PROVIDERS), PLACES)
def test_any_specification_leads_somewhere_or_is_refused(provider, place):
    with contextlib.suppress(SourceError):
        compile_script(f"{provider}{place} {{ print(comm); }}", TARGET)


@settings(deadline=None)
@given(asts().map(print_script))
def test_every_stage_can_be_shown(text):
    source = Source("<script>", text)
    with contextlib.suppress(SourceError):
        for stage in ("tokens", "ast", "types", "ir", "alloc", "asm"):
            assert dump(source, TARGET, stage)


def nested(before: str, inner: str, after: str, count: int) -> str:
    return before * count + inner + after * count


def printed(expr: str) -> str:
    return f"{FIRST} {{ print({expr}); }}"


def stored(text: str) -> str:
    return f"{FIRST} {{ m[1] = 1; {text} }}"


LARGE = {
    "parentheses": printed(nested("(", "pid", ")", 2000)),
    "nested to the right": printed(nested("(pid + ", "1", ")", 200)),
    "nested logic": printed(nested("(pid && ", "1", " || uid)", 120)),
    "negations": printed(nested("-(", "pid", ")", 120)),
    "calls": printed(nested("uptr(", "1", ")", 120)),
    "map entries": stored(f"print({nested('m[', '1', ']', 100)});"),
    "conditions": stored(nested("if (pid) { ", "print(1);", " }", 120)),
    "alternatives": stored(" else ".join(f"if (pid == {n}) print({n});" for n in range(200))),
    "a sum": printed(" + ".join(["pid"] * 3000)),
    "a sum that widens": printed("pid" + " + 1l - 2u" * 1000),
    "comparisons": printed(" < ".join(["pid"] * 500)),
    "conjunction": stored(f"if ({' && '.join(f'pid != {n}' for n in range(1000))}) {{ }}"),
    "disjunction": printed(" || ".join(f"pid == {n}" for n in range(1000))),
    "parity": printed(" ^^ ".join(["pid"] * 1000)),
    "statements": stored("".join(f"m[{n}] = {n};" for n in range(300))),
    "prints": stored("".join(f"print({n}, pid);" for n in range(300))),
    "maps": stored("".join(f"m{n}[pid] = {n};" for n in range(200))),
    "maps of maps of maps": stored("".join(f"m{n} = m{n + 1};" for n in range(50)) + "m50 = pid;"),
    "histograms": stored("".join(f"@{n}[comm] = quantize(time - {n});" for n in range(50))),
    "clauses": "".join(f"BEGIN / pid == {n} / {{ print({n}); }}\n" for n in range(200)),
    "a string": stored(
        f's = "{"x" * 4000}"; print(s, strcmp(s, comm), strcmp("{"y" * 4000}", s));'
    ),
    "long strings": printed("strcmp(str(data->b, 4096), str(data->a, 4096)), mem(data->b, 4096)"),
    "a long key": stored(f'n["{"k" * 500}"] = 1; print(n["{"l" * 500}"]); delete n["x"];'),
    "long keys": stored(f'n["{"k" * 4000}", str(pid, 4096)] = str(pid, 4096);'),
    "conversions": stored(f'printf("{"%d " * 20}"{", pid" * 20});'),
    "strings in a printf": stored(f'printf("{"%s " * 200}"{", comm" * 200});'),
    "identifiers": stored(f"{'x' * 5000} = 1;"),
}


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE.keys())
def test_size_is_no_excuse(text):
    before = sys.getrecursionlimit()

    assert compile_script(text, TARGET).probes

    assert sys.getrecursionlimit() == before


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 5000])
@pytest.mark.parametrize(
    ("before", "inner", "after"),
    [
        ("BEGIN { print(", "(pid + ", "1)"),
        ("BEGIN { print(", "- ", "1"),
        ("BEGIN { ", "if (pid) ", "print(1);"),
        ("BEGIN { ", "{ ", "print(1);"),
    ],
)
def test_depth_beyond_the_limit_is_an_error(before, inner, after, levels):
    with pytest.raises(ParseError):
        compile_script(before + inner * levels + after, TARGET)


def test_a_chain_may_be_as_long_as_memory_allows():
    compiled = compile_script(printed("==".join(["1"] * 12_000)), TARGET)

    assert len(compiled.probes[0].program.insns) < 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "BEGIN { pid; } BEGIN { " + "@a[pid] = quantize(time); " * 3000 + "}",
            "<script>:1:16: error: BEGIN: the program takes more than 65536 operations",
        ),
        (
            "BEGIN { print(" + "1+" * 70_000 + "1); }",
            (
                "<script>:1:1: error: the clause is too long:"
                " it has more than 131072 operations and operands"
            ),
        ),
        (
            "BEGIN { a[1] = 1; }\n" * 4097,
            "<script>:4097:1: error: the script has 4097 clauses, more than the 4096 allowed",
        ),
    ],
    ids=["statements", "operands", "clauses"],
)
def test_what_fits_no_program_is_refused_before_the_costly_passes(text, message):
    with pytest.raises(SourceError) as error:
        compile_script(text, TARGET)

    assert str(error.value).splitlines()[0] == message


@pytest.mark.parametrize(
    "text",
    [
        "kprobe:f+" + "9" * 5000,
        "kprobe:" + "9" * 5000,
        "kprobe:0x" + "f" * 5000,
        "interval:" + "9" * 5000,
        "profile:" + "9" * 5000 + "hz",
        "profile:" + "9" * 5000 + ":1hz",
        f'BEGIN {{ printf("%{"9" * 5000}d", 1); }}',
        f"BEGIN {{ print({'9' * 5000}); }}",
        f"BEGIN {{ print(arg{'9' * 5000}); }}",
        f"kprobe:f {{ print(arg{'9' * 5000}); }}",
        f"kprobe:f {{ arg{'9' * 5000} = 1; print(str(arg0, arg{'9' * 4000})); }}",
    ],
    ids=lambda text: text[:24],
)
def test_numbers_of_many_digits_are_refused(text):
    with pytest.raises(SourceError):
        compile_script(text, TARGET)
