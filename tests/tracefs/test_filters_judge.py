"""The judge of filters answers as the kernels that were recorded."""

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybpf.dataclass import replace
from pybpf.errors import TargetError
from pybpf.tracefs.dynevents.rules import rules_for
from pybpf.tracefs.dynevents.world import World
from pybpf.tracefs.filters.judge import judge_filter

KERNELS = ("6.1", "6.12", "7.3")


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_recorded_filter_is_answered_alike(kernel, record):
    """Accepted or not, errno, log, and what the filter file reads."""
    wrong = []
    for row in record.rows(f"filters-{kernel}"):
        world = record.prepared(record.world(kernel), row["setup"])
        if row["at"] == "open":
            with pytest.raises(TargetError, match=f"no event: {row['event']}"):
                judge_filter(row["filter"], row["event"], world)
            continue
        # The recorder wrote a line end where there was nothing else to write.
        verdict = judge_filter(row["filter"] or "\n", row["event"], world)
        log = [(e.subsystem, e.message, e.command, e.column) for e in verdict.errors]
        wanted = [(e["sys"], e["msg"], e["cmd"], e["col"]) for e in row["errors"]]
        number = errno.errorcode[verdict.errno] if verdict.errno else None
        got = (verdict.accepted, number, log, verdict.file)
        if got != (row["accepted"], row["errno"], wanted, row["filter_file"]):
            wrong.append((row["id"], row["filter"], got))
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "number", "message", "column"),
    [
        ("prev_pid == 1 &&", "EINVAL", "Meaningless filter expression", 16),
        ("prev_pid == 1 || next_pid == 1 && !", "EINVAL", "Meaningless filter expression", 35),
        ("prev_pid == 1 && && next_pid == 1", "EPERM", "Error", 0),
        ("!", "EINVAL", "No filter found", 1),
        ("()", "EINVAL", "Error", 0),
        ("prev_pid == 1)", "EPERM", "Too few '('", 13),
        ("prev_pid == 1 ((", "ENOENT", "Too many '('", 15),
        ("prev_pid == 1 (prev_pid == 1)", "EPERM", "Too many terms in predicate expression", 14),
        ("prev_comm == 'a", "ESRCH", "Missing matching quote", 13),
        ("prev_pid == 0x", "EINVAL", "Illegal integer value", 13),
        ("prev_pid == 123456789012345678901234", "EINVAL", "Operand too long", 37),
        ("prev_comm.function == schedule", "EINVAL", "Illegal operation for field type", 23),
        ("prev_state.function == 12", "EINVAL", "Function not found", 26),
        ("prev_pid == CPUS", "EINVAL", "Missing '{'", 18),
        ("CPU == CPUS{}", "EINVAL", "Invalid cpulist", 13),
        ("COMM == CPUS{0}", "EINVAL", "Illegal operation for field type", 9),
        ("CPU & CPUS{0,2-3,4-6:1/2,N,all}", None, None, None),
        ("CPU & CPUS{2-1}", "EINVAL", "Invalid cpulist", 15),
        ("CPU & CPUS{8}", "EINVAL", "Invalid cpulist", 13),
        ("prev_pid == 1\0 nonsense", None, None, None),
        ("\xe9 == 1", "EINVAL", "Field not found", 2),
    ],
)
def test_corners(text, number, message, column, record):
    world = replace(record.world("7.3"), cpus=8)
    verdict = judge_filter(text.encode("latin-1"), "sched/sched_switch", world)
    wanted = errno.errorcode.get(verdict.errno)
    assert (wanted, verdict.message, verdict.column) == (number, message, column)


def test_what_is_too_long_changes_nothing(record):
    verdict = judge_filter("x" * 4096, "sched/sched_switch", record.world("7.3"), before="a == 1\n")
    assert (verdict.errno, verdict.errors, verdict.file) == (errno.EINVAL, (), "a == 1\n")


def test_what_is_not_known_is_taken_to_be_there():
    verdict = judge_filter("a.function == f", "x/y", World(rules_for("6.12")))
    assert verdict.accepted
    assert verdict.assumptions == (
        "the fields of the event are not known: those of the filter are taken",
        "the symbols of the kernel are not known: f is taken to exist",
    )
    verdict = judge_filter("a.function == 0xffffffff81000000", "x/y", World(rules_for("6.12")))
    assert "where the kernel's functions are is not known" in verdict.assumptions[1]


WORDS = ("prev_pid", "prev_comm", "CPU", "COMM", "nosuch", "==", "!=", "~", "&", "<", "&&", "||")
PIECES = st.sampled_from((*WORDS, "!", "(", ")", "1", "-1", '"a"', "'", "CPUS{0}", ".ustring", " "))


@settings(deadline=None)
@given(st.one_of(st.text(max_size=30), st.lists(PIECES, max_size=14).map("".join)))
def test_no_text_raises(record, text):
    for kernel in KERNELS:
        verdict = judge_filter(text, "sched/sched_switch", record.world(kernel))
        if text and text.strip(" \t\n\v\f\r\xa0") != "0" and "\0" not in text:
            assert verdict.accepted == (verdict.value is not None)
