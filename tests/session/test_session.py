"""What a run does from its first probe to its last row."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from pybpf.compiler.pipeline import compile_script
from pybpf.errors import SourceError
from pybpf.kernel.child import Child
from pybpf.kernel.live import LiveTarget
from pybpf.output.text import render
from pybpf.rows import Block
from pybpf.session import Ending, Session
from pybpf.target.symbols import SymbolTable

pytestmark = pytest.mark.kernel

HAMMERED = "tracepoint:syscalls/sys_enter_getppid / !strcmp(comm, $hammer) / "
CALLS = "tracepoint:syscalls/sys_enter_getppid / pid == $target / "


def test_begin_and_end_run_in_the_order_of_the_text(run):
    result = run("""
        END { printf("e1\\n"); } BEGIN { printf("b1\\n"); } BEGIN { printf("b2\\n"); exit(0); }
        END { printf("e2\\n"); }
    """)
    assert result.printed == "b1\nb2\ne1\ne2\n"


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("BEGIN { exit(0); }", 0),
        ("BEGIN { exit(3); }", 3),
        ("BEGIN { exit(256 + 7); }", 7),
        ("BEGIN { exit(-1); }", 255),
        ("BEGIN { exit(3); exit(4); }", 3),
        ("BEGIN { exit(3); } BEGIN { exit(4); }", 3),
        ("BEGIN { exit(3); } END { m[0] = 1; exit(4); }", 3),
        ("interval:1ms { exit(5); }", 5),
        ("profile:100hz { exit(6); }", 6),
        ("tracepoint:sched/sched_switch { exit(8); }", 8),
    ],
)
def test_exit_sets_the_status(run, script, status):
    result = run('END { printf("end\\n"); } ' + script)
    assert (result.status, result.printed) == (status, "end\n")
    assert result.ending == Ending(code=status)


def test_what_follows_an_exit_prints_no_more_but_still_counts(run):
    result = run("""
        BEGIN { printf("a\\n"); exit(1); printf("b\\n"); m["x"] = 1; }
        BEGIN { printf("c\\n"); m["y"] = 2; }
        END { printf("d\\n"); exit(2); printf("e\\n"); }
        END { printf("f\\n"); m["z"] = 3; }
    """)
    assert result.printed == "a\nd\n"
    assert result.maps == {"m": {"x": 1, "y": 2, "z": 3}}


def test_a_clear_after_an_exit_clears(run):
    result = run("BEGIN { m[0] = 1; exit(0); clear(m); }")
    assert result.maps == {}


def test_a_map_is_printed_as_it_was_when_begin_ended(run):
    result = run('BEGIN { m["x"] = 1; print(m); } BEGIN { m["x"] = 2; exit(0); }')
    assert result.printed == "\nm:\n{ x       }: 1\n\n"
    assert result.maps == {"m": {"x": 2}}


def test_an_exit_in_begin_keeps_the_command_from_running(run, tmp_path):
    mark = tmp_path / "ran"
    result = run("BEGIN { exit(2); }", f"touch {mark}")
    assert (result.status, mark.exists()) == (2, False)


def test_an_exit_in_begin_keeps_probes_from_firing(run):
    result = run("BEGIN { exit(0); } tracepoint:sched/sched_switch { @[1] = count(); }")
    assert result.maps == {}


@pytest.mark.parametrize("command", ["true", "false", "kill -9 $$", "kill -SEGV $$", "nosuch 2>&-"])
def test_the_end_of_the_command_is_the_end_with_status_0(run, command):
    result = run('END { printf("end\\n"); }', command)
    assert (result.status, result.printed, result.ending) == (0, "end\n", Ending(child=True))


def test_an_exit_in_end_sets_the_status_when_the_command_ended(run):
    assert run("END { exit(9); }", "true").status == 9


def test_the_end_of_the_command_and_data_at_once_never_hang():
    text = 'BEGIN { printf("x\\n"); } interval:1ms { printf("y\\n"); } END { printf("z\\n"); }'
    target = LiveTarget()
    script = compile_script(text, target)
    for _ in range(50):
        with Child("sleep 0.02") as child, Session(script, target, child=child) as session:
            lines = [render(row, SymbolTable()) for row in session.rows()]
            assert session.ending == Ending(child=True)
            lines += [render(row, SymbolTable()) for row in session.finish()]
        assert (lines[0], lines[-1], set(lines[1:-1])) == ("x\n", "z\n", {"y\n"})


def test_an_exit_ends_the_running_command_and_what_it_started(run, tmp_path):
    mark = tmp_path / "pid"
    script = "tracepoint:syscalls/sys_enter_kill / data->sig == 0 && data->pid == 1 / { exit(0); }"
    command = f"sleep 1000 & echo $! > {mark}; kill -0 1; wait; touch {mark}.late"
    result = run(script, command)
    assert result.ending == Ending(code=0)
    assert not (tmp_path / "pid.late").exists()
    assert ended(int(mark.read_text()))


def ended(pid):
    """Return whether a process is gone, or waits for its parent to look at it."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize(
    "script",
    [
        "interval:1ms { @[1] = count(); }",
        CALLS + "{ @calls[1] = count(); } interval:1ms { @[1] = count(); }",
        "interval:1ms { @[1] = count(); } " + CALLS + "{ @calls[1] = count(); }",
        CALLS
        + "{ @calls[1] = count(); } interval:10m { exit(1); } interval:1ms { @[1] = count(); }",
    ],
)
def test_an_interval_fires_wherever_it_stands(run, script):
    result = run(script, "sleep 0.2")
    assert result.maps["@"][1] >= 2


