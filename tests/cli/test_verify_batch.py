"""`pybpf verify --batch`: lines of JSON in, lines of JSON out, whatever the lines hold."""

import json
import lzma
import subprocess

import pytest

from pybpf.verifier import batch
from pybpf.verifier.batch import Judge, judge_lines

EXIT = "9500000000000000"
RETURN_1 = f"b700000001000000{EXIT}"
GOOD = {"id": "good", "prog_type": 6, "insns": RETURN_1}
BAD = {"id": "bad", "prog_type": 6, "insns": EXIT}
ACCEPTED = {"id": "good", "verdict": "accept", "insn": None, "message": "", "processed": 2}
REJECTED = {"id": "bad", "verdict": "reject", "insn": 0, "message": "R0 !read_ok", "processed": 1}


def lines(*rows):
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)


@pytest.fixture
def verify(pybpf, tmp_path):
    """Return a function that judges lines: exit status, answers, and what is on stderr."""

    def run(text, *options):
        path = tmp_path / "programs.jsonl"
        path.write_text(text)
        said = pybpf("verify", "--kernel", "6.12", "--batch", path, *options)
        return said.status, [json.loads(line) for line in said.out.splitlines()], said.err

    return run


def test_each_line_gets_a_verdict_in_its_order(verify):
    assert verify(lines(GOOD, BAD, "", GOOD)) == (0, [ACCEPTED, REJECTED, ACCEPTED], "")


def test_the_keys_have_an_order(pybpf, tmp_path):
    path = tmp_path / "one.jsonl"
    path.write_text(lines(BAD))

    assert pybpf("verify", "--kernel", "6.12", "--batch", path).out == (
        '{"id":"bad","verdict":"reject","insn":0,"message":"R0 !read_ok","processed":1}\n'
    )


def test_several_processes_say_the_same_in_the_same_order(verify):
    many = [GOOD | {"id": str(n)} if n % 3 else BAD | {"id": str(n)} for n in range(60)]

    status, answers, _ = verify(lines(*many), "--jobs", "2")

    assert status == 0
    assert [answer["id"] for answer in answers] == [str(n) for n in range(60)]
    assert [answer["verdict"] for answer in answers] == [
        "accept" if n % 3 else "reject" for n in range(60)
    ]


def test_maps_are_part_of_a_line(verify):
    lookup = {
        "id": 7,
        "prog_type": 1,
        "insns": "1811000000000000 0000000000000000 7a0af8ff00000000 bfa2000000000000"
        "07020000f8ffffff 8500000001000000 b700000000000000 9500000000000000",
        "maps": [{"type": 1, "key_size": 4, "value_size": 8, "max_entries": 1}],
        "fixups": [{"insn": 0, "kind": "map_fd", "map": 0}],
    }

    status, (answer,), _ = verify(lines(lookup))

    assert (status, answer["id"], answer["verdict"]) == (0, 7, "accept"), answer


MALFORMED = [
    ("{", None, ("line 2: no JSON: Expecting property name enclosed in double quotes: "
                "line 1 column 2 (char 1)")),
    ("[1]", None, "line 2: the program is no object"),
    ({"prog_type": 1, "insns": EXIT}, None, 'line 2: "id" is missing'),
    ({"id": "x", "insns": EXIT}, "x", 'line 2: "prog_type" is missing'),
    ({"id": "x", "prog_type": 1}, "x", 'line 2: "insns" is missing'),
    ({"id": "x", "prog_type": 1, "insns": "950"}, "x", 'line 2: "insns" is not in hexadecimal'),
    ({"id": "x", "prog_type": 1, "insns": "9500"}, "x",
     'line 2: "insns" ends within a slot: 2 bytes'),
    ({"id": "x", "prog_type": -1, "insns": EXIT}, "x",
     'line 2: "prog_type" is no number of 32 bits'),
    ({"id": "x", "prog_type": 1, "insns": EXIT, "fixups": [{"insn": 3, "map": 0}]}, "x",
     "line 2: a fixup of slot 3, of 1"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "ident", "message"), MALFORMED)
