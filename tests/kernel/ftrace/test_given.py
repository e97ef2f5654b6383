"""Errors speak of events by the names that were given, not by those that carry an owner."""

import errno

import pytest

from pybpf.errors import Diagnostic, DynEventError, KernelError
from pybpf.kernel.ftrace import trace as tracing
from pybpf.kernel.ftrace.given import in_given_names
from pybpf.source import Source, Span

NAMES = {"t/x": "pybpf_1_2_0_0_t/x", "synthetic/lat": "synthetic/pybpf_1_2_0_0_lat"}


@pytest.mark.parametrize(
    ("text", "place", "given"),
    [
        ("e:pybpf_1_2_0_0_t/x sched.sched_switch a=$nosuch", 41, "$nosuch"),
        ("e:u/y pybpf_1_2_0_0_t.x a=$nosuch", 26, "$nosuch"),
        ("hist:keys=a:onmatch(a.b).trace(pybpf_1_2_0_0_lat,$c)", 49, "$c"),
        ("hist:keys=a:onmatch(synthetic.pybpf_1_2_0_0_lat).b($c)", 51, "$c"),
        ("e:pybpf_1_2_0_0_t/x sched.sched_switch", 2, "t/x"),
        ("e:pybpf_1_2_0_0_t/x sched.sched_switch", 4, "x"),
        ("e:pybpf_1_2_0_0_t/x sched.sched_switch", 18, " "),
        ("e:t/z sched.sched_switch a=pybpf_1_2_0_0_t", 27, "pybpf"),
    ],
)
def test_the_source_and_the_caret(text, place, given):
    span = Span(Source("<definition>", text), place, place + 1)
    with pytest.raises(DynEventError) as caught, in_given_names(NAMES):
        raise DynEventError(Diagnostic("no", span, ("t/x", NAMES["t/x"])), errno.EINVAL)
    (found,) = caught.value.diagnostics
    assert found.span.source.text[found.span.start :].startswith(given)
    assert found.hints == ("t/x", "t/x")
    assert caught.value.errno == errno.EINVAL


def test_errors_of_the_kernel():
    hints = ("it is used by pybpf_1_2_0_0_t/x",)
    with pytest.raises(KernelError) as caught, in_given_names(NAMES):
        raise KernelError(errno.EBUSY, "cannot enable synthetic/pybpf_1_2_0_0_lat", hints=hints)
    assert caught.value.action == "cannot enable synthetic/lat"
    assert caught.value.hints == ("it is used by t/x",)


def test_without_names_nothing_changes():
    with pytest.raises(KernelError, match="cannot enable a/b"), in_given_names({}):
        raise KernelError(errno.EBUSY, "cannot enable a/b")


def test_what_only_the_kernel_refuses_has_the_names_given(tree, place, monkeypatch):
    judged = tracing.judge_all

    def blind(texts, world):
        return [
            tracing.replace(one, text=one.text.replace("%ax", "%ay"))
            for one in judged(texts, world)
        ]

    monkeypatch.setattr(tracing, "judge_all", blind)
    with (
        pytest.raises(DynEventError, match="Invalid register name") as caught,
        tracing.trace(f"p:t/x {place('getppid')} a=%ax", tree=tree),
    ):
        pass
    assert "error: Invalid register name\n    p:t/x /" in str(caught.value)
    assert " a=%ay\n" in str(caught.value)
    assert "pybpf_" not in str(caught.value)
