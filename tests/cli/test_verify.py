"""`pybpf verify`: objects, scripts and single programs; what it prints, as text and as JSON."""

import argparse
import doctest
import json
import lzma
import re
import shlex
from pathlib import Path

import pytest

from pybpf.cli import verify as command
from pybpf.verifier.explain import kinds

NEITHER = "neither an object nor instructions: the last slot"


ROOT = Path(__file__).parents[2]
TARGET = ROOT / "tests" / "data" / "targets" / "6.12.tar.gz"
KERNEL = ("--kernel", "6.12")
LOOKUP = """\
*(u32 *)(r10 - 4) = 0
r2 = r10
r2 += -4
r1 = map_fd:counts ll
call bpf_map_lookup_elem
r1 = *(u64 *)(r0 + 0)
r0 = 1
exit
"""
COUNTS = ("--map", "counts=hash:4:8:16")


@pytest.fixture
def verify(pybpf):
    """Return a function that verifies for Linux 6.12."""
    return lambda *arguments: pybpf("verify", *KERNEL, *arguments)


def test_a_program_that_is_accepted(verify):
    said = verify("--type", "xdp", "r0 = 1; exit".replace("; ", "\n"))

    assert (said.status, said.err) == (0, "")
    assert said.out == "accept   xdp  2 instructions processed\n"


def test_a_rejection_has_its_place_the_kernels_words_and_what_to_do(verify, tmp_path):
    path = tmp_path / "count.s"
    path.write_text(LOOKUP)

    said = verify("--type", "xdp", *COUNTS, path)

    assert (said.status, said.err) == (1, "")
    assert (
        said.out
        == f"""\
reject   xdp
{path}:6:1: error: R0 invalid mem access 'map_value_or_null'
    r1 = *(u64 *)(r0 + 0)
    ^^^^^^^^^^^^^^^^^^^^^
  instruction 6: r1 = *(u64 *)(r0 + 0)
  why: r0 may be null here: what gave it (map_value_or_null) returns null where there is nothing \
to return
  fix: compare r0 with 0 first, and access it only on the branch where it is not
"""
    )


def test_what_is_not_modelled_has_a_status_of_its_own(verify):
    said = verify("--kernel", "6.12", "--type", "fentry/vfs_read", "r0 = 0\nexit")

    assert said.status == 2
    assert said.out == (
        "unknown  fentry/vfs_read  not modelled: what the program is attached to, without the "
        "kernel's types (--btf FILE, or --kernel live)\n"
    )


def test_the_probes_of_a_script(verify):
    script = "BEGIN { @[pid] = count(); } END { exit(0); }"

    said = verify("--target", TARGET, script)

    assert (said.status, said.err) == (0, "")
    lines = [line.split() for line in said.out.splitlines()]
    assert [line[:2] for line in lines] == [["accept", "BEGIN"], ["accept", "END"]]


def test_one_probe_of_a_script(verify):
    script = "BEGIN { @[pid] = count(); } END { exit(0); }"

    said = verify("--target", TARGET, "--prog", "END", script)

    assert said.out.startswith("accept   END  ")
    assert len(said.out.splitlines()) == 1


def test_the_words_of_a_script_are_those_of_its_arguments(verify, tmp_path):
    path = tmp_path / "one.ply"
    path.write_text("BEGIN { @[pid] = $1; }")

    assert " = 1234 " in verify("--target", TARGET, "--log", path, "1234").out


def test_the_programs_of_an_object(verify, c_objects):
    said = verify(c_objects / "xdp_parse.el.o")

    assert (said.status, said.err) == (0, "")
    assert all(line.startswith("accept   ") for line in said.out.splitlines())


def test_a_rejection_in_c_has_its_line(verify, c_objects):
    said = verify(c_objects / "refused.el.o")

    assert said.status == 1
    first, place, text, caret, *rest = said.out.splitlines()
    assert first == "reject   unchecked"
    assert place.endswith(
        "refused.c:19:9: error: R0 pointer arithmetic on map_value_or_null prohibited, "
        "null-check it first"
    )
    assert (text, caret) == ("    \treturn value[skb->len & 3];", "    \t       ^")
    assert rest[0].startswith("  instruction 11: r0 += r")
    assert [line[:7] for line in rest[1:]] == ["  why: ", "  fix: "]


