"""pybpf run on this kernel, as a process of its own: output, signals, and what is left of it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.kernel

TICKS = 'interval:20ms { print("tick"); @[1] = count(); } END { print("end"); }'
LOOP = f"{sys.executable} -I -S -c 'import os\nwhile True: os.getppid()'"


def test_a_script_runs_and_prints_its_maps(pybpf):
    said = pybpf("run", 'BEGIN { printf("a %d\\n", 7); m["x", 1] = 2; exit(3); }')
    assert (said.status, said.out, said.err) == (3, "a 7\n\nm:\n{ x      , 1 }: 2\n", "")


def test_a_script_in_a_file_with_arguments(pybpf, tmp_path):
    path = tmp_path / "script.ply"
    path.write_text(
        '#!/usr/bin/env -S pybpf run\nBEGIN { printf("%s %d\\n", $1, $2); exit($2); }\n'
    )
    assert pybpf("run", path, "word", "-k", "5").out == "word 5\n"


def test_a_script_from_standard_input(start):
    process = start("run", "-", stdin=subprocess.PIPE)
    process.stdin.write("BEGIN { exit(4); }")
    assert process.end().status == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_the_run_with_end_and_maps(start, objects_of, gone, ended, tmp_path, number):
    child = tmp_path / "child"
    process = start(
        "run", "-c", f"echo $$ > {child}.new; mv {child}.new {child}; exec sleep 1000", TICKS
    )
    assert process.stdout.readline() == "tick   \n"
    wait_for(child.exists)
    objects = objects_of(process.pid)
    assert {kind for kind, _ in objects} == {"prog", "map", "link"}
    said = process.end(number)
    assert said.status == (1 if number == signal.SIGINT else 128 + number)
    lines = [line for line in said.out.splitlines() if line != "tick   "]
    assert lines[:4] == ["end    ", "", "@:", f"{{ 1 }}: {said.out.count('tick') + 1}"]
    assert said.err == ""
    assert gone(objects)
    assert ended(int(child.read_text()))


def test_a_kill_leaves_nothing(start, objects_of, gone, ended, tmp_path):
    child = tmp_path / "child"
    process = start(
        "run", "-c", f"echo $$ > {child}.new; mv {child}.new {child}; exec sleep 1000", TICKS
    )
    process.stdout.readline()
    wait_for(child.exists)
    objects = objects_of(process.pid)
    mounts = kernel_mounts()
    assert process.end(signal.SIGKILL).status == -signal.SIGKILL
    assert gone(objects)
    assert ended(int(child.read_text()))
    assert kernel_mounts() == mounts


def kernel_mounts():
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line for line in lines if line.split()[2] in {"tracefs", "debugfs", "bpf"}]


def test_a_signal_before_the_run_leaves_nothing(start, tmp_path, ended):
    """A script of many probes takes a while to compile."""
    script = "tracepoint:syscalls/sys_enter_* { @[1] = count(); print(data->__syscall_nr); } " * 3
    process = start("run", "-c", f"touch {tmp_path}/ran", script)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    child = wait_for(lambda: children.read_text().split())
    said = process.end(signal.SIGINT)
    assert (said.status, said.out, said.err) == (130, "", "")
    assert ended(int(child[0]))
    assert not (tmp_path / "ran").exists()


def wait_for(read):
    until = time.monotonic() + 30
    while not (found := read()):
        assert time.monotonic() < until
        time.sleep(0.005)
    return found


def test_a_second_signal_interrupts_who_waits_for_a_reader(start):
    """The output is stuck in a full pipe; the run has no other way out."""
    script = f'interval:10ms {{ print("{"x" * 400}"); }} END {{ exit(0); }}'
    process = start("run", script)
    wait_for(lambda: "pipe_write" in Path(f"/proc/{process.pid}/wchan").read_text())
    process.send_signal(signal.SIGINT)
    time.sleep(1.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130


def test_lines_arrive_while_the_run_goes_on(start):
    process = start("run", 'interval:20ms { print("tick"); }')
    for _ in range(3):
        assert process.stdout.readline() == "tick   \n"
    assert process.poll() is None


def test_a_reader_that_goes_away_ends_the_run(start):
    process = start("run", 'interval:20ms { print("tick"); }')
    process.stdout.readline()
    process.stdout.close()
    said = process.end()
    assert (said.status, said.err) == (1, "")


def test_unbuffered_lines_are_written_one_by_one(start, tmp_path):
    trace = tmp_path / "strace"
    if subprocess.run(["strace", "-V"], capture_output=True, check=False).returncode:
        pytest.skip("strace is not installed")
    script = 'BEGIN { print("a"); print("b"); print("c"); exit(0); }'
    counts = []
    for options in ([], ["-u"]):
        before = ["strace", "-o", trace, "-e", "trace=write"]
        start("run", *options, script, before=before).end()
        counts.append(len(re.findall(r"^write\(1, ", trace.read_text(), re.MULTILINE)))
    assert counts == [1, 3]


def test_lost_records_end_a_run(start):
    script = "tracepoint:syscalls/sys_enter_getppid / pid == $target / { print(time, comm, comm); }"
    said = start("run", "--buffer", 4096, "-c", LOOP, script).end()
    assert said.status == 1
    assert re.fullmatch(
        r"warning: [0-9]+ records? lost; a bigger --buffer may help\n"
        r"error: records were lost, so the output is not complete\n"
        r"  hint: -k goes on all the same\n",
        said.err,
    )


def test_lost_records_do_not_end_a_run_that_keeps_going(start):
    script = """tracepoint:syscalls/sys_enter_getppid / pid == $target / {
        @[1] = count(); printf("%d %s\\n", time, comm);
    }"""
    command = f"{sys.executable} -I -S -c 'import os\nfor _ in range(50_000): os.getppid()'"
    said = start("run", "-k", "--buffer", 4096, "--format", "json", "-c", command, script).end()
    rows = [json.loads(line) for line in said.out.splitlines()]
    (lost,) = [row["records"] for row in rows if row["event"] == "lost"]
    (entries,) = [row["entries"] for row in rows if row["event"] == "map"]
    printed = sum(row["event"] == "printf" for row in rows)
    assert printed + lost == entries[0]["value"] >= 50_000
    assert (said.status, said.err) == (0, "")


def test_a_full_map_is_a_warning(pybpf):
    stores = "".join(f"m[{i}] = {i}; " for i in range(20))
    said = pybpf("run", "--map-size", "5", f"BEGIN {{ {stores} exit(0); }}")
    assert (said.status, said.out.count("}: ")) == (0, 5)
    assert said.err == "warning: 15 updates of m lost: the map is full (--map-size)\n"


@pytest.mark.parametrize(("number", "said_of_it"), [(1, "1 event"), (3, "3 events")])
def test_skipped_events_are_a_warning(pybpf, monkeypatch, number, said_of_it):
    from pybpf.session import Session

    monkeypatch.setattr(Session, "recursion_misses", lambda _self: number)
    said = pybpf("run", "BEGIN { exit(0); }")
    reason = "came while another program ran on that CPU: the kernel skipped them"
    assert (said.status, said.err) == (0, f"warning: {said_of_it} {reason}\n")


def test_json_lines(pybpf):
    script = """BEGIN {
        printf("%s\\n", "x"); print(1, "two", -3); m["k", 2] = 5; @[1] = quantize(9); print(m);
        @c["a"] = count(); exit(6);
    }"""
    said = pybpf("run", "--format", "json", script)
    assert [json.loads(line) for line in said.out.splitlines()] == [
        {"event": "printf", "text": "x\n"},
        {"event": "print", "values": [1, "two", -3]},
        {
            "event": "print",
            "values": [{"name": "m", "entries": [{"key": ["k", 2], "value": 5}]}],
        },
        {"event": "exit", "code": 6},
        {"event": "map", "name": "m", "entries": [{"key": ["k", 2], "value": 5}]},
        {"event": "map", "name": "@", "entries": [{"key": [1], "value": [[8, 15, 1]]}]},
        {"event": "map", "name": "@c", "entries": [{"key": ["a"], "value": 1}]},
    ]
    assert (said.status, said.err) == (6, "")


def test_walltime_is_the_time_of_day(pybpf):
    before = time.time()
    said = pybpf("run", "BEGIN { print(walltime); exit(0); }")
    shown = said.out.partition(".")[0]
    assert shown in {time.strftime("%H:%M:%S", time.localtime(before + i)) for i in range(60)}


def test_a_dump_precedes_the_run(pybpf):
    said = pybpf("run", "-S", 'BEGIN { print("x"); exit(0); }')
    assert re.findall(r"^-- (.+)$", said.out, re.MULTILINE) == ["types", "ir", "asm"]
    assert said.out.endswith("    exit\nx      \n")


def test_a_dry_run_compiles_only(pybpf, tmp_path):
    mark = tmp_path / "ran"
    said = pybpf("run", "-e", "-c", f"touch {mark}", 'BEGIN { print("x"); }')
    assert (said.status, said.out, said.err) == (0, "", "")
    assert not mark.exists()


def test_debug_says_when_all_is_attached(pybpf):
    said = pybpf("run", "-d", "BEGIN { exit(0); }")
    assert (said.status, said.err) == (0, "debug: attached; not verified before: the kernel did\n")


def test_the_environment_and_the_target_are_known(pybpf, monkeypatch):
    monkeypatch.setenv("WORD", "here")
    monkeypatch.setenv("target", "1")
    said = pybpf("run", "-c", "true", 'BEGIN { printf("%s %d\\n", $WORD, $target > 1); }')
    assert said.out == "here 1\n"


def test_closed_standard_files_are_no_place_for_maps(start):
    def close():
        for fd in range(3):
            os.close(fd)

    script = 'interval:10ms { print("x"); @[1] = count(); }'
    assert (
        start("run", "-c", "echo y; echo z >&2; sleep 0.1", script, preexec_fn=close).end().status
        == 0
    )


REFUSED = """\
<script>:2:3: error: cannot load the program of BEGIN: Permission denied (errno 13)
      m[1] = pid;
      ^^^^^^^^^^^
  hint: the kernel refuses instruction {}, `r0 = r9`: R9 !read_ok
