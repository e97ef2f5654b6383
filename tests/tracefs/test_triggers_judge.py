"""The judge of triggers answers as the kernels that were recorded."""

import errno

import pytest

from pybpf.tracefs.dynevents.judge import judge
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
