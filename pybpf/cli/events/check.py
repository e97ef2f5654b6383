"""Say what a kernel answers to definitions of dynamic events, to filters or to triggers."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pybpf.cli import UsageError, inputs
from pybpf.errors import DynEventError

if TYPE_CHECKING:
    from pybpf.errors import Diagnostic
    from pybpf.tracefs.dynevents.world import FileKind, World


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add(
        "definitions", nargs="+", metavar="DEF-or-FILE",
        help="such as 'e:g/x sched.sched_switch prev=$prev_pid:u32'; - or a file has one a line",
    )  # fmt: skip
    add(
        "--kernel", metavar="RELEASE",
        help="6.1, 6.12, 7.3 or one near them; `live` is this machine's (7.3)",
    )  # fmt: skip
    add("--target", metavar="FILE", help="the kernel that a snapshot was made of")
    add(
        "--formats", metavar="FILE",
        help="format files, each after a line `FILE GROUP/EVENT/format`; may be compressed",
    )  # fmt: skip
    add("--kind", choices=("dynevent", "filter", "trigger"), default="dynevent")
    add("--event", metavar="SYS/EVENT", help="what filters and triggers are set on")
    add("--together", action="store_true", help="one after the other, all or none of them")
    add("--json", action="store_true", help="one JSON object for each")


def main(options: argparse.Namespace) -> int:
    """Print a verdict on each; 1 where one is refused."""
    if (options.kind == "dynevent") != (options.event is None):
        raise UsageError("--event goes with --kind filter and --kind trigger, and they with it")
    texts = list(_texts(options.definitions))
    refused = False
    with ExitStack() as stack:
        world, release = _world(options, texts, stack)
        note = _stand_in(release, world)
        if options.event is not None:
            options.event = options.event.replace(".", "/", 1)
        for text in texts:
            found, error, warnings, after = _verdict(text, options, world)
            if options.together and error is None:
                world = after
            found["assumptions"][:0] = note
            refused |= error is not None
            _print(found, error, warnings, json=options.json)
            if options.together and error is not None:
                break
    return int(refused)


def _texts(arguments: list[str]) -> Iterator[str]:
    """Yield what is to be judged: arguments, and lines of files."""
    for argument in arguments:
        if argument == "-" or (" " not in argument and os.path.isfile(argument)):  # noqa: PTH113
            text = inputs.read_text(argument).text
            yield from (line for line in text.split("\n") if line)
        else:
            yield os.fsencode(argument).decode("utf-8", "surrogateescape")


def _stand_in(release: str, world: World) -> list[str]:
    """Return what is to be said of a kernel that is judged by the rules of another."""
    from pybpf.tracefs.dynevents.rules import KNOWN

    version = ".".join(release.split(".")[:2])
    if version in KNOWN:
        return []
    return [f"no kernel {version} was observed: it is taken for {world.rules.release}"]


def _world(options: argparse.Namespace, texts: list[str], stack: ExitStack) -> tuple[World, str]:
    """Return the kernel that is asked, and its release."""
    from pybpf.dataclass import replace

    if options.kernel == "live":
        if options.target or options.formats:
            raise UsageError("--kernel live knows this machine's events: no --formats, no --target")
        from pybpf.kernel.ftrace.dynevents import lacking
        from pybpf.kernel.ftrace.world import live_world
        from pybpf.kernel.tracefs import open_tracefs

        tree = stack.enter_context(open_tracefs())
        world = live_world(tree, texts)
        return replace(world, lacking=lacking(tree, world)), os.uname().release
    if options.target is None:
        from pybpf.tracefs.dynevents.profiles import profile

        release = options.kernel or "7.3"
        world = replace(profile(release), files=_file_kind)
    elif options.kernel is not None:
        raise UsageError("--kernel and --target both say which kernel is meant")
    else:
        world, release = _of_snapshot(options.target)
    if options.formats is not None:
        from pybpf.tracefs.dynevents.world import read_formats

        world = replace(world, formats=read_formats(unpacked(options.formats)))
    return world, release


def _file_kind(path: str) -> FileKind:
    """Return what a path leads to: most likely what it does here; from another folder, a file."""
    from pybpf.kernel.ftrace.world import file_kind

    return file_kind(path) if path.startswith("/") else "regular"


def _of_snapshot(file: str) -> tuple[World, str]:
    from pybpf.target.snapshot import SnapshotTarget
    from pybpf.tracefs.dynevents.rules import rules_for
    from pybpf.tracefs.dynevents.symbols import repeated_names
    from pybpf.tracefs.dynevents.world import World

    target = SnapshotTarget.load(file)
    formats = {name: target.event_format(name) for name in target.event_names()}
    functions = frozenset(target.functions())
    rules = rules_for(target.release)
    world = World(
        rules,
        formats or None,
        functions=functions or None,
        repeated=repeated_names((name for _, name in target.symbols), rules),
        cpus=target.cpus,
    )
    return world, target.release


_MOST = 64 << 20
"""The most bytes of format files: those of all events of a kernel are one or two millions."""


def unpacked(file: str) -> str:
    """Return the text of a file, of one compressed by gzip or xz too. Raises UsageError."""
    data = inputs.read_bytes(file, _MOST + 1)
    import gzip
    import lzma
    import zlib
    from io import BytesIO

    opens = gzip.open if data.startswith(b"\x1f\x8b") else lzma.open
    try:
        if data.startswith((b"\x1f\x8b", b"\xfd7zXZ")):
            with opens(BytesIO(data)) as packed:
                data = packed.read(_MOST + 1)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise UsageError(f"{file} is damaged: {error}") from None
    if len(data) > _MOST:
        raise UsageError(f"{file} has more than {_MOST >> 20} MB of text: no format files")
    return data.decode("utf-8", "surrogateescape")


_Answer = tuple[dict[str, Any], DynEventError | None, "tuple[Diagnostic, ...]", "World"]


def _verdict(text: str, options: argparse.Namespace, world: World) -> _Answer:
    """Return a verdict as the object to print, the error or the warnings, and the world then."""
    match options.kind:
        case "filter":
            return _filter(text, options.event, world)
        case "trigger":
            return _trigger(text, options.event, world)
        case _:
            return _dynevent(text, world)


def _dynevent(text: str, world: World) -> _Answer:
    from pybpf.tracefs.dynevents.explain import explain
    from pybpf.tracefs.dynevents.judge import judge
    from pybpf.tracefs.dynevents.pitfalls import warnings

    # What is meant is what `echo` writes: the newline counts where a line may be no longer.
    verdict = judge(f"{text}\n", world)
    error = None if verdict.accepted else explain(text, verdict, world)
    found = warnings(text, verdict, world) if error is None else ()
    answer = _answer(text, verdict, found)
    answer |= {"listing": list(verdict.listing), "format": dict(verdict.formats)}
    return answer, error, found, verdict.after


def _filter(text: str, event: str, world: World) -> _Answer:
    from pybpf.tracefs.filters.explain import explain_filter, filter_warnings
    from pybpf.tracefs.filters.judge import judge_filter

    verdict = judge_filter(text, event, world)
    error = None if verdict.accepted else explain_filter(text, verdict, event, world)
    found = filter_warnings(text, verdict, event, world) if error is None else ()
    answer = _answer(text, verdict, found) | {"listing": verdict.file, "format": None}
    return answer, error, found, world


def _trigger(text: str, event: str, world: World) -> _Answer:
    from pybpf.tracefs.triggers.explain import explain_trigger, trigger_warnings
    from pybpf.tracefs.triggers.judge import judge_trigger

    verdict = judge_trigger(text, event, world)
    error = None if verdict.accepted else explain_trigger(text, verdict, event, world)
    found = trigger_warnings(text, verdict, event, world) if error is None else ()
    answer = _answer(text, verdict, found) | {"listing": list(verdict.listed), "format": None}
    return answer, error, found, verdict.after


def _answer(text: str, verdict: Any, warnings: tuple[Diagnostic, ...]) -> dict[str, Any]:
    import errno

    return {
        "definition": text,
        "accepted": verdict.accepted,
        "errno": errno.errorcode.get(verdict.errno),
        "message": verdict.message,
        "column": verdict.column,
        "listing": None,
        "format": None,
        "warnings": [_warning(w) for w in warnings],
        "assumptions": list(verdict.assumptions),
    }


def _warning(warning: Diagnostic) -> Mapping[str, Any]:
    column = None if warning.span is None else warning.span.start
    return {"message": warning.message, "column": column, "hints": list(warning.hints)}


def _print(
    answer: dict[str, Any],
    error: DynEventError | None,
    warnings: tuple[Diagnostic, ...],
    *,
    json: bool,
) -> None:
    if json:
        from json import dumps

        print(dumps(answer))
        return
    from pybpf.cli import printable

    if error is not None:
        print(printable(str(error)), file=sys.stderr)
        return
    listing = answer["listing"]
    for line in [listing.rstrip("\n")] if isinstance(listing, str) else listing:
        print(f"accepted: {printable(line)}")
    if not listing:
        print(f"accepted: {printable(answer['definition'])}")
    sys.stdout.flush()
    for warning in warnings:
        print(printable(warning.render()), file=sys.stderr)
    for assumption in answer["assumptions"]:
        print(f"note: {printable(assumption)}", file=sys.stderr)
