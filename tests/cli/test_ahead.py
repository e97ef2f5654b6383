"""compile -o, and run of what it wrote."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pybpf.objfile.object import Object
from pybpf.target.snapshot import SnapshotTarget, write_snapshot

ROOT = Path(__file__).parents[2]
TARGETS = ROOT / "tests/data/targets"
TARGET = TARGETS / "6.12.tar.gz"
EVENTS = ROOT / "examples/demo-events.jsonl"
DEMO = ROOT / "examples/demo.ply"
SHORT = 'BEGIN { printf("%s %d\\n", $1, 7); exit(3); }'
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="bpftool loads programs as root only")


@pytest.fixture
def probe(tmp_path):
    return tmp_path / "probe.o"


@pytest.fixture
def compiled(pybpf, probe):
    """Return a function that compiles a script for a saved target, and gives the file's path."""

    def compiled(*arguments, target=TARGET):
        said = pybpf("compile", "--target", target, "-o", probe, *arguments)
        assert said == type(said)(0, "", "")
        return probe

    return compiled


def test_an_object_runs_in_the_vm_as_its_script_does(pybpf, compiled, monkeypatch):
    file = compiled(DEMO)  # which asks for $target
    monkeypatch.setenv("target", "4640")
    rest = ("--vm", "--events", EVENTS, "--target", TARGET)

    source = pybpf("run", *rest, DEMO)

    assert source.status == 0
    assert "@reads" in source.out
    assert pybpf("run", *rest, file) == source
    assert pybpf("run", "--format", "json", *rest, file).out.startswith('{"event"')


RUN = """
import sys
from pybpf.cli import main
status = main(sys.argv[1:])
sys.stdout.flush()
print(status, *(m for m in sys.modules if m.startswith("pybpf.compiler")), file=sys.stderr)
"""


@pytest.mark.parametrize("options", [(), ("-e", "--no-verify")], ids=["run", "dry run"])
def test_no_compiler_is_loaded(compiled, options):
    file = compiled("BEGIN { exit(0); }")
    vm = ("--vm", "--events", EVENTS, "--target", TARGET)
    done = subprocess.run(
        [sys.executable, "-c", RUN, "run", *vm, *options, file],
        capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    )  # fmt: skip
    assert done.stderr == "0\n"


def test_arguments_are_settled(pybpf, compiled):
    run = pybpf("run", "--vm", "--events", EVENTS, "--target", TARGET, compiled(SHORT, "word"))

    assert (run.status, run.out, run.err) == (3, "word 7\n", "")


def test_from_standard_input_and_to_standard_output(pybpf, stdin, compiled):
    data = compiled(SHORT, "word").read_bytes()
    stdin(data)
    run = pybpf("run", "--vm", "--events", EVENTS, "--target", TARGET, "-")
    assert (run.status, run.out) == (3, "word 7\n")

    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "pybpf", "compile", "--target", TARGET, "-o", "-", SHORT, "word"],
        capture_output=True, check=True, env=environment,
    )  # fmt: skip
    assert done.stdout == data


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("word",), ["{file} takes no arguments: what $1 stands for was settled when it was made",
                     "put them behind the script of `pybpf compile -o`"]),
        (("--map-size", "7"), ["--map-size is about compiling, and {file} is compiled",
                               "`pybpf compile --map-size … -o` takes it"]),
        (("--buffer", "1M"), ["--buffer is about compiling, and {file} is compiled",
                              "`pybpf compile --buffer … -o` takes it"]),
        (("--cgroup", "self"), ["--cgroup is about compiling, and {file} is compiled",
                                "`pybpf compile --cgroup … -o` takes it"]),
        (("-S",), ["-S shows how a script is compiled, and {file} is compiled"]),
    ],
)  # fmt: skip
def test_what_is_settled_when_compiling(pybpf, compiled, options, message):
    file = compiled("BEGIN { exit(0); }")
    said = pybpf("run", file, *options)
    assert (said.status, said.out) == (1, "")
    assert said.err == "error: " + "\n  hint: ".join(message).format(file=file) + "\n"


def test_sizes_are_those_given(compiled):
    file = compiled(
        "--map-size", "17", "--buffer", "1M", "t:sched/sched_switch { @[pid] = count(); print(1); }"
    )
    found = Object.open(file)

    assert found.map("map").max_entries == 17
    assert found.map("events").max_entries == 1 << 20


def test_an_object_for_another_machine(pybpf, compiled, monkeypatch):
    there = ("--target", TARGET)
    here = SnapshotTarget(arch="s390x")
    file = compiled("BEGIN { exit(0); }")
    other = file.with_name("s390x.tar.gz")
    monkeypatch.setattr(here, "event_names", lambda: ())
    write_snapshot(here, other)

    said = pybpf("run", "--vm", "--events", EVENTS, "--target", other, file)

    assert said.err.startswith(
        f"error: {file} was compiled for x86_64, which is little-endian, "
        "and this machine is s390x, which is big-endian\n  hint: "
    )
    assert pybpf("run", "--vm", "--events", EVENTS, *there, compiled(SHORT, target=other)).status
    assert Object.open(file).byteorder == "big"


@pytest.mark.parametrize(
    ("output", "reason"),
    [(".", "Is a directory"), ("no/such/folder.o", "No such file or directory"),
     ("", "No such file or directory"), ("x\0y", "embedded null byte")],
)  # fmt: skip
def test_where_no_file_can_be(pybpf, tmp_path, monkeypatch, output, reason):
    monkeypatch.chdir(tmp_path)
    said = pybpf("compile", "--target", TARGET, "-o", output, "BEGIN { exit(0); }")
    assert said.status == 1
    assert said.err.startswith("error: cannot write ")
    assert said.err.endswith(f": {reason}\n")


