"""Random definitions, filters and triggers are judged as the running kernel judges them."""

import errno
import os
import platform
import re
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from pybpf.btf.reader import Btf
from pybpf.kernel.live import LiveTarget
from pybpf.testing.dynevents import definition
from pybpf.testing.filters import SYNTHETIC, event_filter
from pybpf.testing.triggers import writes
from pybpf.tracefs.dynevents.judge import judge
from pybpf.tracefs.dynevents.rules import rules_for
from pybpf.tracefs.dynevents.symbols import repeated_names
from pybpf.tracefs.dynevents.world import Formats, World
from pybpf.tracefs.filters.judge import judge_filter
from pybpf.tracefs.triggers.judge import judge_trigger

pytestmark = pytest.mark.one_cpu

ROUNDS, EACH = 5, 1000
FILTERS = TRIGGERS = 2000
TRACING = Path("/sys/kernel/tracing")
BTF = Path("/sys/kernel/btf/vmlinux")


def read(path):
    return (TRACING / path).read_text(errors="surrogateescape")


def write(path, text):
    """Write in one call, and return the errno, 0 if there is none."""
    file = os.open(TRACING / path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, text.encode("utf-8", "surrogateescape"))
    except OSError as error:
        return error.errno
    finally:
        os.close(file)
    return 0


@pytest.fixture(scope="module")
def world():
    """Return all that the judge may know of the running kernel."""
    if not (TRACING / "dynamic_events").exists():
        pytest.skip("tracefs is not mounted, or the kernel has no dynamic events")
    if "e[:[<group>/][<event>]]" not in read("README"):
        pytest.skip("the kernel has no event probes")
    texts = {
        f"{path.parent.parent.name}/{path.parent.name}": path.read_text()
        for path in (TRACING / "events").glob("*/*/format")
    }
    symbols = [line.split() for line in Path("/proc/kallsyms").read_text().splitlines()]
    rules = rules_for(platform.release())
    return World(
        rules,
        Formats(texts),
        functions=frozenset(LiveTarget().functions()),
        symbols={words[2] for words in symbols},
        repeated=repeated_names((" ".join(words[2:]) for words in symbols), rules),
        types=Btf(BTF.read_bytes()) if rules.btf_args else None,
        cpus=os.cpu_count(),
        files=lambda path: kind_of(Path("/", path)),
    )


def kind_of(path):
    if not path.exists():
        return "missing"
    return "regular" if path.is_file() else "other"


ENTRY = re.compile(r"\[ *[\d.]+\] (.*?): error: (.*)\n  Command: ((?:.|\n)*?)\n( *)\^\n")


def log():
    """Return the entries of the error_log: who, what, about which command, where."""
    entries = ENTRY.findall(read("error_log"))
    return [(who, what, command, len(spaces) - 11) for who, what, command, spaces in entries]


@contextmanager
def defined(text):
    """Write a definition, give the errno, and remove what it made."""
    (TRACING / "error_log").open("w").close()
    try:
        yield write("dynamic_events", text)
    finally:
        for line in reversed(read("dynamic_events").splitlines()):
            write("dynamic_events", "-:" + line.split()[0].partition(":")[2])


def without_id(text):
    return None if text is None else re.sub(r"\nID: \d+\n", "\nID: N\n", text)


def formats(verdict):
    found = {}
    for event in verdict.made:
        path = TRACING / "events" / event.name / "format"
        found[event.name] = path.read_text() if path.exists() else None
    return {name: without_id(text) for name, text in found.items()}


def difference(text, world):
    """Return how kernel and judge differ on a definition, None if they do not."""
    verdict = judge(text, world)
    ours = [(e.subsystem, e.message, e.command, e.column) for e in verdict.errors]
    with defined(text) as number:
        if number != verdict.errno:
            return text, errno.errorcode.get(number, 0), errno.errorcode.get(verdict.errno, 0)
        # Kernel 6.12 computes a place from a pointer that is none after a path: it is beyond all.
        theirs = [entry for entry in log() if entry[3] <= len(entry[2]) + 1]
        if number:
            if len(theirs) == len(log()) and theirs != ours:
                return text, theirs, ours
            return None
        if verdict.made and read("dynamic_events").splitlines() != list(verdict.listing):
            return text, read("dynamic_events"), verdict.listing
        told = {name: without_id(text) for name, text in verdict.formats.items()}
        return None if told == formats(verdict) else (text, formats(verdict), told)