def test_an_interval_fires_on_an_idle_cpu(run):
    """The clock goes on where nothing runs: perf's cpu-clock may not, on some idle CPUs."""
    script = """interval:10ms {
        if (!t["first"]) { t["first"] = time; }
        t["last"] = time; @[1] = count();
    }"""
    maps = run(script, "sleep 0.5").maps
    passed = (maps["t"]["last"] - maps["t"]["first"]) / 10e6
    assert passed / 2 <= maps["@"][1] <= passed + 2


def test_a_profile_samples_all_cpus(run):
    from pybpf.kernel.maps import online_cpus

    burn = "timeout 0.5 taskset -c {} sh -c 'while :; do :; done' &"
    script = "profile:200hz { @[cpu] = count(); }"
    command = " ".join([*map(burn.format, online_cpus()), "wait"])
    assert set(run(script, command).maps["@"]) == set(online_cpus())


def test_arrays_by_cpu_and_stack_count_what_a_hash_counts(run, hammer):
    script = f"""{HAMMERED} {{
        @cpus[cpu] = count(); @stacks[stack] = count(); @hash[stack, cpu, pid] = count();
    }}"""
    maps = run(script, hammer(2, 300)).maps
    assert sum(maps["@cpus"].values()) == sum(maps["@hash"].values()) > 0
    assert sum(maps["@stacks"].values()) == sum(maps["@hash"].values())
    assert set(maps["@cpus"]) == {cpu for _, cpu, _ in maps["@hash"]}
    assert set(maps["@stacks"]) == {stack for stack, _, _ in maps["@hash"]}
    assert all(maps["@stacks"])


def test_a_profile_of_one_cpu(run):
    from pybpf.kernel.maps import online_cpus

    cpu = online_cpus()[-1]
    script = f"profile:{cpu}:500hz {{ @[cpu] = count(); }}"
    command = f"timeout 0.3 taskset -c {cpu} sh -c 'while :; do :; done'"
    assert set(run(script, command).maps["@"]) == {cpu}


def test_a_pattern_is_as_many_tracepoints(run, hammer):
    script = """tracepoint:syscalls/sys_*_getppid / !strcmp(comm, $hammer) / {
        @[data->__syscall_nr] = count();
    }"""
    result = run(script, hammer(1, 100))
    assert all(result.all_but_misses(counted, 200) for counted in result.maps["@"].values())


def test_the_command_is_traced_from_the_system_call_that_starts_it(run):
    script = """tracepoint:syscalls/sys_enter_execve / pid == $target / { @[1] = count(); }
        tracepoint:syscalls/sys_exit_execve / pid == $target / { @[2] = count(); }"""
    assert run(script, "/bin/ls -d / >/dev/null").maps["@"] == {1: 2, 2: 2}
    assert run(script, "ls /dev/null").maps["@"] == {1: 1, 2: 1}


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("blocks", [False, True])
def test_many_lines_come_complete_and_in_order(run, hammer, blocks, old):
    script = "BEGIN { n[0] = 0; } " + HAMMERED + '{ n[0] = n[0] + 1; printf("%d\\n", n[0]); }'
    result = run(script, hammer(1, 3000), blocks=blocks, old=old)
    assert any(isinstance(row, Block) for row in result.rows) == blocks
    lines = result.printed.splitlines()
    assert lines == [str(i) for i in range(1, len(lines) + 1)]
    assert result.all_but_misses(len(lines), 3000)