"""


EXPLAINED = """\
  hint: why: r9 has no value on some path to here; a call clears r1 to r5, and r0 is set by calls \
only
  hint: fix: give r9 a value on every path; what must survive a call belongs in r6 to r9 or on the \
stack
"""


@pytest.fixture
def broken_programs(monkeypatch):
    """Let scripts be compiled to programs that the kernel refuses."""
    from pybpf.cli import run
    from pybpf.dataclass import replace
    from pybpf.isa.insn import insn

    compiled = run._compile

    def broken(*arguments):
        script = compiled(*arguments)
        (probe,) = script.probes
        insns = list(probe.program.insns)
        (index,) = (i for i, one in enumerate(insns) if one.op.name == "rsh64_imm")
        insns[index] = insn("mov64_reg", 0, 9)
        program = replace(probe.program, insns=tuple(insns))
        return replace(script, probes=(replace(probe, program=program),))

    monkeypatch.setattr(run, "_compile", broken)


@pytest.mark.usefixtures("broken_programs")
@pytest.mark.parametrize("debug", [False, True])
def test_a_program_that_the_kernel_refuses_is_five_lines(pybpf, debug):
    said = pybpf("ply", *["-d"] * debug, "BEGIN {\n  m[1] = pid;\n}")
    (slot,) = re.findall(r"instruction ([0-9]+)", said.err)
    told, rest = said.err[: len(REFUSED.format(slot))], said.err[len(REFUSED.format(slot)) :]
    assert (said.status, said.out, told) == (1, "", REFUSED.format(slot))
    if debug:
        assert f"\n{slot}: (bf) r0 = r9\n" in rest
        assert rest.splitlines()[0].startswith(("0: ", "func#0", "Live regs", "; ", "R1"))
    else:
        assert rest == "  hint: -d shows the kernel's whole log\n"


@pytest.mark.usefixtures("broken_programs")
def test_a_program_that_the_kernel_refuses_is_explained(pybpf):
    said = pybpf("run", "BEGIN {\n  m[1] = pid;\n}")

    (slot,) = re.findall(r"instruction ([0-9]+)", said.err)
    assert said.err == (
        REFUSED.format(slot) + EXPLAINED + "  hint: -d shows the kernel's whole log\n"
    )


@pytest.mark.parametrize("debug", [False, True])
def test_functions_that_were_skipped_are_counted_and_named(pybpf, monkeypatch, debug):
    from pybpf.kernel.attach import Skipped
    from pybpf.session import Session

    places = [Skipped("kprobe:*", "do_syscall_64", "Invalid argument")]
    places.append(Skipped("kretprobe:v*", "vma", "No such file or directory"))
    monkeypatch.setattr(Session, "skipped", property(lambda _: places))
    said = pybpf("ply", *["-d"] * debug, "BEGIN { exit(0); }")
    assert said.err == (
        (
            "warning: 2 functions could not be probed\n"
            "debug: kprobe:*: do_syscall_64: Invalid argument\n"
            "debug: kretprobe:v*: vma: No such file or directory\n"
            "debug: attached; not verified before: the kernel did\n"
        )
        if debug
        else "warning: 2 functions could not be probed; -d names them\n"
    )