def test_a_program_of_an_object_that_there_is_not(verify, c_objects):
    said = verify("--prog", "unchekked", c_objects / "refused.el.o")

    assert (said.status, said.out) == (1, "")
    assert said.err == ("error: no program is called 'unchekked'; did you mean 'unchecked'?\n")


def test_kernels_differ(pybpf):
    text = "r0 = 1\nr1 = 2\nr1 s/= 2\nexit"

    old, new = (pybpf("verify", "--kernel", k, "--type", "xdp", text) for k in ("6.1", "6.12"))

    assert (old.status, new.status) == (1, 0)
    assert "BPF_ALU uses reserved fields" in old.out


def test_unprivileged_users_may_less(verify):
    text = "r0 = r10\nexit"

    assert verify("--type", "socket_filter", text).status == 0
    said = verify("--type", "socket_filter", "--unprivileged", "r1 = r10\nr0 = 0\nexit")
    assert said.status == 0
    assert "leaks addr" in verify("--type", "socket_filter", "--unprivileged", text).out


@pytest.mark.parametrize(
    "data",
    [
        bytes.fromhex("b700000001000000 9500000000000000"),
        b"b700000001000000 9500000000000000\n",
        b"r0 = 1\nexit\n",
    ],
    ids=["bytes", "hexadecimal", "text"],
)
def test_a_program_in_any_form_by_standard_input(verify, stdin, data):
    stdin(data)

    said = verify("--type", "xdp", "-")

    assert (said.status, said.out) == (0, "accept   xdp  2 instructions processed\n")


def test_the_log(verify):
    said = verify("--type", "xdp", "--log", "r0 = 1\nr1 = r5\nexit")

    assert said.status == 1
    assert (
        said.out
        == """\
0: R1=ctx() R10=fp0
; r0 = 1 @ <program>:1
0: (b7) r0 = 1                        ; R0=1
; r1 = r5 @ <program>:2
1: (bf) r1 = r5
R5 !read_ok
stack depth 0
processed 2 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0
reject   xdp
<program>:2:1: error: R5 !read_ok
    r1 = r5
    ^^^^^^^
  instruction 1: r1 = r5
  why: r5 has no value on some path to here; a call clears r1 to r5, and r0 is set by calls only
  fix: give r5 a value on every path; what must survive a call belongs in r6 to r9 or on the stack
"""
    )


KEYS = [
    "name", "prog_type", "verdict", "insn", "instruction", "source", "note", "message", "errno",
    "kind", "explanation", "fix", "processed", "states", "stack",
]  # fmt: skip


def test_json_of_a_rejection(verify):
    said = verify("--json", "--type", "xdp", *COUNTS, LOOKUP)

    data = json.loads(said.out)
    assert said.status == 1
    assert list(data) == ["pybpf", "kernel", "programs"]
    assert data["kernel"]["name"] == "6.12"
    assert data["kernel"]["origin"] == "recorded"
    (program,) = data["programs"]
    assert list(program) == KEYS
    assert program | {"explanation": "", "fix": ""} == {
        "name": "xdp",
        "prog_type": 6,
        "verdict": "reject",
        "insn": 6,
        "instruction": "r1 = *(u64 *)(r0 + 0)",
        "source": {
            "file": "<program>", "line": 6, "column": 1, "text": "r1 = *(u64 *)(r0 + 0)",
        },
        "note": None,
        "message": "R0 invalid mem access 'map_value_or_null'",
        "errno": 13,
        "kind": "null-check",
        "explanation": "",
        "fix": "",
        "processed": 6,
        "states": 0,
        "stack": [4],
    }  # fmt: skip


