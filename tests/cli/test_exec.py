"""pybpf exec: one program in the VM, or a file of them."""

import json

import pytest

from pybpf import corpus
from pybpf.cli import inputs

HINT = "  hint: `pybpf exec -h` shows the arguments"
LOOP = """\
    r0 = 0
    r1 = 2
again:
    r0 += r1
    *(u64 *)(r10 - 8) = r0
    r1 -= 1
    if r1 != 0 goto again
    if r0 == 3 goto out
    r0 = 9
out:
    exit
"""


@pytest.fixture
def execute(pybpf, tmp_path):
    def run(text, *options):
        path = tmp_path / "program"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return pybpf("exec", path, *options)

    return run


def test_the_argument_may_be_the_text(pybpf):
    said = pybpf("exec", "r0 = r2; exit", "--mem", "0102")
    assert (said.status, said.out, said.err) == (0, "r0 = 2 (0x2)\ndata = 0102\n", "")
    assert pybpf("exec", "b700000005000000 9500000000000000").out == "r0 = 5 (0x5)\n"

    said = pybpf("exec", "r0 = ; exit")
    assert (said.status, said.err.partition(": ")[0]) == (1, "<program>:1:5")


def test_objects_are_not_run(execute):
    said = execute(b"\x7fELF\2\1\1")
    assert said.status == 1
    assert said.err.endswith("program is an object; only `pybpf verify` takes those\n")


@pytest.mark.parametrize("mode", [[], ["--fast"]])
@pytest.mark.parametrize(
    ("text", "options", "out"),
    [
        ("r0 = 5; exit", [], "r0 = 5 (0x5)\n"),
        ("b700000005000000 9500000000000000", [], "r0 = 5 (0x5)\n"),
        (bytes.fromhex("b7000000050000009500000000000000"), [], "r0 = 5 (0x5)\n"),
        (
            "*(u8 *)(r1 + 1) = 7; r0 = r2; exit", ["--mem", "010203"],
            "r0 = 3 (0x3)\ndata = 010703\n",
        ),
        (
            "r0 = *(u32 *)(r1 + 4); r1 = *(u32 *)(r1 + 0); r0 -= r1; exit",
            ["--packet", "00" * 20], f"r0 = 20 (0x14)\ndata = {'00' * 20}\n",
        ),
        (
            "r0 = *(u32 *)(r1 + 0); exit", ["--packet", "00" * 20, "--type", "socket_filter"],
            f"r0 = 6 (0x6)\ndata = {'00' * 20}\n",
        ),
        ("*(u8 *)(r1 + 0) = 1; r0 = 0; exit", ["--ctx", "0405"], "r0 = 0 (0x0)\nctx = 0105\n"),
        ("call bpf_ktime_get_ns; exit", ["--time", "77"], "r0 = 77 (0x4d)\n"),
    ],
)  # fmt: skip
def test_one_program(execute, text, options, out, mode):
    said = execute(text, *options, *mode)

    assert (said.status, said.out, said.err) == (0, out, "")


def test_the_seed_decides_what_is_random(execute):
    once, again, other = (
        execute("call bpf_get_prandom_u32; exit", "--seed", seed).out for seed in (1, 1, 2)
    )
    assert once == again != other


def test_a_trace_shows_what_every_instruction_sets(execute):
    said = execute(LOOP, "--trace", "--watch", "r10-8:2")

    assert (
        said.out
        == """\
  r10-8:2 = cc cc
0: r0 = 0                                    r0=0x0
1: r1 = 2                                    r1=0x2
2: r0 += r1                                  r0=0x2
3: *(u64 *)(r10 - 8) = r0
  r10-8:2 = 02 00
4: r1 -= 1                                   r1=0x1
5: if r1 != 0 goto again
2: r0 += r1                                  r0=0x3
3: *(u64 *)(r10 - 8) = r0
  r10-8:2 = 03 00
4: r1 -= 1                                   r1=0x0
5: if r1 != 0 goto again
6: if r0 == 3 goto out
8: exit
r0 = 3 (0x3)
"""
    )