def test_a_line_that_holds_no_program_is_named_and_the_others_go_on(verify, line, ident, message):
    status, answers, error = verify(lines(GOOD, line, BAD))

    assert answers[::2] == [ACCEPTED, REJECTED]
    assert answers[1] == {
        "id": ident, "verdict": "unknown", "insn": None, "message": message, "processed": 0,
    }  # fmt: skip
    assert status == 1
    assert error.startswith("error: ")
    assert error.endswith("programs.jsonl: line 2 holds no program\n")


def test_many_lines_that_hold_no_program_are_counted(verify):
    _, answers, error = verify(lines(GOOD, "x", "y"), "--jobs", "2")

    assert len(answers) == 3
    assert error.endswith("programs.jsonl: 2 lines hold no program, the first is line 2\n")


def test_bytes_that_are_no_text(pybpf, tmp_path):
    path = tmp_path / "bytes.jsonl"
    path.write_bytes(b"\xff\xfe\n" + lines(GOOD).encode())

    said = pybpf("verify", "--kernel", "6.12", "--batch", path)

    assert said.status == 1
    assert json.loads(said.out.splitlines()[1]) == ACCEPTED


def test_an_error_in_the_model_is_one_programs(verify, monkeypatch):
    real = batch.verify_within

    def fail(program, *arguments, **options):
        if program.id == "bad":
            monkeypatch.setattr("pybpf.verifier.within.verify", lambda *_, **__: {}["missing"])
        else:
            monkeypatch.undo()
        return real(program, *arguments, **options)

    monkeypatch.setattr(batch, "verify_within", fail)
    status, answers, _ = verify(lines(BAD, GOOD))

    assert status == 0
    assert answers[0]["message"] == "internal: KeyError: 'missing'"
    assert answers[0]["verdict"] == "unknown"
    assert answers[1] == ACCEPTED


def test_a_process_that_ends_takes_no_other_program_with_it(monkeypatch):
    # Workers are forked: they see what is patched here.
    monkeypatch.setattr(batch, "parse_program", _parse_or_die)
    rows = [GOOD | {"id": str(n)} for n in range(12)]
    rows[5]["id"] = "deadly"

    answers = [
        json.loads(answer.text)
        for answer in judge_lines(map(json.dumps, rows), Judge("6.12", 10), jobs=2)
    ]

    assert [answer["id"] for answer in answers] == [row["id"] for row in rows]
    assert answers[5]["message"] == "internal: the process that judged it was killed"
    assert {a["verdict"] for a in answers if a["id"] != "deadly"} == {"accept"}


def _parse_or_die(line, number):
    import os

    from pybpf.corpus import parse_program

    if "deadly" in line:
        os._exit(1)
    return parse_program(line, number)


# 2 bits of r0 are tested again and again: as many paths as there are turns.
UNBOUNDED = {
    "id": "long",
    "prog_type": 6,
    "insns": f"8500000007000000 0700000001000000 2500000001000000 0500fdff00000000{RETURN_1}",
}


def test_what_takes_too_long_is_unknown(monkeypatch):
    def never(*_, **__):
        while True:
            pass

    monkeypatch.setattr("pybpf.verifier.within.verify", never)
    monkeypatch.setattr("pybpf.verifier.within._deadline", _soon(batch))
    (answer,) = judge_lines([json.dumps(GOOD)], Judge("6.12", 1))

    assert json.loads(answer.text)["message"] == "limit: 1 s of processor time"


def _soon(_):
    from pybpf.verifier.within import _deadline

    return lambda _seconds: _deadline(0.01)


