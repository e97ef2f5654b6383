"""pybpf load: what it says of arguments and objects that make no sense, or that are refused."""

import os
import re
import signal
import subprocess
import sys

import pytest

from pybpf.cli import main


@pytest.fixture
def load(c_objects, capsys):
    """Return a function: an object and arguments in; status, output and errors out."""

    def load(name, *arguments):
        status = main(["load", str(c_objects / f"{name}.el.o"), *arguments])
        found = capsys.readouterr()
        return status, found.out, found.err.replace(f"{c_objects}/", "")

    return load


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dev", "lo"], "error: --dev goes with --attach\n"),
        (["--trace"], "error: --trace goes with --attach\n"),
        (["-c", "true"], "error: --command goes with --attach\n"),
        (["--attach", "--pin", "/sys/fs/bpf/x", "-c", "true"],
         "error: -c runs while programs are attached, and --pin ends at once\n"),
        (["--map-size", "records"],
         ("error: argument --map-size: invalid NAME=VALUE value: 'records'\n"
         "  hint: `pybpf load -h` shows the arguments\n")),
        (["--prog", "full"],
         "error: values.el.o: it has no program full; did you mean 'fill'?\n"),
        (["--map-size", "record=5"],
         "error: values.el.o: it has no map record; did you mean 'records'?\n"),
        (["--rodata", "limit=x"],
         "error: values.el.o: no value of limit: 'x' is no unsigned integer of 32 bits\n"),
        (["--btf", "/nosuch"], "error: cannot read /nosuch: No such file or directory\n"),
        (["--btf", "/etc/passwd"],
         "error: /etc/passwd: offset 0x0: no BTF: its first two bytes are not 0xeb9f\n"),
        (["--replace", "fill=5"], "error: no program is 5: prog:ID or pinned:PATH\n"),
    ],
)  # fmt: skip
def test_arguments_that_make_no_sense(load, arguments, message):
    assert load("values", *arguments) == (1, "", message)


def test_files_that_are_none(capsys, tmp_path):
    (tmp_path / "text").write_text("text")
    assert main(["load", str(tmp_path / "text")]) == 1
    assert main(["load", str(tmp_path / "nothing")]) == 1
    said = capsys.readouterr().err
    assert f"{tmp_path}/text: " in said
    assert f"error: cannot read {tmp_path}/nothing: No such file or directory\n" in said


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("freplace", (),
         ("error: freplace.el.o: section freplace/get_verdict: program get_verdict wants a loaded "
         "program, of which it replaces a part\n"
         "  hint: --replace get_verdict=prog:ID, or pinned:PATH\n")),
        ("tp_btf", ("--target", "on_switch=sched_swich"),
         ("error: tp_btf.el.o: section tp_btf/sched_switch: program on_switch: the kernel's types "
         "know no tracepoint sched_swich; did you mean 'sched_switch'?\n")),
        ("counting", ("--prog", "on_typed", "--target", "on_typed="),
         ("error: counting.el.o: section tp_btf/sys_enter: program on_typed wants a target, as in "
         'SEC("tp_btf/NAME")\n  hint: --target on_typed=…\n')),
        ("unlicensed", (),
         ('error: cannot load the program forbidden (SEC("tp/sched/sched_switch")): Invalid '
         "argument (errno 22)\n"
         "  hint: the kernel refuses instruction 0, `call bpf_get_current_task`: cannot call "
         "GPL-restricted function from non-GPL compatible program\n"
         "  hint: SOURCE/unlicensed.c:7:13: u64 task = bpf_get_current_task();\n"
         "  hint: why: the helper is for programs under the GPL, and this one says that it has "
         "another licence\n"
         '  hint: fix: declare the licence: char _license[] SEC("license") = "GPL"\n'
         "  hint: -d shows the kernel's whole log\n")),
        ("xdp_pass", ("--attach",),
         ('not attached: program pass (SEC("xdp")) is attached to a network interface\n'
         '  hint: --dev IF\n  hint: attach(dev="lo")\nerror: no program is attached\n')),
    ],
)  # fmt: skip
def test_what_cannot_be_loaded_or_attached(load, name, arguments, message):
    status, out, error = load(name, *arguments)
    error = re.sub(r"\S+/(\w+\.c:)", r"SOURCE/\1", error)
    assert (status, out, error) == (1, "", message)