def test_a_watch_alone_says_where_a_value_changed(execute):
    said = execute(LOOP, "--watch", "r0", "--watch", "mem:1", "--mem", "05")

    assert (
        said.out
        == """\
  mem:1 = 05  (start)
  r0 = 0 (0x0)  (0: r0 = 0)
  r0 = 2 (0x2)  (2: r0 += r1)
  r0 = 3 (0x3)  (2: r0 += r1)
r0 = 3 (0x3)
data = 05
"""
    )


def test_coverage_marks_what_never_ran(execute):
    said = execute("r0 = 1; if r0 == 1 goto L; r0 = 2; L: exit", "--coverage", "--trace")

    assert said.out.splitlines()[3:] == [
        "     0: r0 = 1",
        "     1: if r0 == 1 goto L",
        "-    2: r0 = 2",
        "     3: exit",
        "3 of 4 instructions ran",
        "r0 = 1 (0x1)",
    ]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("exit", [], "0: exit: r0 holds nothing: it was never set, or a call destroyed it"),
        ("L: goto L", ["--budget", "9"], "0: goto L: the budget of 9 instructions is used up"),
        (
            "r0 = *(u8 *)(r1 + 1); exit", ["--mem", "00"],
            ("0: r0 = *(u8 *)(r1 + 1): cannot load 1 byte at offset 1 of memory:"
             " outside its 1 bytes"),
        ),
        ("", [], "{path} is empty"),
        ("r0 = 0; exit", ["--mem", "0"], "--mem takes hexadecimal digits, two a byte"),
        ("r0 = 0; exit", ["--type", "xpd"],
         "there is no program type 'xpd'; did you mean 'xdp'?"),
        ("r0 = 0; exit", ["--type", "xdp", "--mem", "00"],
         "--mem is for programs without --type, --packet and --ctx"),
        ("r0 = 0; exit", ["--packet", "00"], "a packet of 1 bytes has no Ethernet header"),
        ("r0 = 0; exit", ["--watch", "r11"],
         "'r11' is nothing to watch\n  hint: r3, r10-8:8 (8 bytes on the stack), mem+4:2"),
        ("r0 = 0; exit", ["--watch", "r10-8"],
         "'r10-8' does not say how many bytes\n  hint: such as r10-8:8"),
        ("r0 = 0; exit", ["--watch", "mem:9999"], "'mem:9999': 1 to 4096 bytes can be watched"),
        ("r0 = 0; exit", ["--budget", "-1"],
         "argument --budget: invalid number value: '-1'\n" + HINT),
        ("r0 = 0; exit", ["--batch", "-"],
         "--batch goes with no FILE: a line holds all that a run takes"),
    ],
)  # fmt: skip
def test_what_is_wrong(execute, tmp_path, text, options, message):
    said = execute(text, *options)

    path = tmp_path / "program"
    assert (said.status, said.err) == (1, f"error: {message}\n".replace("{path}", str(path)))


def test_no_program(pybpf):
    assert pybpf("exec").err == "error: no program given\n  hint: FILE, or --batch FILE\n"


EXIT5 = "b7000000050000009500000000000000"


