"""Dynamic events on the running kernel: uprobes, which every kernel that traces has."""

import errno

import pytest

from pybpf.errors import DynEventError, KernelError, TargetError
from pybpf.kernel.ftrace.dynevents import add, dynamic_events, lacking, remove, users
from pybpf.kernel.ftrace.owner import new_owner
from pybpf.kernel.ftrace.world import live_world


def enter(context):
    with context:
        raise AssertionError("it was entered")


@pytest.fixture
def group():
    return f"{new_owner()}_t"


def test_events_are_there_for_a_block(tree, group, place):
    lines = [f"p:{group}/a {place('getppid')} x=%ax:u32", f"r:{group}/b {place('getppid')}"]
    with dynamic_events(lines, tree=tree) as (first, second):
        assert (first.name, second.name) == (f"{group}/a", f"{group}/b")
        assert first.format.field("x").size == 4
        assert first.format.name == f"{group}/a"
        assert f"p:{group}/a " in tree.read("dynamic_events")
    assert group not in tree.read("dynamic_events")


def test_all_or_none(tree, group, place):
    lines = [f"p:{group}/a {place('getppid')}", f"p:{group}/b {place('getppid')} x=%ay"]
    with pytest.raises(DynEventError, match="Invalid register name") as caught:
        enter(dynamic_events(lines, tree=tree))
    assert "x=%ay" in str(caught.value)
    assert group not in tree.read("dynamic_events")


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("à", "a name beyond ASCII is taken byte by byte, and may be cut", "use a to z"),
        ("enable", "tracefs has files called enable", "take another name"),
    ],
)
def test_names_that_kernels_take_and_should_not(name, message, hint, tree, group, place):
    lines = [f"p:{group}/{one} {place('getppid')}" for one in ("a", name)]
    with pytest.raises(DynEventError, match=message) as caught:
        add(lines, tree=tree)
    assert f"hint: {hint}" in str(caught.value)
    assert group not in tree.read("dynamic_events")


def test_what_only_the_kernel_refuses_undoes_the_rest(tree, group, place, monkeypatch):
    from pybpf.kernel.ftrace import dynevents

    lines = [f"p:{group}/a {place('getppid')}", f"p:{group}/b {place('getppid')} x=%ax"]
    judged = dynevents.judge_all

    def blind(texts, world):
        good, other = judged(texts, world)
        return [good, dynevents.replace(other, text=other.text.replace("%ax", "%ay"))]

    monkeypatch.setattr(dynevents, "judge_all", blind)
    with pytest.raises(DynEventError) as caught, dynamic_events(lines, tree=tree):
        pass
    assert "Invalid register name" in str(caught.value)
    assert caught.value.errno == errno.EINVAL
    assert group not in tree.read("dynamic_events")


def test_nothing_is_left_after_an_exception(tree, group, place):
    text = f"p:{group}/a {place('getppid')}"
    with pytest.raises(ZeroDivisionError), dynamic_events(text, tree=tree):
        raise ZeroDivisionError
    assert group not in tree.read("dynamic_events")


@pytest.mark.parametrize("text", ["-:x/y", "# nothing", "p:g/a /bin/cat:0\np:g/b /bin/cat:0"])
def test_what_defines_no_single_event(tree, text):
    with pytest.raises(DynEventError), dynamic_events(text, tree=tree):
        pass


def test_an_event_that_is_there_already(tree, group, place):
    text = f"p:{group}/a {place('getppid')}"
    with dynamic_events(text, tree=tree):
        with pytest.raises(DynEventError, match="There is already the exact same probe event"):
            enter(dynamic_events(text, tree=tree))
        assert f"{group}/a" in tree.read("dynamic_events")


def test_an_event_in_use_says_by_what(tree, made, group, place):
    (event,) = add([f"p:{group}/a {place('getppid')}"], tree=tree)
    try:
        with made.enabled(event.name):
            assert list(users(tree, event.name)) == [f"it is enabled in instance {made.name}"]
            with pytest.raises(KernelError) as caught:
                remove(tree, event.name)
            assert caught.value.errno == errno.EBUSY
            assert f"hint: it is enabled in instance {made.name}" in str(caught.value)
    finally:
        remove(tree, event.name)
    remove(tree, event.name)


def test_adding_leaves_events(tree, group, place):
    add([f"p:{group}/a {place('getppid')}"], tree=tree)
    assert group in tree.read("dynamic_events")
    remove(tree, f"{group}/a")


def test_what_the_kernel_was_built_without(tree, group):
    without = lacking(tree, live_world(tree))
    assert "uprobe" not in without
    if "eprobe" in without:
        assert without["eprobe"] == "event probes (CONFIG_EPROBE_EVENTS)"
        with pytest.raises(TargetError, match="CONFIG_EPROBE_EVENTS"):
            add([f"e:{group}/a sched.sched_switch"], tree=tree)
    else:
        with dynamic_events(f"e:{group}/a sched.sched_switch", tree=tree):
            pass


def test_a_second_place_of_an_event_is_refused(tree, group, place):
    """Removing it would remove the first too, which somebody else may have made."""
    with dynamic_events(f"p:{group}/a {place('getppid')}", tree=tree):
        with pytest.raises(DynEventError) as caught:
            add([f"p:{group}/a {place('abs')}"], tree=tree)
        assert f"there is an event {group}/a already" in str(caught.value)
        assert tree.read("dynamic_events").count(group) == 1