def test_json_of_what_is_accepted(verify):
    (program,) = json.loads(verify("--json", "--type", "xdp", "r0 = 1\nexit").out)["programs"]

    assert program == dict.fromkeys(KEYS) | {
        "name": "xdp", "prog_type": 6, "verdict": "accept", "message": "", "errno": 0,
        "processed": 2, "states": 0, "stack": [0],
    }  # fmt: skip


SUCH_AS = "  hint: such as xdp, sched_cls, socket_filter, kprobe, tracepoint"
TYPE_IT = "  hint: --type says of which type the program is, as in --type xdp"
USAGE = [
    ([], "nothing to verify\n  hint: an object, a script, or --batch FILE"),
    (["--type", "xdpp", "exit"], "there is no program type 'xdpp'; did you mean 'xdp'?"),
    (
        ["--type", "xdp", "--attach", "xdp_cpumapp", "exit"],
        "there is no attach type 'xdp_cpumapp'; did you mean 'xdp_cpumap'?",
    ),
    (["--attach", "xdp", "x"], "--attach is about a single program: it goes with --type"),
    (["--map", "a=hash:4:8:1", "x"], "--map is about a single program: it goes with --type"),
    (
        ["--type", "xdp", "--map", "a=hash", "exit"],
        "'a=hash' describes no map, as counts=hash:4:8:16 does",
    ),
    (
        ["--type", "xdp", "r1 = map_fd:a ll\nexit"],
        "the program names a map 'a', and there is none\n  hint: such as --map a=hash:4:8:16",
    ),
    (["--type", "xdp", "nofile.o"], "there is no file 'nofile.o', and it is no program either"),
    (["--type", "nonsense", "exit"], f"there is no program type 'nonsense'\n{SUCH_AS}"),
    (["--type", "1234", "exit"], f"there is no program type '1234'\n{SUCH_AS}"),
    (["r0 = 1; exit"], f"this is assembler text, and no script\n{TYPE_IT}"),
    (["  *(u32 *)(r10 - 4) = 0\nexit"], f"this is assembler text, and no script\n{TYPE_IT}"),
    (["exit"], f"this is assembler text, and no script\n{TYPE_IT}"),
    (["--type", "xdp", ""], "<program> holds no instruction"),
    (["--jobs", "2", "x"], "--jobs goes with --batch"),
    (["--json", "--log", "x"], "--log prints text: it does not go with --json"),
    (["--batch", "a", "b"], "--batch goes with no FILE: a line holds all of a program"),
    (["--batch", "a", "--json"], "--batch goes with no --json: a line holds all of a program"),
    (["--batch", "missing"], "cannot read missing: No such file or directory"),
    (
        ["nofile.ply"],
        (
            "there is no file 'nofile.ply', and it is no script either\n"
            "  hint: a script has probes, as in 'kprobe:vfs_read { @[comm] = count(); }'"
        ),
    ),
]


def test_one_object_at_a_time(verify, tmp_path):
    path = tmp_path / "a.o"
    path.write_bytes(b"\x7fELF")

    said = verify(path, "b.o")
    assert said.err == "error: one object at a time: 'b.o' would be an argument of a script\n"


@pytest.mark.parametrize("kernel", ["5.10", "5.15", "6.1", "6.6", "7.3"])
def test_a_script_is_compiled_for_the_kernel_that_judges(verify, kernel):
    script = "tracepoint:sched/sched_switch { print(data->prev_prio / 3, comm); }"

    said = verify("--kernel", kernel, "--target", TARGET, script)
    assert (said.status, said.err) == (0, ""), said.out


def test_c_is_compiled_first(verify, tmp_path):
    path = tmp_path / "x.c"
    path.write_text("int x;")

    said = verify(path)
    assert (said.status, said.out) == (1, "")
    assert said.err == (
        f"error: {path} is C, and no object\n"
        f"  hint: clang -O2 -g -target bpf -c {path} -o {tmp_path}/x.o\n"
    )