@pytest.mark.parametrize("blocks", [False, True])
def test_nothing_is_printed_after_an_exit_among_many_lines(run, hammer, blocks):
    script = (
        "BEGIN { n[0] = 0; } "
        + HAMMERED
        + "{ n[0] = n[0] + 1; print(n[0]); if (n[0] == 1500) { exit(3); } print(n[0]); }"
    )
    result = run(script, hammer(1, 3000), blocks=blocks)
    assert result.printed.split() == [str(i // 2) for i in range(2, 3001)]
    assert result.ending == Ending(code=3)


@pytest.mark.parametrize("blocks", [False, True])
def test_lost_records_are_counted_exactly(run, hammer, blocks):
    script = HAMMERED + '{ @[1] = count(); printf("%d %d\\n", pid, time); }'
    result = run(script, hammer(2, 20_000), buffer_size=4096, blocks=blocks)
    printed = result.printed.count("\n")
    emitted = result.maps["@"][1]
    assert result.all_but_misses(emitted, 40_000)
    assert 0 < printed < emitted
    assert result.lost == {None: emitted - printed}
    assert (result.status, result.ending) == (0, Ending(child=True))


def test_lost_records_of_perf_buffers_are_counted_exactly(run, hammer):
    """Kernels before 5.8 have no BPF ring buffers."""
    script = HAMMERED + '{ @[1] = count(); printf("%d %d\\n", pid, time); }'
    result = run(script, hammer(2, 20_000), buffer_size=4096, old=True)
    printed = result.printed.count("\n")
    emitted = result.maps["@"][1]
    assert result.all_but_misses(emitted, 40_000)
    assert 0 < printed < emitted
    assert result.lost == {None: emitted - printed}


def test_perf_buffers_lose_nothing_where_there_is_room(run, hammer):
    script = HAMMERED + "{ print(1); }"
    result = run(script, hammer(2, 1000), strict=True, old=True)
    assert set(result.printed.splitlines()) == {"1"}
    assert result.all_but_misses(result.printed.count("\n"), 2000)


def test_strict_runs_end_when_records_are_lost(run, hammer):
    script = HAMMERED + '{ @[1] = count(); printf("%d %d\\n", pid, time); }'
    result = run(script, hammer(2, 1_000_000), buffer_size=4096, strict=True)
    assert result.printed.count("\n") + result.lost[None] == result.maps["@"][1] < 2_000_000
    assert result.status == 1
    assert result.ending == Ending(lost=result.lost[None])


FLOOD = "print(str(0, 400)); " * 16


@pytest.mark.parametrize(
    ("script", "status"),
    [("", 1), ("END { exit(0); }", 1), ("END { exit(3); }", 3)],
)
def test_a_strict_run_that_lost_records_is_no_success(run, script, status):
    """Even where the loss shows only when all is over: here BEGIN lost them."""
    result = run(f"BEGIN {{ {FLOOD} }} {script}", "true", buffer_size=4096, strict=True)
    assert result.status == status
    assert result.printed.count("\n") + result.lost[None] == 16


def test_an_exit_with_status_0_does_not_hide_lost_records(run):
    result = run(f"END {{ {FLOOD} }} BEGIN {{ exit(0); }}", buffer_size=4096, strict=True)
    assert (result.status, result.ending.code) == (1, 0)
    assert result.printed.count("\n") + result.ending.lost == 16


def test_updates_that_a_full_map_refuses_are_counted_exactly(run):
    keys = " ".join(
        f"m[{i}] = 1; @c[pid + {i}] = count(); @c[pid + {i}] = count();" for i in range(15)
    )
    result = run(f"BEGIN {{ {keys} exit(0); }}", map_entries=10)
    assert {name: len(entries) for name, entries in result.maps.items()} == {"m": 10, "@c": 10}
    assert result.lost == {"m": 5, "@c": 10}
    assert result.status == 0


def test_updates_after_a_delete_find_room(run):
    result = run(
        "BEGIN { m[1] = 1; m[2] = 1; m[3] = 1; delete m[1]; m[4] = 1; exit(0); }", map_entries=2
    )
    assert (result.maps, result.lost) == ({"m": {2: 1, 4: 1}}, {"m": 1})


def test_events_that_come_while_another_program_runs_are_counted_as_misses(run, hammer):
    """A record that wakes the reader does so by an interrupt, in the middle of the program."""
    script = HAMMERED + "{ print(1); } tracepoint:irq_vectors/irq_work_entry { @[1] = count(); }"
    try:
        result = run(script, hammer(1, 300, 0.001))
    except SourceError as error:
        pytest.skip(str(error))
    if not result.misses:
        pytest.skip("this kernel does not count them (Linux 6.7)")
    assert result.maps["@"][1] < 300


def test_walltime_and_time_are_now(run):
    before = time.monotonic_ns()
    result = run("BEGIN { m[0] = time; exit(0); }")
    assert before < result.maps["m"][0] < time.monotonic_ns()


def test_the_run_ends_at_the_time_limit_without_an_ending(run):
    result = run("interval:1ms { @[1] = count(); } END { m[1] = 1; }", timeout=0.1)
    assert (result.ending, result.status) == (None, 0)
    assert set(result.maps) == {"@", "m"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_are_not_caught_unless_asked_for(number):
    target = LiveTarget()
    before = signal.getsignal(number)
    with Session(compile_script("BEGIN { exit(0); }", target), target):
        assert signal.getsignal(number) is before
    with Session(
        compile_script("END { m[0] = 1; }", target), target, catch_signals=True
    ) as session:
        assert signal.getsignal(number) is not before
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        assert list(session.rows()) == []
        assert session.ending == Ending(signal=number)
        assert session.status == (1 if number == signal.SIGINT else 128 + number)
        assert [row.name for row in session.finish()] == ["m"]
    assert signal.getsignal(number) is before
    assert signal.set_wakeup_fd(-1) == -1


def test_a_session_runs_in_any_thread(run):
    results = []
    thread = threading.Thread(
        target=lambda: results.append(run("interval:1ms { exit(4); }", "sleep 10"))
    )
    thread.start()
    thread.join()
    assert results[0].status == 4
