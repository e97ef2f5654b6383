import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pybpf.cli import main
from pybpf.corpus import CorpusProgram, RunResult, Verdict, read_file
from pybpf.dataclass import replace
from pybpf.isa.assembler import assemble
from pybpf.testing import loops, oracles
from pybpf.testing.findings import Finding, write
from pybpf.testing.fuzzing import Fuzzer
from pybpf.testing.loops import Loop
from pybpf.testing.programs import programs
from pybpf.testing.shrink import shrink
from pybpf.testing.soundness import Compared, Tally, normalised

BAD = 0x1234


def bad(program):
    """Whether there is an addition of the bad number."""
    return b"\x07" in program.insns[::8] and BAD.to_bytes(4, "little") in program.insns


def a_program():
    text = "\n".join([*["r1 = 3"] * 9, f"r2 += {BAD}", *["if r1 == 2 goto out"] * 4, "out: exit"])
    return CorpusProgram("a", 1, bytes(assemble(text)))


def test_a_program_is_shrunk_to_what_is_wrong_with_it():
    small = shrink(a_program(), lambda candidates: map(bad, candidates))
    assert small.slots == 1
    assert small.insns.hex() == "0702000034120000"


def check(candidates):
    return ("it is bad\nindeed" if bad(each) else None for each in candidates)


def test_a_finding_is_made_small_told_once_and_kept(tmp_path):
    said = []
    loop = Loop("text", "nothing", lambda *_: iter([a_program()] * 3), check, batch=3)
    fuzzer = Fuzzer([loop], "6.12", 1, tmp_path, said.append, lambda _: None)
    fuzzer._check(loop, list(loop.source(0, 0, 0)))
    (finding,) = fuzzer.found.values()
    assert finding.program.slots == 1
    assert fuzzer.again == 2
    assert fuzzer.progress() == "text 3; 1 found"
    fuzzer.loops = [loop, Loop("runs", "later", lambda *_: iter(()), check)]
    assert fuzzer.progress() == "text 3, runs 0; 1 found"
    (line,) = said
    assert line.startswith("text: it is bad\nindeed\n  1 slots; reproduced by ")
    assert list(read_file(str(tmp_path / "text_a.jsonl"))) == [finding.program]
    assert list(fuzzer._read()) == [finding.program]