TYPES = [
    (["xdp"], 6),
    (["XDP"], 6),
    (["6"], 6),
    (["BPF_PROG_TYPE_XDP"], 6),
    (["tc"], 3),
    (["classifier"], 3),
    (["socket"], 1),
    (["kprobe/vfs_read"], 2),
    (["tracepoint"], 5),
    (["cgroup_skb/egress"], 8),
    (["cgroup_skb", "--attach", "BPF_CGROUP_INET_EGRESS"], 8),
    (["cgroup_skb", "--attach", "1"], 8),
]


@pytest.mark.parametrize(("words", "number"), TYPES)
def test_types_by_name_number_and_section(verify, words, number):
    said = verify("--json", "--type", *words, "r0 = 2\nexit")

    assert (said.status, said.err) == (0, "")
    assert json.loads(said.out)["programs"][0]["prog_type"] == number


@pytest.mark.parametrize(("arguments", "message"), USAGE)
def test_arguments_that_make_no_sense(verify, arguments, message):
    said = verify(*arguments)

    assert (said.status, said.out) == (1, "")
    assert said.err == f"error: {message}\n"


def test_a_kernel_that_there_is_no_profile_of(pybpf):
    said = pybpf("verify", "--kernel", "6.11", "--type", "xdp", "exit")

    assert (said.status, said.out) == (1, "")
    assert said.err.startswith("error: unknown kernel profile '6.11'; did you mean '6.1")


def test_the_file_of_a_profile(pybpf, tmp_path):
    path = tmp_path / "mine.json"
    packaged = ROOT / "pybpf" / "target" / "profiles" / "6.1.json.xz"
    path.write_bytes(
        lzma.decompress(packaged.read_bytes()).replace(b'"name": "6.1"', b'"name": "mine"')
    )

    said = pybpf("verify", "--kernel", path, "--json", "--type", "xdp", "r0 = 1\nexit")
    assert (said.status, json.loads(said.out)["kernel"]["name"]) == (0, "mine")

    path = tmp_path / "none.json"
    path.write_text("{}")
    said = pybpf("verify", "--kernel", path, "--type", "xdp", "r0 = 1\nexit")
    assert said.status == 1
    assert said.err.startswith(f"error: {path}: no kernel profile")


def test_the_running_kernel_is_the_one_that_is_asked_about(pybpf):
    said = pybpf("verify", "--json", "--type", "xdp", "r0 = 1\nexit")

    assert json.loads(said.out)["kernel"]["name"] == "live"


