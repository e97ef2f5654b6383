"""pybpf.trace: a script from Python; rows as they come, maps as dicts."""

import json
import os
import threading
import time

import pytest

import pybpf
from pybpf.compiler.pipeline import Options
from pybpf.errors import SourceError
from pybpf.rows import ExitRow, LostRow, MapRow, PrintfRow, PrintRow
from pybpf.session import Ending

pytestmark = pytest.mark.kernel

TICKS = 'interval:1ms { printf("tick\\n"); }'


def texts(t, rows):
    return [t.text(row) for row in rows]


def test_rows_come_until_the_script_exits():
    with pybpf.trace('BEGIN { printf("a\\n"); print(1, "b"); exit(3); print(2); }') as t:
        rows = list(t.rows())
        assert [type(row) for row in rows] == [PrintfRow, PrintRow, ExitRow]
        assert texts(t, rows) == ["a\n", "1, b      \n", ""]
        assert rows[-1] == ExitRow(3)
        assert t.ending == Ending(code=3)
        assert list(t.rows()) == []


def test_rows_come_until_the_command_ends():
    script = 'tracepoint:syscalls/sys_enter_execve / pid == $target / { printf("started\\n"); }'
    with pybpf.trace(script, command="true x") as t:
        assert "started\n" in texts(t, t.rows())
        assert t.ending == Ending(child=True)


def test_rows_come_until_the_time_is_up():
    with pybpf.trace(TICKS) as t:
        for _ in range(3):
            before = time.monotonic()
            assert set(texts(t, t.rows(timeout=0.05))) == {"tick\n"}
            assert time.monotonic() - before >= 0.05
            assert t.ending is None


def test_no_time_is_enough_for_what_is_there():
    with pybpf.trace('BEGIN { printf("a\\n"); }') as t:
        assert texts(t, t.rows(timeout=0)) == ["a\n"]
        assert texts(t, t.rows(timeout=0)) == []


def test_rows_that_were_left_are_not_lost():
    """Whoever stops in the middle gets the rest by the next call, or at the end."""
    script = "BEGIN { " + "".join(f'printf("{i}\\n"); ' for i in range(6)) + "}"
    with pybpf.trace(script) as t:
        for row in t.rows():
            assert t.text(row) == "0\n"
            break
        assert t.text(next(t.rows())) == "1\n"
        assert texts(t, t.rows(timeout=0)) == ["2\n", "3\n", "4\n", "5\n"]
    with pybpf.trace(script) as t:
        next(t.rows())
        assert texts(t, t.finish()) == ["1\n", "2\n", "3\n", "4\n", "5\n"]


def test_live_rows_that_were_left_are_not_lost():
    script = """interval:1ms { n["last"] = n["last"] + 1; printf("%d\\n", n["last"]); }
        BEGIN { n["last"] = 0; }"""
    with pybpf.trace(script) as t:
        seen = [t.text(next(t.rows())) for _ in range(5)]
        time.sleep(0.01)
        seen += [t.text(next(t.rows())) for _ in range(5)]
        seen += [t.text(row) for row in t.finish() if isinstance(row, PrintfRow)]
    assert seen == [f"{i}\n" for i in range(1, len(seen) + 1)]


def test_live_rows_that_were_left_are_not_waited_for():
    """The run has nothing more to wait for: what was left is all there will ever be."""
    script = """tracepoint:syscalls/sys_enter_getppid / pid == $me / {
        printf("a\\n"); printf("b\\n"); exit(5);
    }"""
    with pybpf.trace(script, environment={"me": str(os.getpid())}) as t:
        os.getppid()
        assert [t.text(next(t.rows())) for _ in range(3)] == ["a\n", "b\n", ""]
        assert list(t.rows()) == []
        assert t.ending == Ending(code=5)


def test_finish_yields_what_is_left():
    with pybpf.trace('BEGIN { @["x"] = count(); } END { printf("end\\n"); exit(2); }') as t:
        assert list(t.rows(timeout=0)) == []
        rows = list(t.finish())
        assert [type(row) for row in rows] == [PrintfRow, ExitRow, MapRow]
        assert list(t.finish()) == []