def test_answers_are_written_as_soon_as_they_are_known(start):
    child = start("verify", "--kernel", "6.12", "--batch", "-", stdin=subprocess.PIPE)
    for row, answer in ((GOOD, ACCEPTED), (BAD, REJECTED)):
        child.stdin.write(lines(row))
        child.stdin.flush()
        assert json.loads(child.stdout.readline()) == answer
    assert child.end().status == 0


def test_standard_input_without_a_line_end(pybpf, stdin):
    stdin(json.dumps(GOOD).encode())

    said = pybpf("verify", "--kernel", "6.12", "--batch", "-")

    assert (said.status, json.loads(said.out)) == (0, ACCEPTED)


def test_a_file_that_is_compressed(pybpf, tmp_path):
    path = tmp_path / "programs.jsonl.xz"
    path.write_bytes(lzma.compress(lines(GOOD).encode()))
    assert json.loads(pybpf("verify", "--kernel", "6.12", "--batch", path).out) == ACCEPTED

    path.write_bytes(b"no xz")
    said = pybpf("verify", "--kernel", "6.12", "--batch", path)
    assert said.status == 1
    assert said.err.startswith(f"error: cannot read {path}: ")


NOP = "b700000000000000"
BIG = [
    ("none", "", "reject", ""),
    ("one", EXIT, "reject", "R0 !read_ok"),
    ("no exit", NOP * 3, "reject", "last insn is not an exit or jmp"),
    ("falls out", NOP + "1500000000000000", "reject", "jump out of range from insn 1 to 2"),
    ("more than a million", NOP * 1_000_000 + EXIT, "reject", ""),
    ("many that nobody reaches", EXIT * 50_000, "reject", "unreachable insn 1"),
    ("a row of loops", NOP + "0500ffff00000000" * 50_000, "reject", "unreachable insn 2"),
    ("many", NOP * 50_000 + EXIT, "accept", ""),
    ("many branches", NOP + "1500000000000000" * 20_000 + EXIT, "accept", ""),
    ("calls of calls", "8510000000000000" * 300 + NOP + EXIT, "reject", "too many subprograms"),
]


@pytest.mark.parametrize(("name", "insns", "verdict", "message"), BIG)
def test_large_and_empty_programs_get_a_verdict(name, insns, verdict, message):
    line = json.dumps({"id": name, "prog_type": 1, "insns": insns})

    (answer,) = judge_lines([line], Judge("6.12", 60))

    row = json.loads(answer.text)
    assert (row["verdict"], row["message"]) == (verdict, message)


def test_a_loop_without_an_end_that_can_be_seen_is_not_followed_for_ever():
    answers = judge_lines([json.dumps(UNBOUNDED)], Judge("6.12", 60))

    row = json.loads(next(iter(answers)).text)
    assert row["verdict"] in {"accept", "reject"} or row["message"].startswith("limit: ")


MAPS = [
    ({"type": 27, "max_entries": 4096}, "5.10", "accept", ""),
    ({"type": 27, "max_entries": 4097}, "6.12", "reject", "cannot create map 0: ringbuf:0:0:4097"),
    (
        {"type": 2, "key_size": 8, "value_size": 8, "max_entries": 1, "map_flags": 1}, "6.12",
        "reject", "cannot create map 0: array:8:8:1, flags 0x1",
    ),
    (
        {"type": 30, "value_size": 4, "max_entries": 1}, "5.10",
        "reject", "cannot create map 0: Linux 5.10 has no bloom_filter maps",
    ),
    ({"type": 999}, "5.10", "reject", "cannot create map 0: Linux 5.10 has no type 999 maps"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "kernel", "verdict", "message"), MAPS)
def test_maps_that_no_kernel_makes(pybpf, tmp_path, made, kernel, verdict, message):
    path = tmp_path / "one.jsonl"
    path.write_text(lines(GOOD | {"maps": [made]}))

    answer = json.loads(pybpf("verify", "--kernel", kernel, "--batch", path).out)
    assert (answer["verdict"], answer["message"]) == (verdict, message)
