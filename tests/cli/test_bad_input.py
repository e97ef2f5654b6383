"""Bad input is one clear error and status 1; the command of -c never runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pybpf.cli import main

NEITHER = "neither an object nor instructions: the last slot"


ROOT = Path(__file__).parents[2]
SAY = 'BEGIN { print("x"); exit(0); }'


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Make files of all sorts, in the current directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(b"BEGIN \0\xff { }")
    (tmp_path / "latin1").write_bytes(b"BEGIN { \xe4 }\n")
    (tmp_path / "unreadable.ply").symlink_to("unreadable.ply")
    (tmp_path / "events").write_text('{"probe": "interval:1s"}\nnonsense\n')
    (tmp_path / "text.s").write_text("r0 = 0\nexit\n")
    (tmp_path / "odd.bin").write_bytes(bytes.fromhex("b700000000000000 95"))
    (tmp_path / "bad.bin").write_bytes(bytes.fromhex("b700000000000000 ff00000000000000"))
    (tmp_path / "odd.hex").write_text("95 00 0")
    (tmp_path / "short.o").write_bytes(b"\x7fELF")
    (tmp_path / "script.ply").write_text("BEGIN {\n    nosuch(1);\n}\n")
    return tmp_path


def text(*pieces):
    return "".join(pieces)


SIZE = "is no size from 1 to 1G, such as 65536, 64K or 4M"
FORMATS = "invalid choice: 'xml' (choose from 'text', 'json')"
RUN_HELP = "\n  hint: `pybpf run -h` shows the arguments"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["run"], "error: no script given\n  hint: such as 'BEGIN { print(\"hello\"); }'"),
        (["compile"], "error: no script given\n  hint: such as 'BEGIN { print(\"hello\"); }'"),
        (
            ["run", "nosuch.ply"],
            text(
                "error: there is no file 'nosuch.ply', and it is no script either\n",
                "  hint: a script has probes, as in 'kprobe:vfs_read { @[comm] = count(); }'",
            ),
        ),
        (["run", "folder"], "error: folder is a directory, not a script"),
        (["asm", "folder"], "error: cannot read folder: Is a directory"),
        (["asm", "nosuch"], "error: cannot read nosuch: No such file or directory"),
        (["dis", "nosuch"], "error: cannot read nosuch: No such file or directory"),
        (["dis", ""], "error: cannot read '': No such file or directory"),
        (["dis", "empty"], "error: empty is empty"),
        (
            ["dis", "text.s"],
            text(
                f"error: text.s: offset 0x8: {NEITHER} has only 4 of 8 bytes\n",
                "  hint: this is text: `pybpf asm` makes instructions of it",
            ),
        ),
        (
            ["dis", "odd.bin"],
            f"error: odd.bin: offset 0x8: {NEITHER} has only 1 of 8 bytes",
        ),
        (["inspect", "bad.bin"], "error: bad.bin: offset 0x8: no instruction has opcode 0xff"),
        (["exec", "bad.bin"], "error: bad.bin: offset 0x8: no instruction has opcode 0xff"),
        (
            ["verify", "--type", "xdp", "odd.bin"],
            f"error: odd.bin: offset 0x8: {NEITHER} has only 1 of 8 bytes",
        ),
        (["dis", "odd.hex"], "error: odd.hex holds an odd number of hexadecimal digits: 5"),
        (["dis", "short.o"], "error: short.o: no ELF file: it has only 4 bytes"),
        (
            ["asm", "short.o"],
            text(
                "error: short.o is an object file, and no text\n",
                "  hint: `pybpf dis` shows what it holds",
            ),
        ),
        (
            ["run", "script.ply"],
            text(
                "script.ply:2:5: error: unknown function 'nosuch' in BEGIN\n",
                "        nosuch(1);\n",
                "        ^^^^^^",
            ),
        ),
        (
            ["run", "binary"],
            text(
                "binary:1:7: error: the script holds a NUL byte: it is not text\n",
                "    BEGIN \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER} { }\n",
                "          ^",
            ),
        ),
        (["run", SAY, "--buffer", "x"], f"error: argument --buffer: 'x' {SIZE}{RUN_HELP}"),
        (["run", SAY, "--buffer", "0"], f"error: argument --buffer: '0' {SIZE}{RUN_HELP}"),
        (["run", SAY, "--buffer", "2G"], f"error: argument --buffer: '2G' {SIZE}{RUN_HELP}"),
        (["run", SAY, "--buffer=-1"], f"error: argument --buffer: '-1' {SIZE}{RUN_HELP}"),
        (
            ["run", SAY, "--map-size", "0"],
            f"error: argument --map-size: '0' is no number from 1 to 2147483647{RUN_HELP}",
        ),
        (
            ["run", SAY, "--map-size", "4294967296"],
            f"error: argument --map-size: '4294967296' is no number from 1 to 2147483647{RUN_HELP}",
        ),
        (["run", SAY, "--vm"], "error: --vm wants recorded events: --events FILE"),
        (
            ["run", SAY, "--vm", "--events", "empty", "-c", "true"],
            "error: -c starts a process, which --vm cannot trace",
        ),
        (
            ["run", SAY, "--target", "empty"],
            "error: --target goes with --vm or --dry-run: a live run is for this machine",
        ),
        (
            ["run", SAY, "--vm", "--events", "nosuch"],
            "error: cannot read nosuch: No such file or directory",
        ),
        (
            ["run", "END { }", "--vm", "--events", "events"],
            "events:2:1: error: no JSON: Expecting value\n    nonsense\n    ^",
        ),
        (["run", SAY, "-e", "--target", "nosuch"], "error: nosuch: No such file or directory"),
        (
            ["run", SAY, "-e", "--target", "events"],
            "error: events: no snapshot, or damaged: cannot decompress it as gzip",
        ),
        (
            ["run", SAY, "--format", "xml"],
            f"error: argument --format: {FORMATS}{RUN_HELP}",
        ),
        (
            ["list", "interval:*"],
            text(
                "error: there is nothing to list of 'interval'\n",
                "  hint: there are places for kprobe, kretprobe, tracepoint",
            ),
        ),
        (["snapshot", "-o", "/dev/null/x"], "error: cannot write /dev/null/x: Not a directory"),
        (["asm", "script.ply", "-o", "/dev/null/x"], None),
        (
            ["inspect", "x", "--dot", "flow", "--json"],
            "error: --html, --json and --dot do not go together",
        ),
        (
            ["inspect", "x", "--html", "", "--json"],
            "error: --html, --json and --dot do not go together",
        ),
        (
            ["inspect", "x", "--btf", "nosuch"],
            "error: --btf is about CO-RE of programs that are judged: it goes with --kernel",
        ),
        (["compile", "BEGIN { }", "-o", ""], "error: cannot write '': No such file or directory"),
    ],
)
@pytest.mark.usefixtures("files")
def test_bad_input(pybpf, arguments, error):
    said = pybpf(*arguments)
    assert (said.status, said.out) == (1, "")
    assert "Traceback" not in said.err
    if error is not None:
        assert said.err == error + "\n"


@pytest.mark.parametrize(
    "script",
    [
        "BEGIN { x(); }",
        'BEGIN { print("',
        "BEGIN { /* ",
        "BEGIN { print(99999999999999999999); }",
        'BEGIN { print("\\q"); }',
        "BEGIN { \N{SNOWMAN} }",
        "foo:bar { }",
        "BEGIN {",
        "}",
        "BEGIN { strcmp(); }",
        "\udcff",
    ],
)
def test_a_faulty_script_keeps_the_command_from_running(files, capfd, script):
    assert main(["run", "-c", f"touch {files}/ran", script]) == 1
    out, err = capfd.readouterr()
    assert (out, err.count(": error: ")) == ("", 1)
    assert not (files / "ran").exists()
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


# Without rights, or a kernel that lacks something


def without_rights(*arguments):
    """Run a command as root of nothing: in a user namespace of its own."""
    command = ["unshare", "--user", "--map-root-user", sys.executable, "-m", "pybpf", *arguments]
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": ROOT}
    )
    if "unshare failed" in run.stderr:
        pytest.skip(run.stderr)
    return run.returncode, run.stdout, run.stderr


def test_no_right_to_use_bpf(files):
    assert without_rights("run", "-c", f"touch {files}/ran", SAY) == (
        1,
        "",
        text(
            "error: cannot create the ringbuf map .events: Operation not permitted (errno 1)\n",
            "  hint: this needs root, or the capabilities CAP_BPF and CAP_PERFMON, "
            "and for tracepoints the right to read tracefs\n",
            "  hint: capabilities of a user namespace do not count\n",
        ),
    )
    assert not (files / "ran").exists()


def test_no_right_to_use_bpf_but_recorded_events(files):
    assert without_rights("run", "--events", str(files / "empty"), SAY) == (
        0,
        "x      \n",
        f"pybpf: no BPF here (Operation not permitted): using the VM, on {files}/empty\n",
    )


def test_no_right_is_needed_to_compile():
    assert without_rights("run", "-e", SAY) == (0, "", "")
    status, out, err = without_rights("compile", SAY)
    assert (status, err) == (0, "")
    assert "call bpf_ringbuf_submit" in out


def test_no_tracefs_and_no_right_to_mount_it(files):
    if any(
        Path(p, "events").exists() for p in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
    ):
        pytest.skip("tracefs is mounted")
    script = "tracepoint:sched/sched_switch { exit(0); }"
    assert without_rights("run", "-c", f"touch {files}/ran", script) == (
        1,
        "",
        text(
            "<script>:1:1: error: tracefs is not mounted, and mounting it failed: Operation not ",
            "permitted\n",
            f"    {script}\n",
            "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n",
            "  hint: compile for a saved machine: --target FILE\n",
            "  hint: it is mounted by: mount -t tracefs none /sys/kernel/tracing\n",
        ),
    )
    assert not (files / "ran").exists()


NO_BPF = """
import errno, runpy, sys
from pybpf.kernel import syscall

