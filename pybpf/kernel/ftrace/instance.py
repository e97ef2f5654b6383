"""Instances of the tracer: a name in; buffers, events, filters and triggers apart from others' out.

Each block puts back what was there before it, also when it is left by an exception. What it sets is
read back: the kernel accepts some of what it does not do.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pybpf.errors import Diagnostic, KernelError
from pybpf.kernel.ftrace.errorlog import added, read_log
from pybpf.kernel.tracefs import Tree
from pybpf.tracefs.dynevents.log import LogEntry
from pybpf.tracefs.dynevents.world import World
from pybpf.tracefs.filters.explain import KEPT, explain_filter, filter_warnings
from pybpf.tracefs.filters.judge import NONE, FilterVerdict, judge_filter
from pybpf.tracefs.triggers.explain import explain_trigger, trigger_error
from pybpf.tracefs.triggers.judge import judge_trigger

INSTANCES = "instances"
_ENTRIES = re.compile(r"^entries: (\d+)", re.MULTILINE)


class Instance:
    """One instance, or the top of tracefs where ``name`` is empty."""

    __slots__ = ("folder", "name", "tree")

    def __init__(self, tree: Tree, name: str = "") -> None:
        self.tree = tree
        self.name = name
        self.folder = f"{INSTANCES}/{name}/" if name else ""

    def read(self, path: str) -> str:
        """Return the text of a file. Raises KernelError where there is none."""
        try:
            return self.tree.read(self.folder + path)
        except FileNotFoundError:
            where = f"{self.tree.where}/{self.folder}{path}"
            raise KernelError(errno.ENOENT, f"cannot read {where}") from None

    def write(self, path: str, text: str, *, truncate: bool = False) -> None:
        """Write to a file in one call. Raises KernelError."""
        self.tree.write(self.folder + path, text, truncate=truncate)

    def attempt(self, path: str, text: str) -> tuple[int, tuple[LogEntry, ...]]:
        """Write to a file; return the errno, 0 if it went well, and what the error_log says."""
        before = read_log(self.tree, self.folder)
        try:
            self.write(path, text)
        except KernelError as error:
            after = read_log(self.tree, self.folder)
            return error.errno or errno.EIO, added(before, after, text)
        return 0, ()

    @contextmanager
    def setting(self, path: str, text: str) -> Iterator[None]:
        """Let a file read ``text`` for the time of a block. Raises KernelError."""
        before = _chosen(self.read(path))
        if before == text:
            yield
            return
        self.write(path, text, truncate=True)
        try:
            yield
        finally:
            self.write(path, before, truncate=True)

    @contextmanager
    def enabled(self, event: str, shown: str = "") -> Iterator[None]:
        """Record an event ``group/event``; afterwards only if it was recorded before.

        ``shown`` is what messages call it.
        An eprobe that is enabled in two instances records in one, and goes on when that is
        disabled: raises KernelError (EBUSY) where it is enabled elsewhere.
        """
        path = f"events/{event}/enable"
        before = self.read(path).strip()
        others = [i for i in enabled_in(self.tree, event) if i != self.name]
        if others and _is_eprobe(self.tree, event):
            where = ", ".join(shown_instance(i) for i in others)
            hint = f"an eprobe records in one instance at a time; it is enabled in {where}"
            raise KernelError(errno.EBUSY, f"cannot enable {shown or event}", hints=(hint,))
        if before.startswith("1"):
            yield
            return
        try:
            self.write(path, "1")
        except KernelError as error:
            # What is wrong with a place in a program is found out when it is used.
            number, hints = error.errno or errno.EIO, ("the kernel's log may say why: dmesg",)
            raise KernelError(number, f"cannot enable {shown or event}", hints=hints) from None
        try:
            if not self.read(path).startswith("1"):
                raise KernelError(errno.EIO, f"{shown or event} does not stay enabled")
            yield
        finally:
            self.write(path, "0")

    @contextmanager
    def filtered(self, event: str, text: str, world: World) -> Iterator[None]:
        """Record only the hits of an event that a filter lets through; then those as before.

        A filter that the kernel refuses would drop the one before it: it is judged first, and put
        back otherwise. Raises DynEventError, KernelError.
        """
        path = f"events/{event}/filter"
        before = self.read(path)
        self.set_filter(event, text, world)
        try:
            yield
        finally:
            self.write(path, _again(before))

    def set_filter(self, event: str, text: str, world: World) -> tuple[Diagnostic, ...]:
        """Set a filter, or leave the one there is; return what it does not do, though it looks so.

        Raises DynEventError, KernelError.
        """
        path = f"events/{event}/filter"
        before = self.read(path)
        verdict = judge_filter(text, event, world)
        if not verdict.accepted:
            raise explain_filter(text, verdict, event, world, KEPT)
        number, entries = self.attempt(path, text)
        if not number and self.read(path) == verdict.file:
            return filter_warnings(text, verdict, event, world)
        self.write(path, _again(before))
        if number:
            refused = FilterVerdict(number, entries, before, None, ())
            raise explain_filter(text, refused, event, world, KEPT)
        raise KernelError(errno.EIO, f"the filter of {event} is not what was set")

    @contextmanager
    def triggered(self, event: str, text: str, world: World) -> Iterator[World]:
        """Set a trigger on an event, and remove it; give the world with it.

        ``world`` knows the triggers that were set before in this way. Removing one that does not
        match succeeds and removes none, so what is left is read. Raises DynEventError, KernelError;
        EBUSY at the end where another histogram refers to this one's variables.
        """
        path = f"events/{event}/trigger"
        verdict = judge_trigger(text, event, world)
        if not verdict.accepted:
            raise explain_trigger(text, verdict, event, world)
        before = self._triggers(path)
        number, entries = self.attempt(path, text)
        if number:
            raise trigger_error(text, entries, number, event, world)
        try:
            if len(self._triggers(path)) <= len(before):
                raise KernelError(errno.EIO, f"{event} has no such trigger after it was set")
            yield verdict.after
        finally:
            self._untrigger(event, path, text, len(before))

    def _triggers(self, path: str) -> list[str]:
        return listed_triggers(self.read(path))

    def _untrigger(self, event: str, path: str, text: str, count: int) -> None:
        try:
            self.write(path, f"!{text}")
        except KernelError as error:
            hints = ("another histogram refers to its variables: remove that first",)
            number = error.errno or errno.EIO
            raise KernelError(number, f"cannot remove a trigger of {event}", hints=hints) from None
        if len(self._triggers(path)) > count:
            raise KernelError(errno.EIO, f"a trigger of {event} is still there: {text}")

    def waiting(self) -> int:
        """Return how many records wait in the buffers of all CPUs."""
        folder = f"{self.folder}per_cpu"
        texts = (self.read(f"per_cpu/{cpu}/stats") for cpu in self.tree.names(folder))
        return sum(int(match[1]) for text in texts if (match := _ENTRIES.search(text)))

    def clear(self) -> None:
        """Stop all that is recorded, and remove all triggers: those first that refer to others."""
        self.write("events/enable", "0")
        busy = True
        while busy:
            found = [(path, line) for path in self._paths() for line in self._triggers(path)]
            busy = bool(found) and any(self._remove(path, line) for path, line in found)

    def _paths(self) -> Iterator[str]:
        for group in self.tree.names(f"{self.folder}events"):
            with suppress(KernelError):
                for event in self.tree.names(f"{self.folder}events/{group}"):
                    path = f"events/{group}/{event}/trigger"
                    if self.tree.exists(self.folder + path):
                        yield path

    def _remove(self, path: str, line: str) -> bool:
        """Remove a trigger by how it is listed; say whether it is gone."""
        count = len(self._triggers(path))
        for end in (" [active]", " [paused]", ":unlimited"):
            line = line.removesuffix(end)
        with suppress(KernelError):
            self.write(path, f"!{line}")
        return len(self._triggers(path)) < count


def listed_triggers(text: str) -> list[str]:
    """Return the triggers that the text of a ``trigger`` file lists."""
    return [line for line in text.split("\n") if line and not line.startswith("#")]


def _again(before: str) -> str:
    """Return what to write to a ``filter`` file to have it read ``before``."""
    return "0" if before == NONE or "parse_error:" in before else before.strip()


def _chosen(text: str) -> str:
    """Return what a file is set to: one that lists its choices has it in brackets."""
    _, bracket, rest = text.partition("[")
    return rest.partition("]")[0] if bracket else text.strip()


def _is_eprobe(tree: Tree, event: str) -> bool:
    with suppress(FileNotFoundError):
        return f"e:{event} " in tree.read("dynamic_events")
    return False


def instances(tree: Tree) -> tuple[str, ...]:
    """Return the names of the instances there are."""
    return tree.names(INSTANCES) if tree.exists(INSTANCES) else ()


def enabled_in(tree: Tree, event: str) -> list[str]:
    """Return the instances that record an event; the empty name is the top one."""
    return [name for name, text in _in_each(tree, event, "enable") if text.startswith("1")]


def filters_in(tree: Tree, event: str) -> dict[str, str]:
    """Return the filters of an event by instance; the empty name is the top one."""
    texts = _in_each(tree, event, "filter")
    return {name: text.strip() for name, text in texts if _again(text) != "0"}


def triggers_in(tree: Tree, event: str) -> dict[str, list[str]]:
    """Return the triggers of an event by instance, as they are listed."""
    texts = _in_each(tree, event, "trigger")
    return {name: lines for name, text in texts if (lines := listed_triggers(text))}


def _in_each(tree: Tree, event: str, file: str) -> Iterator[tuple[str, str]]:
    """Yield what a file of an event reads in each instance, and the instance's name."""
    for name in ("", *instances(tree)):
        with suppress(FileNotFoundError):  # the instance has just gone
            yield name, tree.read(f"{Instance(tree, name).folder}events/{event}/{file}")


def shown_instance(name: str) -> str:
    """Return what messages call an instance."""
    return f"instance {name}" if name else "the top instance"


@contextmanager
def instance(tree: Tree, name: str) -> Iterator[Instance]:
    """Make an instance, and remove it. Raises KernelError.

    While a file of it is open it cannot be removed by anybody (EBUSY).
    """
    made = Instance(tree, name)
    tree.mkdir(made.folder.rstrip("/"))
    try:
        yield made
    finally:
        remove_instance(made)


def remove_instance(made: Instance) -> None:
    """Remove an instance; that its triggers are gone takes the kernel a moment. Raises KernelError.

    An instance that is gone already is none's fault.
    """
    import time

    path = made.folder.rstrip("/")
    for pause in (0.0, 0.01, 0.1, 0.5, 1.0):
        time.sleep(pause)
        try:
            made.tree.rmdir(path)
        except KernelError as error:
            if error.errno == errno.ENOENT:
                return
            if error.errno != errno.EBUSY:
                raise
        else:
            return
    hints = ("a process has one of its files open, or a mapped buffer",)
    raise KernelError(errno.EBUSY, f"cannot remove {made.tree.where}/{path}", hints=hints)
