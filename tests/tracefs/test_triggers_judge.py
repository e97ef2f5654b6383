"""The judge of triggers answers as the kernels that were recorded."""

import errno
import re

import pytest

from pybpf.dataclass import replace
from pybpf.tracefs.dynevents.judge import judge
from pybpf.tracefs.filters.judge import judge_filter
from pybpf.tracefs.triggers.judge import judge_trigger

KERNELS = ("6.1", "6.12", "7.3")
ENTER, SWITCH, WAKING = "raw_syscalls/sys_enter", "sched/sched_switch", "sched/sched_waking"

# The rows do not say on which event their set-up triggers were.
SETUP = {"hist:keys=pid:": WAKING, "hist:keys=next_pid:": SWITCH}


def set_up(world, steps):
    for text, number, *_ in steps:
        if text.startswith("hist:"):
            event = next(on for start, on in SETUP.items() if text.startswith(start))
            verdict = judge_trigger(text, event, world)
        else:
            verdict = judge(text, world)
        assert (errno.errorcode.get(verdict.errno), verdict.errors) == (number, ())
        world = verdict.after
    return world


def place_of(text, event, world):
    """Return where a removal was written: where a trigger is listed so, or to the row's event."""
    for trigger in world.triggers:
        if trigger.listed.removesuffix(" [active]") == text[1:]:
            return trigger.event
    return event


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_recorded_trigger_is_answered_alike(kernel, record):
    """Accepted or not, errno, log, and what the trigger file reads, after every write of a row."""
    wrong = []
    for row in record.rows(f"triggers-{kernel}"):
        world = set_up(record.world(kernel), row["setup"])
        event = row["event"].removeprefix("events/")
        writes = [
            (row["trigger"], row, True),
            *((s["trigger"], s, True) for s in row.get("steps", ())),
        ]
        writes += [(step["text"], step, False) for step in row["removal"]]
        for text, wanted, lists in writes:
            on = place_of(text, event, world)
            before = len(world.triggers)
            verdict = judge_trigger(text, on, world)
            world = verdict.after
            got = [(e.subsystem, e.message, e.command, e.column) for e in verdict.errors]
            log = [(e["sys"], e["msg"], e["cmd"], e["col"]) for e in wanted["errors"]]
            if (errno.errorcode.get(verdict.errno), got) != (wanted["errno"], log):
                wrong.append((row["id"], text, verdict.errno, got, log))
            elif lists and list(verdict.listed) != wanted["trigger_file"]:
                wrong.append((row["id"], text, verdict.listed))
            elif not lists and (len(world.triggers) < before) != wanted["gone"]:
                wrong.append((row["id"], text, "gone"))
    assert wrong == []


@pytest.mark.parametrize("kernel", KERNELS)
def test_made_up_filters_and_triggers_are_answered_as_live_kernels_did(kernel, record):
    wrong = []
    for row in record.rows(f"made-up-{kernel}"):
        if "setup" in row:
            start = record.prepared(replace(record.world(kernel), cpus=2), row["setup"])
        elif "filter" in row:
            verdict = judge_filter(row["filter"].encode("latin-1"), row["event"], start)
            file = verdict.file.encode("latin-1", "surrogateescape").decode("latin-1")
            if (*answer(verdict), file) != (row["errno"], row["errors"], row["file"]):
                wrong.append((row, answer(verdict), file))
        else:
            wrong += run(row["steps"], start)
    assert wrong == []


def answer(verdict):
    errors = [[e.subsystem, e.message, e.command, e.column] for e in verdict.errors]
    return errno.errorcode.get(verdict.errno), errors


def run(steps, world):
    """Yield the first of some triggers that is answered in another way."""
    for place, step in enumerate(steps):
        verdict = judge_trigger(step["trigger"].encode("latin-1"), step["event"], world)
        world = verdict.after
        files = {
            event: "".join(f"{t.listed}\n" for t in world.triggers if t.event == event)
            for event in step["files"]
        }
        # Counts went down before they were read.
        files = {on: re.sub(r"count=\d+", "count=N", text) for on, text in files.items()}
        if (*answer(verdict), files) != (step["errno"], step["errors"], step["files"]):
            yield [s["trigger"] for s in steps[: place + 1]], answer(verdict), files
            return


@pytest.mark.parametrize(
    ("expression", "number", "message"),
    [
        ("1+" * 1500 + "1", errno.EINVAL, "Too many subexpressions (3 max)"),
        ("prev_pid" + "*1" * 1500, errno.EINVAL, "Too many subexpressions (3 max)"),
        ("-" * 3000 + "1", errno.EINVAL, None),
    ],
)
def test_expressions_may_be_as_long_as_there_is_room(expression, number, message, record):
    verdict = judge_trigger(f"hist:keys=prev_pid:x={expression}", SWITCH, record.world("7.3"))
    assert (verdict.errno, verdict.message) == (number, message)