class Refusing:
    def __getattr__(self, name):
        return lambda *_: -errno.ENOSYS

syscall.lib = Refusing()
from pybpf.kernel import maps
maps.lib = syscall.lib
sys.argv[0] = "pybpf"
runpy.run_module("pybpf", run_name="__main__")
"""


@pytest.mark.kernel
def test_a_kernel_without_bpf():
    run = subprocess.run(
        [sys.executable, "-c", NO_BPF, "run", SAY],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": ROOT},
    )  # fmt: skip
    assert (run.returncode, run.stdout, run.stderr) == (
        1,
        "",
        text(
            "error: cannot create the ringbuf map .events: Function not implemented (errno 38)\n",
            "  hint: this kernel was built without the system call (CONFIG_BPF_SYSCALL)\n",
        ),
    )


@pytest.mark.kernel
@pytest.mark.parametrize("spec", ["kprobe:vfs_read", "kretprobe:vfs_rea*"])
def test_a_kernel_without_kprobes(pybpf, monkeypatch, spec):
    from pybpf.kernel import attach

    monkeypatch.setattr(attach.features, "pmu", lambda _name: None)
    monkeypatch.setattr(attach.features, "kprobe_multi", lambda: False)
    monkeypatch.setattr(attach.features, "config", lambda: {"CONFIG_BPF": "y"})
    said = pybpf("run", f"{spec} {{ @[1] = count(); }}")
    assert (said.status, said.out, said.err) == (
        1,
        "",
        text(
            f"<script>:1:1: error: cannot attach {spec}: Operation not supported (errno 95)\n",
            f"    {spec} {{ @[1] = count(); }}\n",
            f"    {'^' * len(spec)}\n",
            "  hint: this kernel was built without CONFIG_KPROBES and CONFIG_KPROBE_EVENTS\n",
            "  hint: tracepoints need no kprobes: `pybpf list 'tracepoint:*'` shows them\n",
        ),
    )


@pytest.mark.kernel
def test_a_map_that_is_too_large(pybpf):
    said = pybpf("run", "BEGIN { m[1] = 1; exit(0); }", "--map-size", "2147483647")
    assert said.err == (
        "error: cannot create the map m: Cannot allocate memory (errno 12)\n"
        "  hint: 2147483647 entries are too many: see --map-size\n"
    )


@pytest.mark.kernel
def test_nearest_tracepoints_are_named(pybpf):
    said = pybpf("run", "tracepoint:sched/sched_swich { exit(0); }")
    assert "unknown tracepoint 'sched/sched_swich'; did you mean 'sched/sched_switch'?" in said.err


@pytest.mark.kernel
def test_events_of_ftrace_itself_run_no_programs(pybpf):
    said = pybpf("run", "-c", "true", "tracepoint:ftrace/print { @ = count(); }")
    assert (said.status, said.out) == (1, "")
    assert said.err == (
        "<script>:1:1: error: cannot attach to tracepoint:ftrace/print: Invalid argument (errno 22)"
        "\n    tracepoint:ftrace/print { @ = count(); }\n"
        "    ^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  hint: events of ftrace/ are records of tracers, and run no programs\n"
    )


@pytest.mark.kernel
def test_a_tracepoint_runs_so_many_programs(pybpf, objects_of):
    before = objects_of()
    clauses = "tracepoint:sched/sched_process_fork { @ = count(); }\n" * 65
    said = pybpf("run", "-c", "true", clauses)
    assert (said.status, said.out) == (1, "")
    assert said.err == (
        "<script>:65:1: error: cannot attach to tracepoint:sched/sched_process_fork: "
        "Argument list too long (errno 7)\n"
        "    tracepoint:sched/sched_process_fork { @ = count(); }\n"
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  hint: a tracepoint runs at most 64 programs, those of other tracers included\n"
        "  hint: join clauses into one: if (…) … else …\n"
    )
    assert objects_of() == before


def test_a_script_is_utf8_whatever_the_locale(pybpf):
    said = pybpf("compile", "-d", "tokens", 'BEGIN { print("é"); }')
    assert said.status == 0


def test_what_the_locale_has_no_letters_for_is_escaped():
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = (sys.executable, "-m", "pybpf", "events", "query", "-h")
    said = subprocess.run(command, capture_output=True, env=ascii_only, check=False)
    assert (said.returncode, said.stderr) == (0, b"")
    assert rb"SELECT \u2026 FROM a AS x" in said.stdout