def test_the_reproducer_is_a_test(tmp_path):
    finding = Finding("text", "6.12", a_program(), "what was wrong")
    _, test = write(finding, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n0", str(test)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout  # since nothing is wrong with it


def test_an_exception_is_a_finding(monkeypatch):
    monkeypatch.setattr(loops, "round_trip", lambda _: 1 // 0)
    (loop,) = (each for each in loops.loops("6.12") if each.name == "text")
    assert list(loop.check([a_program()])) == [
        "ZeroDivisionError: integer division or modulo by zero"
    ]


def test_the_model_loop_tells_what_the_kernel_rejects(monkeypatch):
    some = list(programs(1, 3))
    models = dict(zip((p.id for p in some), ("accept", "reject", "accept"), strict=True))
    monkeypatch.setattr(oracles, "model_verdict", lambda p, _: Verdict(p.id, models[p.id]))

    def judge(asked, kernel):
        assert kernel == "6.12"
        assert [p.id for p in asked] == [some[0].id, some[2].id]
        return iter(
            [
                oracles.Judged(Verdict(some[0].id, "accept")),
                oracles.Judged(Verdict(some[2].id, "reject", 1, "no")),
            ]
        )

    monkeypatch.setattr(oracles, "judge", judge)
    found = list(loops.model_accepts(some, "6.12"))
    assert found[:2] == [None, None]
    assert found[2] == "unsound: Linux 6.12 says no\nat slot 1"


DIFFERENCES = [
    (RunResult("a", 1), RunResult("b", 1), None),
    (RunResult("a", errno=22), RunResult("b", 1), "errno\nthe kernel 0x16, the VM 0x0"),
    (RunResult("a", 1, b"x"), RunResult("b", 2, b"y"), "retval\nthe kernel 0x1, the VM 0x2"),
    (RunResult("a", data=b"xy"), RunResult("b"), "data\nthe kernel 2 bytes, the VM 0"),
    (
        RunResult("a", data=b"xyz"),
        RunResult("b", data=b"xza"),
        "data\nfrom byte 1 on the kernel 797a, the VM 7a61",
    ),
    (RunResult("a", maps=((),)), RunResult("b"), "maps\nthe kernel 1 of them, the VM 0"),
    (
        RunResult("a", maps=((), ((b"k", b"v"),))),
        RunResult("b", maps=((), ())),
        "maps\nmap 1: only the kernel has the key 6b",
    ),
    (
        RunResult("a", maps=(((b"k", b"v"),),)),
        RunResult("b", maps=(((b"k", b"w"),),)),
        "maps\nmap 0, key 6b: from byte 0 on the kernel 76, the VM 77",
    ),
]


@pytest.mark.parametrize(("kernel", "ours", "told"), DIFFERENCES)
def test_what_runs_differ_in(kernel, ours, told):
    assert loops.difference(kernel, ours, ("the kernel", "the VM")) == told


def test_numbers_and_packets_are_made_simple():
    program = replace(a_program(), data=bytes(range(40)))
    small = shrink(program, lambda candidates: (True for _ in candidates))
    assert (small.slots, small.data) == (1, bytes(14))


def test_a_tally_tells_unsound_accepts_first():
    some = list(programs(1, 4))
    tally = Tally()
    for program, kernel, model in (
        (some[0], Verdict("0", "reject", 1, "R7 off=5"), Verdict("0", "accept")),
        (some[1], Verdict("1", "accept"), Verdict("1", "reject", 1, "R1 off=6")),
        (some[2], Verdict("2", "accept"), Verdict("2", "unknown", None, "limit")),
        (some[3], Verdict("3", "accept"), Verdict("3", "accept")),
    ):
        tally.add(Compared(program, kernel, model))
    lines = list(tally.lines())
    assert lines[0] == (
        "4 programs, 3 accepted by the kernel; the same verdict: 1; unsound: 1; false rejections: "
        "1; unknown: 1; other words for a rejection: 0; no verdict of the kernel: 0"
    )
    assert [line.split()[0] for line in lines[1:4]] == ["unsound", "false", "unknown"]
    assert normalised("R7 off=5") == normalised("R1 off=6") == "R off=N"


def test_the_command_fuzzes(tmp_path, capsys):
    status = main(
        ["fuzz", "--minutes", "0.005", "--seed", "1", "--loops", "text", "--corpus", str(tmp_path)]
    )
    err = capsys.readouterr().err
    assert status == 0, err
    assert err.startswith("seed 1, Linux 6.12; loops: text\n")
    assert err.endswith("; 0 found\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--loops", "txt"], "error: there is no loop 'txt'; did you mean 'text'?"),
        (["--minutes", "0"], "error: --minutes takes a number above 0"),
        (["--kernel", "6.13"], "error: unknown kernel profile '6.13'"),
    ],
)
def test_arguments_that_make_no_sense(arguments, message, capsys):
    assert main(["fuzz", *arguments]) != 0
    assert capsys.readouterr().err.startswith(message)


def test_a_folder_that_nothing_can_be_kept_in(tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    for name, why in ((file, "File exists"), (file / "below", "Not a directory")):
        assert main(["fuzz", "--loops", "text", "--corpus", str(name)]) == 1
        assert capsys.readouterr().err == f"error: cannot write to {name}: {why}\n"


def test_without_a_checkout_the_kernel_loops_are_left_out(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(oracles, "_TOOL", tmp_path / "none")
    arguments = ["--minutes", "0.002", "--loops", "text,model", "--corpus", str(tmp_path)]
    assert main(["fuzz", *arguments]) == 0
    assert "left out: model (the model accepts nothing that a kernel rejects): guests need " in (
        capsys.readouterr().err
    )


def test_what_guests_lack_is_told(monkeypatch, tmp_path):
    problem = oracles.guest_problem
    assert problem("5.15") == "there are guests with 6.1, 6.12, 7.3, not with 5.15"
    monkeypatch.setenv("PYBPF_KERNELS", str(tmp_path))
    expected = "there is no kernel 6.12: run `python tools/guest.py fetch 6.12`"
    assert problem("6.12") == expected
    tmp_path.joinpath("6.12").mkdir()
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if name == "vng" else name)
    assert problem("6.12") == "a guest needs vng (pip install virtme-ng)"


def test_the_test_in_the_documentation_runs(tmp_path):
    page = (Path(__file__).parents[2] / "docs/fuzzing.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (mine,) = (block for block in blocks if "test_my_tool" in block)
    (fleet,) = (block for block in blocks if "register_profile" in block)
    tmp_path.joinpath("test_mine.py").write_text(mine)
    fleet = fleet.replace("/shared/examples", str(tmp_path)).replace("10_000", "10")
    tmp_path.joinpath("conftest.py").write_text(fleet)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n0",
         "--hypothesis-profile=fleet", str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout


def test_this_kernel_is_never_asked(monkeypatch):
    from pybpf.testing import guestbatch

    monkeypatch.delenv("PYBPF_GUEST", raising=False)
    monkeypatch.setattr(sys, "argv", ["guestbatch", "corpus.jsonl"])
    assert guestbatch.main() == 1
