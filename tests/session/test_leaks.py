"""Whatever goes wrong, nothing is left behind: conftest.py looks at files, mounts and children."""

import dataclasses
import resource
from pathlib import Path

import pytest

import pybpf
from pybpf.compiler.pipeline import compile_script
from pybpf.errors import KernelError, SourceError
from pybpf.isa.insn import insn
from pybpf.kernel import syscall
from pybpf.kernel.child import Child
from pybpf.kernel.live import LiveTarget
from pybpf.session import Session

pytestmark = pytest.mark.kernel


def compiled(text):
    target = LiveTarget({"target": "1"})
    return compile_script(text, target), target


def test_an_exception_in_the_callers_loop(objects_of, gone):
    script, target = compiled("interval:1ms { print(1); @[1] = count(); }")
    objects = set()

    def use():
        with Session(script, target) as session:
            objects.update(objects_of())
            for _ in session.rows():
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        use()
    assert {kind for kind, _ in objects} == {"prog", "map", "link"}
    assert gone(objects)


def test_a_load_that_is_refused_after_another(objects_of):
    script, target = compiled(
        "tracepoint:sched/sched_switch { @[1] = count(); } interval:1s { print(1); }"
    )
    first, second = script.probes
    program = dataclasses.replace(second.program, insns=(insn("exit"),), lines=())  # r0 is not set
    broken = dataclasses.replace(second, program=program)
    script = dataclasses.replace(script, probes=(first, broken))
    before = objects_of()
    with Child("touch /nowhere/at/all") as child:
        with pytest.raises(KernelError) as error, Session(script, target, child=child):
            pytest.fail("it was loaded")
        assert objects_of() == before
    assert str(error.value) == (
        "cannot load the program of interval:1s: Permission denied (errno 13)\n"
        "  hint: the kernel refuses instruction 0, `exit`: R0 !read_ok"
    )
    assert "R0 !read_ok" in error.value.log


@pytest.mark.parametrize("call", ["perf_open", "link_perf_event", "perf_enable", "map_create"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_refusal_at_any_step(monkeypatch, objects_of, call, at):
    script, target = compiled(
        "interval:1s { print(1); @[1] = count(); } profile:1hz { m[1] = 1; } BEGIN { print(2); }"
    )
    real = getattr(syscall, call)
    calls = iter(range(100))

    def refuse(*arguments, **options):
        if next(calls) >= at:
            raise KernelError(12, call)
        return real(*arguments, **options)

    from pybpf.kernel import maps

    monkeypatch.setattr(maps if call == "map_create" else syscall, call, refuse)
    before = objects_of()
    with pytest.raises(KernelError, match=call), Session(script, target):
        pytest.fail("it was attached")
    assert objects_of() == before


def test_a_faulty_script_with_a_command(tmp_path):
    mark = tmp_path / "ran"
    with pytest.raises(SourceError), pybpf.trace("BEGIN { x(); }", command=f"touch {mark}"):
        pytest.fail("it was compiled")
    assert not mark.exists()


def test_rows_that_nobody_asks_for_any_more():
    with pybpf.trace("interval:1ms { print(1); }") as t:
        rows = t.rows()
        next(rows)
    with pytest.raises(ValueError, match="closed"):
        list(rows)


def test_fifty_runs_in_a_row(objects_of):
    before = objects_of()
    for i in range(50):
        with pybpf.trace(f"interval:1ms {{ print({i}); @[1] = count(); exit(0); }}") as t:
            assert len(list(t.rows())) == 2
            assert list(t.maps["@"]) == [1]
    assert objects_of() == before


def test_more_files_than_the_limit_allows():
    """A pattern may need more: the soft limit is raised for the time of the run."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (60, hard))
    try:
        with pybpf.trace(
            "tracepoint:syscalls/sys_enter_sched_[gs]* / pid == 1 / { exit(0); } " * 4
        ) as t:
            assert len(list(Path("/proc/self/fd").iterdir())) > 60
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 60
            assert list(t.rows(timeout=0)) == []
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (60, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_more_files_than_the_hard_limit_allows(monkeypatch):
    from pybpf.kernel import limits

    monkeypatch.setattr(limits, "_FEW", 10_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard))
    try:
        with (
            pytest.raises(KernelError) as error,
            pybpf.trace("tracepoint:syscalls/sys_enter_sched_[gs]* / pid == 1 / { exit(0); } " * 2),
        ):
            pytest.fail("40 files were enough")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert error.value.errno == 24
    assert error.value.hints == (
        "too many files are open for this process's limit: see `ulimit -n`",
    )