def test_nothing_is_written_of_what_is_faulty_or_would_be_refused(pybpf, probe, monkeypatch):
    said = pybpf("compile", "--target", TARGET, "-o", probe, "BEGIN { exit(nothing); }")
    assert said.status == 1
    monkeypatch.setattr("pybpf.cli.checked.check", lambda *_, **__: 1)
    said = pybpf("compile", "--target", TARGET, "-o", probe, "BEGIN { exit(0); }")
    assert said.status == 1
    assert not probe.exists()


def test_a_dump_and_an_object_are_two_things(pybpf, probe):
    said = pybpf("compile", "-d", "ir", "-o", probe, "BEGIN { exit(0); }")
    assert said.err == "error: -d prints a stage, -o writes an object: one or the other\n"


def test_an_object_is_no_script(pybpf, compiled):
    file = compiled("BEGIN { exit(0); }")
    said = pybpf("compile", "--target", TARGET, file)
    assert said.err == (
        f"error: {file} is an object file, not a script\n"
        "  hint: `pybpf run` runs those that `pybpf compile -o` made\n"
    )


def test_an_object_of_others_holds_no_script(pybpf, c_objects):
    file = c_objects / "xdp_parse.el.o"
    said = pybpf("run", file)
    assert said.err == (
        f"error: {file}: it holds no script: there is no section .pybpf\n"
        "  hint: `pybpf compile -o FILE SCRIPT` makes one that does\n"
    )


def test_verify_takes_it_as_any_object(pybpf, compiled):
    said = pybpf("verify", compiled(DEMO.with_name("opensnoop.ply")))
    lines = said.out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["accept", "BEGIN"], ["accept", "END"],
        ["accept", "tracepoint_syscalls_sys_enter_openat"],
        ["accept", "tracepoint_syscalls_sys_exit_openat"],
    ]  # fmt: skip


def commands():
    """Yield the commands that docs/ahead.md shows without root, each with what it prints."""
    text = (ROOT / "docs/ahead.md").read_text()
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield from re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)


def test_the_documentation_shows_what_happens(pybpf, tmp_path, monkeypatch):
    for folder in ("tests", "examples"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    shown = [*commands()]
    assert len(shown) == 6
    for command, printed in shown:
        name, *arguments = shlex.split(command)
        assert name == "pybpf"
        said = pybpf(*arguments)
        pattern = ".*".join(map(re.escape, printed.split("…")))
        assert re.fullmatch(pattern, said.out + said.err), (command, said)


# --- live -----------------------------------------------------------------------------------------


@pytest.mark.kernel
@pytest.mark.usefixtures("tracing")
def test_live_it_prints_what_its_script_prints(pybpf, probe):
    script = (
        'tracepoint:syscalls/sys_enter_openat / !strcmp(comm, "cat") / {'
        ' printf("%s\\n", data->filename); @[comm] = count(); }'
        "END { print(1); }"
    )
    # Found out first: whoever else calls a process so would be traced, too.
    name = f"cat{os.getpid()}"
    script = script.replace('"cat"', f'"{name}"')
    command = f"exec -a {name} true"
    code = f"open('/proc/self/comm', 'w').write('{name}'); open('/dev/null'); open('/dev/zero')"
    command = f'{sys.executable} -SEc "{code}"'

    assert pybpf("compile", "-o", probe, script).status == 0
    source = pybpf("run", "-c", command, script)

    assert source.out.splitlines() == [
        "/dev/null", "/dev/zero", "1", "", "@:", f"{{ {name:15} }}: 2",
    ]  # fmt: skip
    assert pybpf("run", "-c", command, probe) == source


@pytest.mark.kernel
@pytest.mark.usefixtures("tracing")
def test_the_command_is_the_target(pybpf, probe):
    script = "t:syscalls/sys_enter_openat / pid == $target / { @[str(data->filename)] = count(); }"
    assert pybpf("compile", "-o", probe, script).status == 0

    said = pybpf("run", "-c", f"{sys.executable} -SEc \"open('/dev/zero')\"", probe)

    assert re.search(r"^\{ /dev/zero *\}: 1$", said.out, re.MULTILINE)
    assert pybpf("run", probe).err.startswith(f"error: {probe} asks for $target, which is not set")


@pytest.mark.kernel
@AS_ROOT
@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
@pytest.mark.skipif(shutil.which("bpftool") is None, reason="bpftool is not installed")
def test_bpftool_loads_every_example(pybpf, tmp_path):
    script = [f"set -e; mkdir {tmp_path}/fs; mount -t bpf bpf {tmp_path}/fs"]
    counts = []
    for path in sorted((ROOT / "examples").glob("*.ply")):
        file = tmp_path / f"{path.stem}.o"
        assert pybpf("compile", "--no-verify", "--target", TARGET, "-o", file, path).status == 0
        pins = f"{tmp_path}/fs/{path.stem}"
        script.append(f"mkdir {pins}; bpftool prog loadall {file} {pins}; ls {pins} | wc -l")
        counts.append(len(Object.open(file).programs))
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", "\n".join(script)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    # (It says nothing: no section is unknown to it.)
    assert (done.returncode, done.stderr) == (0, "")
    assert [int(line) for line in done.stdout.split()] == counts
