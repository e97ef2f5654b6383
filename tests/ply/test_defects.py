"""What C ply 2.4 does wrong, and what is right: C, awk and bpftrace say what that is.

A test, or the id of a case, is called after the defect. Defects of kprobes: tests/guest.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pybpf.compiler.dump import dump
from pybpf.kernel.maps import online_cpus
from pybpf.source import Source

ROOT = Path(__file__).parents[2]

live = pytest.mark.kernel


# --- what the compiler had no room for ------------------------------------------------------------


def deep(levels):
    return "pid + (" * levels + "1" + ")" * levels


ROOM = [
    pytest.param(f"a[0] = {deep(4)};", "", id="four deep"),
    pytest.param(f"a[0] = {deep(60)};", "", id="sixty deep"),
    pytest.param("a[0] = (((pid+1)*(uid+2))+((gid+3)*(cpu+4)))"
                 "*(((pid+5)*(uid+6))+((gid+7)*(cpu+8)));",
                 "", id="a tree"),
    pytest.param("print(1); " * 100, "1\n" * 100, id="100 prints"),
    pytest.param("a[1] = 1; " * 300, "", id="300 stores"),
    pytest.param('printf("%s\\n", "x"); ' + "@[pid, comm] = count(); " * 60, "x\n", id="60 keys"),
    pytest.param("print(str(0), str(0), str(0), str(0));", ", ".join([" " * 127] * 4) + "\n",
                 id="four strings"),
    pytest.param("@a[1] = quantize(time); @b[1] = quantize(time); @c[1] = quantize(1); "
                 "@d[1] = quantize(2);", "", id="four histograms"),
    pytest.param(f'@["{"k" * 1000}"] = count();', "", id="key of 1000 bytes"),
    pytest.param(f"@[{', '.join(['comm'] * 33)}] = count();", "", id="key of 33 parts"),
    pytest.param('printf("<%s>\\n", str(0, 512)); m[1] = str(0, 512);', "<>\n", id="str of 512"),
    pytest.param(f'print("{"y" * 600}");', "y" * 600 + "       \n", id="string of 600 bytes"),
    pytest.param(f'printf("{"z" * 6000}\\n");', "z" * 6000 + "\n", id="format of 6000 bytes"),
    pytest.param("if (1) " * 200 + "print(1);", "1\n", id="200 ifs"),
    pytest.param("if (pid) { " * 100 + "print(1);" + " }" * 100, "1\n", id="100 branches"),
    pytest.param("".join(f"m{i}[1] = {i}; " for i in range(40)), "", id="40 maps"),
]  # fmt: skip


@pytest.mark.parametrize(("statements", "text"), ROOM)
@live
def test_room(run, statements, text):
    done = run(f"BEGIN {{ {statements} exit(0); }}")
    assert done.printed == text
    assert all(done.maps.values())


def test_thousands_of_parentheses_exhausted_memory(vm):
    assert vm(f"BEGIN {{ print({'(' * 20_000}1{')' * 20_000}); }}") == "1\n"


@pytest.mark.parametrize(
    "script",
    ["BEGIN {}", "BEGIN / 4/2 / { }", "END", "tracepoint:sched/sched_switch {}",
     "interval:1s {}", "profile:1hz {}", "tracepoint:sched/sched_* / 1 / {}"],
)  # fmt: skip
@live
def test_probes_that_do_nothing_did_not_load(run, script):
    assert run(f"{script} BEGIN {{ exit(0); }}").status == 0


def test_programs_returned_whatever_was_in_r0(target_612):
    script = "BEGIN { m[1] = pid; } tracepoint:sched/sched_switch { print(1); } profile:1hz {}"
    code = dump(Source("s", script), target_612, "asm")
    ends = re.findall(r"^.*\n(?=\s*(?:\S+\s+)?exit$)", code, re.MULTILINE)
    assert ends
    assert all("r0 = 0" in end for end in ends), ends


# --- counting -------------------------------------------------------------------------------------


@pytest.fixture
def writers(tmp_path):
    """Return a function: the name and command of a dd on each CPU that writes so many bytes."""

    def writers(times):
        name = f"dd{os.getpid()}"
        shutil.copy(shutil.which("dd"), tmp_path / name)
        dd = f"{tmp_path / name} if=/dev/zero of=/dev/null bs=1 count={times} status=none"
        cpus = online_cpus()
        return name, "".join(f"taskset -c {cpu} {dd} & " for cpu in cpus) + "wait", len(cpus)

    return writers


@live
def test_count_loses_no_update(run, writers):
    """Nor do sum and quantize; ply lost up to one in a hundred."""
    name, command, cpus = writers(20_000)
    done = run(
        "tracepoint:syscalls/sys_enter_write / !strcmp(comm, $name) / {"
        " @n[1] = count(); @s[1] = sum(data->count); @q[1] = quantize(data->count);"
        " @c[cpu] = count(); @ = count(); }",
        command,
        environment={"name": name},
    )
    (known,) = {
        done.maps["@n"][1],
        done.maps["@s"][1],
        done.maps["@q"][1][0][2],
        *done.maps["@"].values(),
    }
    assert known == sum(done.maps["@c"].values())
    assert cpus * 20_000 - done.misses <= known <= cpus * 20_000


@live
def test_full_maps_lost_updates_in_silence(ply):
    stores = "".join(f"m[pid + {i}] = 1; @[pid + {i}] = count(); " for i in range(8))
    said = ply("--map-size", 5, f"BEGIN {{ {stores} exit(0); }}")
    assert (said.status, said.out.count("}: ")) == (0, 10)
    assert said.err == "".join(
        f"warning: 3 updates of {name} lost: the map is full (--map-size)\n" for name in ("m", "@")
    )


@live
def test_maps_held_1024_entries(run):
    done = run(
        "tracepoint:syscalls/sys_enter_write / pid == $target / { n = n + 1; m[n] = 1; }",
        "dd if=/dev/zero of=/dev/null bs=1 count=2000 status=none",
    )
    assert len(done.maps["m"]) == 2000
    assert done.lost == {}


# --- output and the end ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "exits",
    ["BEGIN { exit(3); }", "interval:1ms { exit(3); }",
     "tracepoint:sched/sched_switch { exit(3); }", "profile:1000hz { exit(3); }"],
)  # fmt: skip
@live
def test_output_after_exit_in_end(run, exits):
    done = run(f'{exits} END {{ printf("end\\n"); m[1] = 2; }}')
    assert (done.printed, done.maps, done.status) == ("end\n", {"m": {1: 2}}, 3)


@live
def test_exit_in_end_was_ignored(run):
    assert run("END { exit(5); }", "true").status == 5


@live
def test_the_end_of_the_command_with_data_hangs(run):
    script = 'BEGIN { printf("x\\n"); } interval:1ms { printf("y\\n"); }'
    for _ in range(20):
        lines = run(script, "sleep 0.02").lines
        assert (lines[0], set(lines[1:])) == ("x", {"y"})


@pytest.mark.parametrize(
    "before",
    [
        "tracepoint:syscalls/sys_enter_write / pid == $target / { @e[1] = count(); }",
        "profile:99hz { @e[1] = count(); }",
        "interval:10m { @e[1] = count(); }",
    ],
)
@live
def test_interval_after_tracepoint_fires(run, before):
    assert run(f"{before} interval:10ms {{ @[1] = count(); }}", "sleep 0.1").maps["@"][1] >= 3


def children():
    return Path("/proc/thread-self/children").read_text().split()


@live
def test_the_command_of_a_faulty_script_stayed(ply):
    before = children()
    said = ply("-c", "sleep 1000", "BEGIN { print(nosuch); }")
    assert (said.status, said.out) == (1, "")
    assert said.err.startswith("<script>:1:15: error: unknown variable 'nosuch' in BEGIN\n")
    assert children() == before


@live
def test_the_command_outlived_the_script(run):
    before = children()
    assert run("interval:10ms { exit(2); }", "sleep 1000").status == 2
    assert children() == before


FLOOD = "print(str(0, 400)); " * 16


@live
def test_lost_output_was_a_success(ply):
    """Without a word, even: here all is lost in BEGIN that does not fit the buffer."""
    said = ply("--buffer", 4096, f"BEGIN {{ {FLOOD} exit(0); }}")
    came = said.out.count("\n")
    assert (said.status, 0 < came < 16) == (1, True)
    assert said.err == (
        f"warning: {16 - came} records lost; a bigger --buffer may help\n"
        "error: records were lost, so the output is not complete\n"
        "  hint: -k goes on all the same\n"
    )


@live
def test_losses_are_counted_exactly_with_k(ply, writers):
    name, command, _ = writers(3000)
    said = ply(
        "-k", "--buffer", 4096, "-c", command,
        f'tracepoint:syscalls/sys_enter_write / !strcmp(comm, "{name}") /'
        '{ @[1] = count(); printf("E\\n"); }',
    )  # fmt: skip
    counted = int(re.search(r"^\{ 1 \}: (\d+)$", said.out, re.MULTILINE)[1])
    lost = re.search(r"^warning: (\d+) records? lost", said.err, re.MULTILINE)
    assert said.out.count("E\n") + int(lost[1] if lost else 0) == counted
    assert said.status == 0


@live
def test_records_of_two_cpus_changed_places(run, tmp_path):
    """Two programs take turns, each on a CPU of its own."""
    first, last = online_cpus()[0], online_cpus()[-1]
    for name in "ab":
        shutil.copy(shutil.which("true"), tmp_path / name)
    turn = f"taskset -c {first} {tmp_path}/a; taskset -c {last} {tmp_path}/b; "
    done = run(
        f'tracepoint:sched/sched_process_exec / !strcmp(data->filename, "{tmp_path}/a")'
        f' || !strcmp(data->filename, "{tmp_path}/b") /'
        "{ print(comm); }",
        turn * 20,
    )
    assert [line.rstrip() for line in done.lines] == ["a", "b"] * 20


@live
def test_profile_began_before_begin(run):
    done = run("profile:1000hz / !ready / { @early = count(); } BEGIN { ready = 1; }", "sleep 0.1")
    assert done.maps["@early"] == {}


@live
def test_aggregations_in_between(run):
    done = run("interval:20ms { @ = count(); n = n + 1; print(@); clear(@); if (n == 3) exit(0); }")
    shown = [int(line.removeprefix("@: ")) for line in done.lines if line]
    # Without clear, the sum would be 1 + 2 + 3. Where we come late, a tick is cleared unseen.
    assert 0 < sum(shown) <= 3


@live
def test_intervals_of_a_nanosecond(run):
    done = run("interval:1ns { @ = count(); }", "sleep 0.05")
    assert sum(done.maps["@"].values()) > 10


# --- the command line -----------------------------------------------------------------------------


def test_a_dry_run_of_a_good_script_failed(ply):
    said = ply("-e", "BEGIN { exit(3); }")
    assert (said.status, said.out, said.err) == (0, "", "")


def test_errors_went_to_standard_output_as_numbers(ply):
    said = ply("-e", "BEGIN { print(1) print(2); }")
    assert (said.status, said.out) == (1, "")
    first, *_ = said.err.splitlines()
    assert first == "<script>:1:18: error: unexpected 'print', expected ';'"
    assert "ERR" not in said.err


@live
def test_what_stood_behind_the_script_was_ignored(ply):
    assert ply('BEGIN { printf("%s %d\\n", $1, $2); exit($2); }', "a", "7").out == "a 7\n"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (
            "/no/such.ply",
            (
                "error: there is no file '/no/such.ply', and it is no script either\n"
                "  hint: a script has probes, as in 'kprobe:vfs_read { @[comm] = count(); }'\n"
            ),
        ),
        ("/tmp", "error: /tmp is a directory, not a script\n"),
    ],
    ids=["a file that is none was a script", "a directory crashed the scanner"],
)
def test_files(ply, argument, message):
    said = ply("-e", argument)
    assert (said.status, said.out, said.err) == (1, "", message)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@live
def test_sigterm_lost_the_output(number):
    script = 'BEGIN { printf("begun\\n"); m[1] = 2; } END { printf("end\\n"); }'
    with subprocess.Popen(
        [sys.executable, "-m", "pybpf", "run", "-u", script],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        assert process.stdout.read() == "end\n\nm:\n{ 1 }: 2\n"
    assert process.returncode == 128 + number


# --- symbols --------------------------------------------------------------------------------------


@live
def test_stacks_had_wrong_names(run):
    """ply knows only what ftrace can trace: it takes the rest for what lies before it."""
    done = run(
        "tracepoint:sched/sched_process_exec / pid == $target / { @[stack] = count(); }",
        "/bin/true",
    )
    (stack,) = done.maps["@"]
    names = [frame.partition("+")[0] for frame in stack]
    assert names[-2:] == ["do_syscall_64", "entry_SYSCALL_64_after_hwframe"]
    assert all(int(frame.partition("+")[2] or 0) < 1 << 16 for frame in stack)


@live
def test_nothing_is_cached(run):
    cache = Path("/var/tmp/ply-ksyms")
    before = cache.exists()
    run("BEGIN { print(stack); exit(0); }")
    assert cache.exists() == before
