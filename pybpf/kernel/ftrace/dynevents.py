"""Dynamic events of the running kernel: definitions in, events for the time of a block out."""

from __future__ import annotations

import errno
import os
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext

from pybpf.dataclass import dataclass, replace
from pybpf.errors import Diagnostic, DynEventError, KernelError, TargetError
from pybpf.kernel.ftrace.instance import Instance, enabled_in, shown_instance, triggers_in
from pybpf.kernel.ftrace.world import is_known, listed, live_world
from pybpf.kernel.tracefs import Tree, open_tracefs
from pybpf.source import Source, Span
from pybpf.tracefs.dynevent import DynEvent
from pybpf.tracefs.dynevents.existing import Existing
from pybpf.tracefs.dynevents.explain import explain
from pybpf.tracefs.dynevents.judge import Verdict, judge
from pybpf.tracefs.dynevents.pitfalls import bad_names, warnings
from pybpf.tracefs.dynevents.rules import NEWEST
from pybpf.tracefs.dynevents.world import Kind, World
from pybpf.tracefs.format import EventFormat, parse_format

FILE = "dynamic_events"
# What it is, the option, and what shows it: a part of README, or a file.
_KINDS: Mapping[Kind, tuple[str, str, str]] = {
    "eprobe": ("event probes", "CONFIG_EPROBE_EVENTS", "e[:[<group>/]"),
    "kprobe": ("kprobe events", "CONFIG_KPROBE_EVENTS", "kprobe_events"),
    "uprobe": ("uprobe events", "CONFIG_UPROBE_EVENTS", "uprobe_events"),
    "fprobe": ("fprobe events", "CONFIG_FPROBE_EVENTS", "f[:[<group>/]"),
    "synthetic": ("synthetic events", "CONFIG_SYNTH_EVENTS", "synthetic_events"),
}


@dataclass(frozen=True, slots=True)
class Defined:
    """An event that was made: how it is listed, its record's layout, what it does not do."""

    event: Existing
    format: EventFormat
    warnings: tuple[Diagnostic, ...]

    @property
    def name(self) -> str:
        """``group/event``."""
        return self.event.name


@dataclass(frozen=True, slots=True)
class Judged:
    """A definition that would be accepted, the event it makes, and the world before and after."""

    text: str
    event: Existing
    warnings: tuple[Diagnostic, ...]
    after: World


def judge_all(texts: Iterable[str], world: World) -> list[Judged]:
    """Return what definitions make, one after the other. Raises DynEventError at the first refused.

    So are names that kernels take and mangle, or hide, and a kprobe that would become a second
    place of an event that is there: removing it would remove both. Of a kernel between two that are
    known, what either takes is tried.
    """
    found: list[Judged] = []
    mine: set[str] = set()
    for text in texts:
        verdict = _judge(text, world)
        if len(verdict.made) != 1 or verdict.removed:
            raise _refused(text, errno.EINVAL, "no definition of one event")
        (event,) = verdict.made
        for _, message, hint in bad_names(event, world):
            raise _refused(text, errno.EINVAL, message, hint)
        if event.name not in mine and any(e.name == event.name for e in world.existing):
            hint = "take another name; removing this one would remove both"
            raise _refused(text, errno.EEXIST, f"there is an event {event.name} already", hint)
        mine.add(event.name)
        found.append(Judged(text, event, warnings(text, verdict, world), verdict.after))
        world = verdict.after
    return found


def _judge(text: str, world: World) -> Verdict:
    verdict = judge(text, world)
    if verdict.accepted:
        return verdict
    if not is_known(os.uname().release):
        newer = judge(text, replace(world, rules=NEWEST))
        if newer.accepted:
            return replace(newer, after=replace(newer.after, rules=world.rules))
    raise explain(text, verdict, world)


def _refused(text: str, number: int, message: str, *hints: str) -> DynEventError:
    words = text.split(None, 1) or [""]
    span = Span(Source("<definition>", text), 0, len(words[0]))
    return DynEventError(Diagnostic(message, span, hints), number)


@contextmanager
def dynamic_events(
    definitions: str | DynEvent | Iterable[str | DynEvent], *, tree: Tree | None = None
) -> Iterator[tuple[Defined, ...]]:
    """Make events, all or none, for the time of a block; later ones may use earlier ones.

    They are removed in the opposite order. Removing an event that was ever enabled empties the
    buffers of the instances where it was: read them before, or enable it in an instance of its own.
    Raises DynEventError for what the kernel refuses, KernelError where an event cannot be removed.
    """
    one = isinstance(definitions, str) or not isinstance(definitions, Iterable)
    texts = [str(d) for d in ((definitions,) if one else definitions)]  # type: ignore[union-attr]
    with open_tracefs() if tree is None else nullcontext(tree) as found, ExitStack() as stack:
        require(found)
        world = live_world(found, texts)
        judged = judge_all(texts, world)
        require(found, [one.event.kind for one in judged])
        yield tuple(stack.enter_context(defined(found, one, world)) for one in judged)