MAPS = """BEGIN {
    m["a", 1] = "text"; @n[7] = count(); @n[7] = count(); @s["k"] = sum(-5);
    @q[0] = quantize(100); e[1] = 2; delete e[1]; p[pid] = comm; exit(0);
}"""


def test_maps_are_dicts():
    with pybpf.trace(MAPS) as t:
        assert t.maps["m"] == {("a", 1): "text"}
        assert t.maps["@n"] == {7: 2}
        assert t.maps["@s"] == {"k": -5}
        assert t.maps["@q"] == {0: [[64, 127, 1]]}
        assert t.maps["e"] == {}
        assert list(t.maps["p"]) == [os.getpid()]
        assert list(t.maps) == ["m", "@n", "@s", "@q", "e", "p"]
        assert len(t.maps) == 6
        assert "m" in t.maps
        assert "x" not in t.maps
        with pytest.raises(KeyError):
            t.maps[".events"]


def test_maps_are_read_when_they_are_asked_for():
    with pybpf.trace("interval:1ms { @[1] = count(); }") as t:
        list(t.rows(timeout=0.02))
        first = t.maps["@"][1]
        list(t.rows(timeout=0.02))
        assert t.maps["@"][1] > first > 0


def test_arrays_as_keys_are_tuples():
    script = """tracepoint:raw_syscalls/sys_enter / pid == $target && data->id == 39 / {
        m[data->args] = 1;
    }"""
    command = "python3 -c 'import ctypes; ctypes.CDLL(None).syscall(39, 1, 2, 3, 4, 5, 6)'"
    if os.uname().machine != "x86_64":
        pytest.skip("39 is getpid on x86-64")
    with pybpf.trace(script, command=command) as t:
        list(t.rows())
        assert (1, 2, 3, 4, 5, 6) in t.maps["m"]


def test_json_lines():
    with pybpf.trace('BEGIN { print(1, "x"); exit(0); }') as t:
        (row, end) = t.rows()
        assert json.loads(t.json(row)) == {"event": "print", "values": [1, "x"]}
        assert json.loads(t.json(end)) == {"event": "exit", "code": 0}


def test_the_environment_adds_to_that_of_the_process(monkeypatch):
    monkeypatch.setenv("OUTSIDE", "o")
    script = 'BEGIN { printf("%s %s %d\\n", $OUTSIDE, $word, $target > 0); exit(0); }'
    with pybpf.trace(script, command="true", environment={"word": "w"}) as t:
        assert next(texts_of(t)) == "o w 1\n"


def texts_of(t):
    return (t.text(row) for row in t.rows())


def test_options_and_losses():
    keys = "".join(f"m[{i}] = 1; " for i in range(5))
    options = Options(map_entries=2, buffer_size=4096)
    with pybpf.trace(f"BEGIN {{ {keys} exit(0); }}", options=options) as t:
        rows = [*t.rows(), *t.finish()]
        assert len(t.maps["m"]) == 2
        assert LostRow(3, "m") in rows


def test_strict_runs_end_when_records_are_lost():
    flood = "BEGIN { " + "print(str(0, 400)); " * 16 + "}"
    options = Options(buffer_size=4096)
    with pybpf.trace(flood, options=options, strict=True) as t:
        printed = len(list(t.rows()))
        assert t.ending == Ending(lost=16 - printed)
    with pybpf.trace(flood, options=options) as t:
        assert len(list(t.rows(timeout=0.01))) == printed
        assert t.ending is None
        assert list(t.finish()) == [LostRow(16 - printed)]


def test_a_faulty_script_raises():
    with pytest.raises(SourceError) as error, pybpf.trace("BEGIN { cuont(); }", command="true"):
        pytest.fail("it was compiled")
    assert "did you mean 'count'?" in str(error.value)


def test_the_same_trace_again():
    t = pybpf.trace("BEGIN { @[1] = count(); exit(1); }", command="true")
    for _ in range(2):
        with t:
            assert list(t.rows()) == [ExitRow(1)]
            assert t.maps["@"] == {1: 1}


def test_runs_in_many_threads():
    def work(number):
        with pybpf.trace(f"interval:1ms {{ @[{number}] = count(); exit({number}); }}") as t:
            list(t.rows())
            endings[number] = t.ending, list(t.maps["@"])

    endings = {}
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert endings == {i: (Ending(code=i), [i]) for i in range(4)}