@pytest.mark.kernel
def test_the_log_of_the_kernel(load):
    status, _, error = load("unlicensed", "-d")
    assert status == 1
    assert "processed 1 insns" in error


def test_an_object_for_the_other_byte_order(c_objects, capsys):
    other = "eb" if sys.byteorder == "little" else "el"
    assert main(["load", str(c_objects / f"xdp_pass.{other}.o")]) == 1
    assert "it is for machines of the other byte order\n" in capsys.readouterr().err


@pytest.mark.kernel
def test_steps_are_told(load):
    status, out, error = load("core_fields", "-v")
    assert status == 0
    assert re.search(r"^program  fields  raw_tracepoint  id \d+$", out, re.MULTILINE)
    assert "map .bss: created, array, key 4, value 8, 1 entries\n" in error
    assert re.search(
        r"^program fields: CO-RE \d+  byte_off +struct task_struct", error, re.MULTILINE
    )
    assert "program fields: loaded, raw_tracepoint\n" in error


@pytest.mark.kernel
def test_programs_that_nobody_asked_for_are_left_out(load):
    _, out, error = load("tracepoint", "-v")
    assert "only_if_asked_for" not in out
    assert "program only_if_asked_for: left out, as nobody asked for it\n" in error
    _, out, _ = load("tracepoint", "--prog", "only_if_asked_for")
    assert re.findall(r"^program  (\w+)", out, re.MULTILINE) == ["only_if_asked_for"]


@pytest.mark.kernel
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_the_end(c_objects, number, objects_of, gone):
    argv = [sys.executable, "-m", "pybpf", "load", c_objects / "counting.el.o", "--attach",
            "--dump", "--prog", "on_raw"]  # fmt: skip
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr.readline() == "attached: on_raw\n"
        objects = objects_of(child.pid)
        child.send_signal(number)
        out, error = child.communicate(timeout=60)
    assert re.search(r"^  raw = [1-9]", out, re.MULTILINE)
    assert (error, child.returncode) == ("", 0)
    assert gone(objects)


@pytest.mark.kernel
def test_what_programs_print_is_shown(c_objects):
    pid = os.getpid()
    argv = [sys.executable, "-m", "pybpf", "load", c_objects / "printing.el.o", "--attach",
            "--trace", "--rodata", f"pid={pid}"]  # fmt: skip
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        child.stderr.readline()
        os.getppid()
        assert any(f"hello from {pid}" in line for line in child.stdout)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
    assert child.returncode == 0


@pytest.mark.kernel
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up its rights")
def test_without_rights(c_objects):
    argv = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-m", "pybpf",
            "load", c_objects / "xdp_pass.el.o"]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    first, *hints = done.stderr.splitlines()
    assert (
        first == f"error: cannot load {c_objects}/xdp_pass.el.o: Operation not permitted (errno 1)"
    )
    assert hints[0].startswith("  hint: this needs root, or the capabilities CAP_BPF and CAP_PERF")
    assert "  hint: this process lacks CAP_BPF and CAP_PERFMON" in hints


@pytest.mark.kernel
def test_a_script_that_was_compiled_is_for_run(tmp_path, capsys):
    path = tmp_path / "p.o"
    assert main(["compile", "-o", str(path), "BEGIN { print(1); }"]) == 0
    assert main(["load", str(path), "--attach"]) == 1
    assert capsys.readouterr().err == (
        f"error: {path} is a script, compiled\n"
        f"  hint: `pybpf run {path}` attaches its programs, and prints what they say\n"
    )


@pytest.mark.kernel
def test_programs_of_tail_calls_that_are_not_loaded(load):
    status, _, error = load("tail_call", "--prog", "entry")
    assert status == 0
    assert error == (
        "warning: tail calls through jumps do nothing where programs are not loaded: "
        "first (slot 0), second (slot 2)\n"
    )
    assert load("tail_call")[2] == ""


def test_only_a_program_that_is_loaded_is_attached(load):
    said = "error: --attach-prog first: it is not loaded\n  hint: --prog first\n"
    assert load("tail_call", "--prog", "entry", "--attach-prog", "first") == (1, "", said)
