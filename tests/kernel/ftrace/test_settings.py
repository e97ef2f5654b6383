"""What is set in tracefs is as it was when the block is left."""

import errno
import os

import pytest

from pybpf.errors import DynEventError, KernelError
from pybpf.kernel.ftrace.instance import Instance, enabled_in, instance, instances
from pybpf.kernel.ftrace.owner import new_owner
from pybpf.kernel.ftrace.world import live_world

SWITCH = "sched/sched_switch"


def enter(context):
    with context:
        pass


def test_an_instance_is_there_for_a_block(tree):
    name = str(new_owner())
    with instance(tree, name) as made:
        assert name in instances(tree)
        assert made.read("tracing_on") == "1\n"
    assert name not in instances(tree)


def test_an_instance_is_gone_after_an_exception(tree):
    name = str(new_owner())
    with pytest.raises(ZeroDivisionError), instance(tree, name):
        raise ZeroDivisionError
    assert name not in instances(tree)


def test_an_instance_cannot_be_made_twice(tree, made):
    with pytest.raises(KernelError, match=r"cannot make .*File exists"), instance(tree, made.name):
        pass
    assert made.name in instances(tree)


def test_an_instance_that_somebody_reads_stays(tree):
    name = str(new_owner())
    with pytest.raises(KernelError) as caught, instance(tree, name) as made:
        file = tree.open(f"{made.folder}trace_pipe", os.O_RDONLY)
    os.close(file)
    assert caught.value.errno == errno.EBUSY
    assert "a process has one of its files open" in str(caught.value)
    tree.rmdir(f"instances/{name}")


def test_a_setting_is_put_back(made):
    with made.setting("trace_clock", "mono"):
        assert "[mono]" in made.read("trace_clock")
        enter(made.setting("trace_clock", "mono"))
        assert "[mono]" in made.read("trace_clock")
    assert "[local]" in made.read("trace_clock")


def test_an_event_is_enabled_for_a_block(tree, made):
    with made.enabled(SWITCH):
        assert made.name in enabled_in(tree, SWITCH)
        enter(made.enabled(SWITCH))
        assert made.name in enabled_in(tree, SWITCH)
    assert made.name not in enabled_in(tree, SWITCH)


def test_an_unknown_event(made):
    with pytest.raises(KernelError, match="sched/sched_swich/enable: No such file"):
        enter(made.enabled("sched/sched_swich"))


def test_a_filter_is_put_back(tree, made):
    world = live_world(tree)
    path = f"events/{SWITCH}/filter"
    with made.filtered(SWITCH, "prev_pid == 1", world):
        with made.filtered(SWITCH, 'next_pid == 2 && prev_comm ~ "a*"', world):
            assert made.read(path) == 'next_pid == 2 && prev_comm ~ "a*"\n'
        assert made.read(path) == "prev_pid == 1\n"
    assert made.read(path) == "none\n"


def test_a_refused_filter_leaves_the_one_before(tree, made):
    """The kernel would drop it, and record all."""
    world = live_world(tree)
    with made.filtered(SWITCH, "prev_pid == 1", world):
        with pytest.raises(DynEventError, match="Field not found") as caught:
            enter(made.filtered(SWITCH, "prev_pit == 2", world))
        assert "did you mean prev_pid" in str(caught.value)
        assert made.read(f"events/{SWITCH}/filter") == "prev_pid == 1\n"


def test_a_trigger_is_removed(tree, made):
    world = live_world(tree)
    path = f"events/{SWITCH}/trigger"
    with made.triggered(SWITCH, "traceoff:3 if prev_pid == 1", world) as after:
        assert len(after.triggers) == len(world.triggers) + 1
        assert made.read(path) == "traceoff:count=3 if prev_pid == 1\n"
    assert "traceoff:count" not in made.read(path)


def test_a_refused_trigger(tree, made):
    with pytest.raises(DynEventError, match="Invalid argument"):
        enter(made.triggered(SWITCH, "traceof", live_world(tree)))


def test_clearing_removes_triggers_and_stops(made):
    made.write(f"events/{SWITCH}/trigger", "traceoff:3 if prev_pid == 1")
    made.write(f"events/{SWITCH}/trigger", "stacktrace")
    made.write(f"events/{SWITCH}/enable", "1")
    made.clear()
    assert made.read(f"events/{SWITCH}/trigger").startswith("# Available")
    assert made.read(f"events/{SWITCH}/enable") == "0\n"


def test_errors_of_others_are_not_ours(made):
    made.attempt(f"events/{SWITCH}/filter", "nothing == 1")
    number, entries = made.attempt(f"events/{SWITCH}/filter", "nothing == 2")
    assert number == errno.EINVAL
    assert [(e.message, e.command) for e in entries] == [("Field not found", "nothing == 2")]


def test_the_top_instance_is_one_too(tree):
    assert Instance(tree).read("dynamic_events") == tree.read("dynamic_events")