def add(definitions: Iterable[str | DynEvent], *, tree: Tree | None = None) -> tuple[Defined, ...]:
    """Make events, all or none, that stay. Raises as `dynamic_events` does."""
    texts = [str(d) for d in definitions]
    with open_tracefs() if tree is None else nullcontext(tree) as found, ExitStack() as stack:
        require(found)
        world = live_world(found, texts)
        judged = judge_all(texts, world)
        require(found, [one.event.kind for one in judged])
        made = []
        for one in judged:
            made.append(_make(found, one, world))
            stack.callback(remove, found, one.event.name)
        stack.pop_all()
    return tuple(made)


def require(tree: Tree, kinds: Iterable[Kind] = (), *, hist: bool = False) -> None:
    """Raise TargetError where the kernel lacks what is asked for, naming its option."""
    if not tree.exists(FILE):
        raise TargetError("this kernel has no dynamic events (CONFIG_DYNAMIC_EVENTS)")
    readme = tree.read("README")
    for kind in kinds:
        if not _has(tree, readme, kind):
            what, option, _ = _KINDS[kind]
            raise TargetError(f"this kernel has no {what} ({option})")
    if hist and "hist:keys=" not in readme:
        raise TargetError("this kernel has no hist triggers (CONFIG_HIST_TRIGGERS)")


def _has(tree: Tree, readme: str, kind: Kind) -> bool:
    sign = _KINDS[kind][2]
    return sign in readme or tree.exists(sign)


def lacking(tree: Tree, world: World) -> dict[Kind, str]:
    """Return the kinds of events that the kernel was built without: what they are, the option.

    ``world`` is the running kernel, whose symbols it has read.
    """
    symbols = () if world.symbols is None else world.symbols
    readme = tree.read("README")
    found = {kind for kind in _KINDS if not _has(tree, readme, kind)}
    # README names event probes also where there are none.
    if "traceprobe_parse_probe_arg" in symbols and "eprobe_dyn_event_create" not in symbols:
        found.add("eprobe")
    return {
        kind: f"{what} ({option})" for kind, (what, option, _) in _KINDS.items() if kind in found
    }


@contextmanager
def defined(tree: Tree, judged: Judged, world: World) -> Iterator[Defined]:
    """Make an event, read it back, and remove it. Raises DynEventError, KernelError."""
    made = _make(tree, judged, world)
    try:
        yield made
    finally:
        remove(tree, made.name)


def _make(tree: Tree, judged: Judged, world: World) -> Defined:
    """Make an event and read it back; if either fails it is not there."""
    text, name = judged.text, judged.event.name
    number, entries = Instance(tree).attempt(FILE, text)
    if number == errno.EINVAL and not entries and judged.event.kind == "eprobe":
        # README names event probes also where there are none.
        raise TargetError("this kernel takes no event probes (CONFIG_EPROBE_EVENTS)")
    if number:
        verdict = Verdict(number, "write", None, entries, (), (), world, (), 0)
        raise explain(text, verdict, world)
    try:
        format_ = _read_back(tree, name)
    except BaseException:
        remove(tree, name)
        raise
    return Defined(judged.event, format_, judged.warnings)


def _read_back(tree: Tree, name: str) -> EventFormat:
    if not any(line.split(maxsplit=1)[0].endswith(f":{name}") for line in listed(tree)):
        raise KernelError(errno.EIO, f"{name} is not listed after it was made")
    try:
        return parse_format(tree.read(f"events/{name}/format"), name)
    except FileNotFoundError:
        hints = ("a file of tracefs has that name",)
        raise KernelError(errno.ENOENT, f"{name} has no folder", hints=hints) from None


def remove(tree: Tree, name: str) -> None:
    """Remove the event ``group/event``, and no other; none is no fault. Raises KernelError."""
    try:
        tree.write(FILE, f"-:{name}")
    except KernelError as error:
        if error.errno == errno.ENOENT:
            return
        hints = tuple(users(tree, name)) if error.errno == errno.EBUSY else error.hints
        number = error.errno or errno.EIO
        raise KernelError(number, f"cannot remove the event {name}", hints=hints) from None


def users(tree: Tree, name: str, *, but: Container[str] = ()) -> Iterator[str]:
    """Yield what keeps the event ``group/event`` from being removed, as far as it can be seen.

    ``but`` are events that will be gone by then.
    """
    for where in enabled_in(tree, name):
        yield f"it is enabled in {shown_instance(where)}"
    for other in attached(listed(tree), name):
        if other not in but:
            yield f"{other} is attached to it"
    for where in triggers_in(tree, name):
        folder = Instance(tree, where).folder
        yield f"it has triggers: {tree.where}/{folder}events/{name}/trigger"


def attached(lines: Iterable[str], name: str) -> Iterator[str]:
    """Yield the event probes, of lines of ``dynamic_events``, that are on ``group/event``."""
    dotted = name.replace("/", ".", 1)
    for line in lines:
        words = line.split()
        if words[0].startswith("e") and words[1:2] == [dotted]:
            yield words[0].partition(":")[2]
