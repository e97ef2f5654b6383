"""Constant expressions mean what they mean in C: type and value, as a C compiler computes them."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pybpf.compiler.infer import infer
from pybpf.compiler.parser import parse_text
from pybpf.compiler.pipeline import compile_script, deep_recursion
from pybpf.source import Source
from pybpf.target.snapshot import SnapshotTarget
from pybpf.testing.evaluator import Evaluator, Facts
from pybpf.types import strip
from pybpf.vm.driver import run_events

COMPILER = shutil.which("gcc") or shutil.which("cc")
BATCH = 150
MASK = 2**64 - 1

# Left shifts and overflow of signed numbers are defined by -fwrapv, right shifts by the compiler.
PROGRAM = r"""
#include <stdio.h>
#define KIND(e) _Generic((e), int: "4s", unsigned: "4u", long: "8s", unsigned long: "8u", \
                              long long: "8s", unsigned long long: "8u")
#define SHOW(e) printf("%%s %%llx\n", KIND(e), (unsigned long long)(e));
int main(void) {
%s
}
"""


@st.composite
def literals(draw):
    edges = [2**bits - less for bits in (7, 8, 15, 16, 31, 32, 63, 64) for less in (0, 1)]
    number = draw(st.integers(0, 9) | st.sampled_from(edges) | st.integers(0, MASK)) & MASK
    suffix = draw(st.sampled_from(["", "", "u", "U", "l", "ul", "LL", "ull"]))
    spelled = draw(st.sampled_from(["{}", "{:#x}", "0{:o}", "{:#b}"])).format(number)
    if spelled[0] != "0" and number >= 2**63 and "u" not in suffix.lower():
        suffix = "u"  # else no type of C holds it
    return spelled + suffix


def _grow(inner):
    pair = st.tuples(inner, inner)
    plain = st.sampled_from(["+", "-", "*", "&", "|", "^", "==", "!=", "<", ">", "<=", ">=",
                             "&&", "||"])  # fmt: skip
    # No division by zero, none of the lowest number by -1, and no shift by the width or more.
    divisor = st.sampled_from(["(({} & 7) | 1)", "-(({} & 7) | 2)"])
    return st.one_of(
        st.tuples(inner, plain, inner).map("({0[0]} {0[1]} {0[2]})".format),
        st.tuples(inner, plain, inner, plain, inner).map(" ".join).map("({})".format),
        st.tuples(st.sampled_from("-~!"), inner).map("{0[0]}({0[1]})".format),
        st.tuples(inner, st.sampled_from("/%"), divisor, inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2].format(t[3])})"
        ),
        st.tuples(st.sampled_from(["<<", ">>"]), pair).map(
            "({0[1][0]} {0[0]} ({0[1][1]} & 31))".format
        ),
    )


EXPRESSIONS = st.recursive(literals() | st.just("'a'"), _grow, max_leaves=8)


def computed_by_c(expressions, folder):
    """Return (size and sign, value as 64 bits) of each expression."""
    source, program = folder / "c.c", folder / "c"
    source.write_text(PROGRAM % "\n".join(f"SHOW({e})" for e in expressions))
    subprocess.run([COMPILER, "-fwrapv", "-w", "-o", program, source], check=True)
    output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return [(kind, int(value, 16)) for kind, value in map(str.split, output.splitlines())]


def kind_of(t):
    t = strip(t)
    return f"{t.size}{'s' if t.signed else 'u'}"


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@settings(max_examples=2, deadline=None, phases=[Phase.generate])
@given(st.lists(EXPRESSIONS, min_size=BATCH, max_size=BATCH))
def test_as_c_computes(tmp_path_factory, expressions):
    wanted = computed_by_c(expressions, tmp_path_factory.mktemp("c"))
    target = SnapshotTarget()
    source = Source("<script>", f"BEGIN {{ {' '.join(f'print({e});' for e in expressions)} }}")
    typed = infer(parse_text(source), target)
    evaluator = Evaluator(typed)
    with deep_recursion(source):
        evaluator.run(typed.probes[0], Facts({}))
    rows = list(run_events(compile_script(source, target), target, []))

    found = []
    for row, (number, values) in zip(rows, evaluator.records, strict=True):
        (cell,) = row.cells
        by_evaluator = values[0] if values else typed.events[number].args[0].value
        assert by_evaluator == cell.value
        found.append((kind_of(cell.type), cell.value & MASK))
    assert found == wanted