@pytest.mark.parametrize("mode", [[], ["--fast"]])
def test_a_batch_answers_each_line_with_one(pybpf, stdin, mode):
    lines = [
        f'{{"id": "a", "insns": "{EXIT5}", "mem": null}}',
        "",
        '{"id": 7, "insns": "9500000000000000", "mem": "0102"}',
        f'{{"id": "p", "prog_type": 6, "insns": "{EXIT5}", "data": "{"00" * 14}"}}',
        f'{{"id": "q", "prog_type": 6, "insns": "{EXIT5}", "data": "00"}}',
        "nonsense",
        '{"id": "c"}',
        '{"id": "d", "insns": "xx"}',
        '{"id": "e", "insns": "ff00000000000000"}',
        '{"id": "f", "insns": ""}',
        '["g"]',
        f'{{"id": 8, "prog_type": 6, "insns": "{EXIT5}", "mem": "0A", "data": null}}',
        f'{{"id": 9, "prog_type": 6, "insns": "{EXIT5.upper()}", "data": "{"00" * 14}"}}',
        f'{{"id": 10, "prog_type": null, "insns": "{EXIT5}", "expect": {{}}}}',
    ]
    stdin("\n".join(lines).encode())
    said = pybpf("exec", "--batch", "-", *mode)

    nothing = "0: exit: r0 holds nothing: it was never set, or a call destroyed it"
    assert said.status == 1
    assert said.err == "error: -: 4 lines hold no program, the first is line 6\n"
    assert [json.loads(line) for line in said.out.splitlines()] == [
        {"id": "a", "r0": 5, "mem": None, "fault": None},
        {"id": 7, "r0": None, "mem": "0102", "fault": nothing},
        {"id": "p", "r0": 5, "mem": None, "fault": None, "data": "00" * 14, "ctx": "", "maps": []},
        {
            "id": "q", "r0": None, "mem": None, "errno": 22,
            "fault": "a packet of 1 bytes has no Ethernet header",
        },
        {
            "id": None, "r0": None, "mem": None,
            "fault": "line 6: no JSON: Expecting value: line 1 column 1 (char 0)",
        },
        {"id": "c", "r0": None, "mem": None, "fault": 'line 7: "insns" is missing'},
        {"id": "d", "r0": None, "mem": None, "fault": 'line 8: "insns" is not in hexadecimal'},
        {
            "id": "e", "r0": None, "mem": None,
            "fault": "instruction 0: no instruction has opcode 0xff",
        },
        {
            "id": "f", "r0": None, "mem": None,
            "fault": "0: (end): the program does not end here: an exit is missing",
        },
        {"id": None, "r0": None, "mem": None, "fault": "line 11: the program is no object"},
        {"id": 8, "r0": 5, "mem": "0a", "fault": None},
        {"id": 9, "r0": 5, "mem": None, "fault": None, "data": "00" * 14, "ctx": "", "maps": []},
        {"id": 10, "r0": 5, "mem": None, "fault": None},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--budget", "9" * 30], f"argument --budget: invalid number value: '{'9' * 30}'"),
        (["--watch", "r1+" + "9" * 5000 + ":8"], "is nothing to watch"),
        (["--watch", "r1:" + "9" * 5000], "is nothing to watch"),
    ],
)
def test_numbers_without_end(execute, options, reason):
    said = execute("r0 = 5; exit", *options)
    assert (said.status, said.out) == (1, "")
    assert reason in said.err


def test_batch_tells_of_lines_that_are_no_programs(pybpf, tmp_path):
    path = tmp_path / "batch.jsonl"
    good = '{"id": "a", "insns": "b7000000050000009500000000000000"}\n'
    path.write_text(good + "{\n" + good)
    said = pybpf("exec", "--batch", path)
    assert said.status == 1
    assert [json.loads(line)["r0"] for line in said.out.splitlines()] == [5, None, 5]
    assert said.err == f"error: {path}: line 2 holds no program\n"
    path.write_text(good + "[]\n\n1\n")
    assert pybpf("exec", "--batch", path).err == (
        f"error: {path}: 2 lines hold no program, the first is line 2\n"
    )


def test_files_without_end(pybpf, monkeypatch):
    monkeypatch.setattr(inputs, "_LONGEST", 1 << 20)
    for command in ("exec", "asm", "dis"):
        said = pybpf(command, "/dev/zero")
        assert said.status == 1
        assert said.err == "error: cannot read /dev/zero: it has more than 1 MiB\n"


def test_lines_without_end(pybpf, monkeypatch):
    monkeypatch.setattr(corpus, "_LINE", 1 << 20)
    said = pybpf("exec", "--batch", "/dev/zero")
    assert (said.status, said.out) == (1, "")
    assert said.err == "error: line 1: it has more than 1 MiB\n"