@pytest.mark.guest
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_random_definitions_are_judged_as_by_the_kernel(seed, world):
    assert read("dynamic_events") == "", "there are dynamic events already"
    random = Random(seed)
    texts = [definition(random) for _ in range(EACH)]
    differences = [found for text in texts if (found := difference(text, world))]
    assert not differences, "\n".join(map(str, differences))


def in_words(verdict):
    errors = [(e.subsystem, e.message, e.command, e.column) for e in verdict.errors]
    return errno.errorcode.get(verdict.errno), errors


@contextmanager
def written(path, text):
    """Write to a file of tracefs; give the errno by name and the log."""
    (TRACING / "error_log").open("w").close()
    yield errno.errorcode.get(write(path, text)), log()


@pytest.fixture
def synthetic(world):
    """Return the world with the synthetic events that random filters and triggers name."""
    assert read("dynamic_events") == "", "there are dynamic events already"
    tracing = read("tracing_on")
    write("tracing_on", "0")
    after = world
    for text in SYNTHETIC:
        assert write("dynamic_events", text) == 0
        after = judge(text, after).after
    yield after
    for event in after.existing:
        assert write("dynamic_events", f"-:{event.name}") == 0
    write("tracing_on", tracing)


@pytest.mark.guest
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_random_filters_are_judged_as_by_the_kernel(synthetic):
    random, differences = Random(1), []
    for _ in range(FILTERS):
        event, text = event_filter(random)
        path = f"events/{event}/filter"
        verdict = judge_filter(text, event, synthetic)
        with written(path, text) as answer:
            if (answer, read(path)) != (in_words(verdict), verdict.file):
                differences.append((event, text, answer, in_words(verdict), read(path)))
        write(path, "0")
    assert not differences, "\n".join(map(str, differences))


COUNT = re.compile(r"count=\d+")


def listed(event):
    """Return the triggers of an event as they are listed; counts may have run down."""
    lines = read(f"events/{event}/trigger").splitlines()
    return [COUNT.sub("count=N", line) for line in lines if not line.startswith("#")]


def trigger_difference(steps, world):
    """Return how kernel and judge first differ in some writes, None if they do not."""
    for place, (event, text) in enumerate(steps):
        verdict = judge_trigger(text, event, world)
        world = verdict.after
        with written(f"events/{event}/trigger", text) as answer:
            if answer != in_words(verdict):
                return steps[: place + 1], answer, in_words(verdict)
        for on in {event for event, _ in steps}:
            ours = [t.listed for t in world.triggers if t.event == on]
            ours = [COUNT.sub("count=N", line) for line in "\n".join(ours).split("\n") if line]
            if listed(on) != ours:
                return steps[: place + 1], on, listed(on), ours
    return None


def untrigger(steps):
    """Remove what some writes left: those triggers first that refer to others."""
    events = {event for event, _ in steps}
    for _ in range(6):
        for event, text in reversed(steps):
            write(f"events/{event}/trigger", "!" + text.strip().removeprefix("!"))
        for event in events:
            for line in read(f"events/{event}/trigger").splitlines():
                if not line.startswith("#"):
                    write(f"events/{event}/trigger", "!" + re.sub(r" \[\w+\]$", "", line))
        if not any(map(listed, events)):
            return
    raise AssertionError([steps, *map(listed, events)])


@pytest.mark.guest
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_random_triggers_are_judged_as_by_the_kernel(synthetic):
    random, differences, done = Random(1), [], 0
    while done < TRIGGERS:
        steps = writes(random)
        done += len(steps)
        if found := trigger_difference(steps, synthetic):
            differences.append(found)
        untrigger(steps)
    assert not differences, "\n".join(map(str, differences))