def test_bytes_that_are_nothing(verify, tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(b"\x95\0\0\0\0\0\0\0")

    assert verify(path).err == (
        f"error: {path} is neither an object nor a script\n"
        "  hint: --type says that it holds the instructions of a program, and of which type\n"
    )


def test_an_object_that_is_damaged(verify, tmp_path):
    path = tmp_path / "bad.o"
    path.write_bytes(b"\x7fELF" + bytes(40))

    said = verify(path)

    assert (said.status, said.out) == (1, "")
    assert said.err.startswith(f"error: {path}: ")


BAD_CODE = [
    (
        "9500000000000000 950000",
        f"error: <stdin>: offset 0x8: {NEITHER} has only 3 of 8 bytes\n",
        "",
    ),
    ("0500050000000000 9500000000000000", "", "jump out of range from insn 0 to 6"),
    ("0500feff00000000 9500000000000000", "", "jump out of range from insn 0 to -1"),
    (
        "b700000000000000 1500010000000000 1800000000000000 0000000000000000 9500000000000000",
        "", "jump into the middle of ldimm64 insn 2",
    ),
    ("ff00000000000000 9500000000000000", "", "unknown opcode ff"),
    ("b700010000000000 9500000000000000", "", "BPF_MOV uses reserved fields"),
    ("9500000001000000", "", "BPF_EXIT uses reserved fields"),
    ("b700000000000000", "", "last insn is not an exit or jmp"),
    ("1800000000000000", "", "last insn is not an exit or jmp"),
    ("b70f000000000000 9500000000000000", "", "R15 is invalid"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "error", "message"), BAD_CODE)
def test_bytes_that_are_no_program_get_a_verdict(verify, stdin, code, error, message):
    stdin(bytes.fromhex(code))

    said = verify("--type", "xdp", "-")

    assert (said.status, said.err) == (1, error)
    assert f"error: {message}\n" in said.out or error


def test_an_instruction_that_is_none_is_shown_in_digits(verify, stdin):
    stdin(bytes.fromhex("ff00000000000000 9500000000000000"))

    assert "  instruction 0: ff 00 00 00 00 00 00 00\n" in verify("--type", "xdp", "-").out


def test_a_refusal_without_words_has_its_errno(verify):
    said = verify("--type", "cgroup_skb", "--attach", "xdp", "r0 = 0\nexit")

    assert said.status == 1
    assert "error: bpf(2) refuses the program: Invalid argument (errno 22)\n" in said.out


def test_an_object_whose_section_says_no_type_gets_one(verify, c_objects):
    path = c_objects / "text_only.el.o"

    assert verify("--type", "xdp", path).out == "accept   alone  2 instructions processed\n"
    assert (
        verify(path).out
        == """\
reject   alone
error: bpf(2) refuses the program: it has no program type, and its SEC(".text") names none: \
Invalid argument (errno 22)
  why: the kernel does not know the program's type, or not with this attach type or these flags, \
and refuses it before it looks at an instruction
  fix: choose another type or a newer kernel; `pybpf verify --kernel` tells for others
"""
    )


def test_an_object_for_the_other_byte_order(verify, c_objects):
    path = c_objects / "text_only.eb.o"

    said = verify(path)

    assert (said.status, said.out) == (1, "")
    assert said.err == f"error: {path}: the object is for a big-endian machine\n"


def test_a_directory(verify, tmp_path):
    assert verify(tmp_path).err == f"error: {tmp_path} is a directory, not a script\n"


def test_an_error_in_the_model_is_unknown(verify, monkeypatch):
    monkeypatch.setattr("pybpf.verifier.within.verify", lambda *_, **__: 1 // 0)

    said = verify("--type", "xdp", "r0 = 1\nexit")

    assert (said.status, said.err) == (2, "")
    assert (
        said.out
        == "unknown  xdp  internal: ZeroDivisionError: integer division or modulo by zero\n"
    )


def test_names_cannot_upset_a_terminal(verify, tmp_path):
    path = tmp_path / "a\x1b[31mb.s"
    path.write_text("r0 = r5\nexit")

    assert "\x1b" not in verify("--type", "xdp", path).out


def test_compile_says_what_the_kernel_would_refuse(pybpf, monkeypatch):
    _make_the_model_refuse(monkeypatch)

    said = pybpf("compile", "--target", TARGET, "BEGIN { exit(3); }")

    assert said.status == 1
    assert said.out.endswith("    exit\n")
    assert (
        said.err
        == """\
<script>:1:9: error: R0 !read_ok
    BEGIN { exit(3); }
            ^^^^^^^
  instruction 0: r1 = map_fd:.events ll
  why: r0 has no value on some path to here; a call clears r1 to r5, and r0 is set by calls only
  fix: give r0 a value on every path; what must survive a call belongs in r6 to r9 or on the stack
  hint: so says the model of Linux 6.12; --no-verify does not ask it
"""
    )


def _make_the_model_refuse(monkeypatch):
    from pybpf.verifier.report import Report

    report = Report("reject", 0, "R0 !read_ok", errno=13)
    monkeypatch.setattr("pybpf.verifier.within.verify", lambda *_, **__: report)


@pytest.mark.parametrize(
    "command",
    [
        ("compile", "--no-verify"),
        ("compile", "-d", "ir"),
        ("run", "-e", "--no-verify"),
        ("ply", "-e"),
    ],
)
def test_the_model_is_not_asked_where_that_is_said(pybpf, monkeypatch, command):
    _make_the_model_refuse(monkeypatch)
    target = () if command[0] == "ply" else ("--target", TARGET)
    if not target:
        pytest.importorskip("pybpf.kernel.live")

    said = pybpf(*command, *target, "BEGIN { exit(3); }")

    assert (said.status, said.err) == (0, "")


def test_a_dry_run_says_what_the_kernel_would_refuse(pybpf, monkeypatch):
    _make_the_model_refuse(monkeypatch)

    said = pybpf("run", "-e", "--target", TARGET, "BEGIN { exit(3); }")

    assert (said.status, said.out) == (1, "")
    assert said.err.startswith("<script>:1:9: error: R0 !read_ok\n")


@pytest.mark.parametrize("command", [("compile", "-v"), ("run", "-d", "-e")])
def test_the_verdict_is_told_where_it_is_asked_for(pybpf, command):
    said = pybpf(*command, "--target", TARGET, "BEGIN { exit(3); }")

    assert (said.status, said.err) == (0, "note: BEGIN: the model of Linux 6.12 accepts it\n")


def test_what_the_model_cannot_say_is_a_note(pybpf, monkeypatch):
    from pybpf.verifier.report import Report

    report = Report("unknown", 0, "not modelled: helper 300")
    monkeypatch.setattr("pybpf.verifier.within.verify", lambda *_, **__: report)
    command = ("compile", "--target", TARGET, "BEGIN { exit(3); }")

    assert (pybpf(*command).status, pybpf(*command).err) == (0, "")
    said = pybpf(*command, "-v")
    assert (said.status, said.err) == (
        0, "note: BEGIN: the model of Linux 6.12 cannot say: not modelled: helper 300\n",
    )  # fmt: skip


def test_what_the_kernel_refuses_is_explained():
    from pybpf.cli.checked import explain_refusal
    from pybpf.errors import KernelError

    error = KernelError(13, "cannot load", log="1: (bf) r1 = r5\nR5 !read_ok\nprocessed 2 insns\n")
    explain_refusal(error)
    assert [hint[:5] for hint in error.hints] == ["why: ", "fix: "]

    unknown = KernelError(13, "cannot load", log="something new\n")
    explain_refusal(unknown)
    assert unknown.hints == ()


DOCS = (ROOT / "docs/verifier.md").read_text()


def consoles():
    """Yield the commands that docs/verifier.md shows, each with what it prints."""
    for block in re.findall(r"^```console\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL):
        command, _, output = block.partition("\n")
        yield shlex.split(command.removeprefix("$ pybpf ")), output


@pytest.mark.parametrize(("words", "output"), [*consoles()])
def test_the_documentation_shows_what_happens(pybpf, words, output):
    assert pybpf(*words).out == output


def test_the_python_of_the_documentation_runs():
    block = re.search(r"^```pycon\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)[1]
    example = doctest.DocTestParser().get_doctest(block, {}, "docs/verifier.md", None, 0)

    result = doctest.DocTestRunner().run(example)

    assert (result.failed, result.attempted) == (0, 8)


def test_the_lines_of_a_batch_that_are_documented(pybpf, tmp_path):
    block = re.search(r"^```json\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)[1]
    given, answer = block.splitlines()
    path = tmp_path / "one.jsonl"
    path.write_text(given)

    assert pybpf("verify", *KERNEL, "--batch", path).out == f"{answer}\n"


def test_the_keys_of_a_verdict_are_documented():
    section = DOCS.partition("## JSON")[2].partition("\n## ")[0]

    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == KEYS


def test_the_kinds_of_explanations_are_documented():
    section = DOCS.partition("## Explanations")[2].partition("The messages")[0]

    assert tuple(re.findall(r"`([a-z-]+)`", section))[1:] == kinds()


def test_every_option_is_documented():
    parser = argparse.ArgumentParser()
    command.declare(parser)
    options = {option for action in parser._actions for option in action.option_strings}

    assert {o for o in options if o.startswith("--")} - {"--help"} <= set(
        re.findall(r"--[a-z]+", DOCS)
    )


def test_big_endian_targets_are_not_asked_about(capsys):
    from types import SimpleNamespace

    from pybpf.cli.checked import check

    target = SimpleNamespace(arch=SimpleNamespace(byteorder="big"), release="6.12.0")

    assert check(None, target, verbose=True) == 0
    assert capsys.readouterr().err == "note: the model is of little-endian machines only\n"
