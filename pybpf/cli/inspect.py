"""Show what is in an object, raw instructions or a loaded program, and what it needs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pybpf.cli import UsageError, inputs, opened
from pybpf.target.profile import LIVE, NAMES, profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pybpf.inspect.code import Code
    from pybpf.inspect.facts import Facts, Judged
    from pybpf.inspect.states import States
    from pybpf.isa.insn import ByteOrder
    from pybpf.kernel.loaded import Loaded
    from pybpf.objfile.object import Object

_SECONDS = 60
_GRAPHS = ("flow", "calls")


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("file", metavar="FILE", help=opened.HELP)
    add("--prog", metavar="NAME", help="only this program of the object")
    add("--kernel", metavar="K", help=f"judge programs, too: {', '.join(NAMES)}, live or a file")
    add("--seconds", type=inputs.count, default=_SECONDS, metavar="N",
        help=f"processor time that the judgement of a program may take ({_SECONDS})")  # fmt: skip
    add("--json", action="store_true", help="print one JSON object")
    add("--dot", choices=_GRAPHS, help="print control flow, or calls, for Graphviz instead")
    add("--html", metavar="OUT", help="write a page for browsers, with the verifier's states")
    add("--btf", metavar="FILE", help="types of the kernel that CO-RE of an object is for")
    add("--big-endian", action="store_true", help="raw instructions of a big-endian machine")


def main(options: argparse.Namespace) -> int:
    """Look into one file."""
    byteorder: ByteOrder = "big" if options.big_endian else "little"
    if sum((options.html is not None, options.json, options.dot is not None)) > 1:
        raise UsageError("--html, --json and --dot do not go together")
    if options.btf is not None and options.kernel is None and options.html is None:
        raise UsageError("--btf is about CO-RE of programs that are judged: it goes with --kernel")
    found = opened.opened(options.file, byteorder)
    if options.dot:
        return _graphs(found, options)
    facts, codes, states = _facts(found, options, byteorder)
    if options.html is not None:
        return _page(facts, codes, states, options.html)
    if options.json:
        import json

        from pybpf.inspect.report import as_data

        print(json.dumps(as_data(facts), indent=2))
        return 0
    from pybpf.inspect.report import report

    print("\n".join(report(facts)))
    return 0


def _facts(
    found: Object | Code | Loaded, options: argparse.Namespace, byteorder: str
) -> tuple[Facts, Sequence[Code], Sequence[States | None]]:
    """Return facts, and of each program the code and what was known of it, where it was judged."""
    from pybpf.inspect import facts
    from pybpf.inspect.code import Code
    from pybpf.objfile.object import Object

    if isinstance(found, Object):
        programs = _programs(found, options)
        states: dict[int, States] | None = None if options.html is None else {}
        verdicts = _verdicts(found, programs, options, states)
        chosen = None if options.prog is None else [options.prog]
        codes = dict(zip(programs, opened.codes(found, chosen, whole=True), strict=True))
        listened = [(states or {}).get(index) for index in programs]
        return facts.of_object(found, codes, verdicts), [*codes.values()], listened
    if options.kernel or options.prog:
        raise UsageError("--kernel and --prog are for the programs of objects")
    if isinstance(found, Code):
        return facts.of_code(found, byteorder), [found], [None]
    from pybpf.inspect.loaded import map_facts, of_loaded, types

    code = of_loaded(found)
    maps = tuple(map(map_facts, found.maps))
    return facts.of_loaded(found, code, types(found), maps), [code], [None]


def _programs(found: Object, options: argparse.Namespace) -> Sequence[int]:
    if options.prog is None:
        return range(len(found.programs))
    return opened.chosen(found, [options.prog])


def _verdicts(
    found: Object,
    programs: Iterable[int],
    options: argparse.Namespace,
    states: dict[int, States] | None,
) -> dict[int, Judged]:
    """Return what a kernel says; a page is also made without, where none could say anything."""
    wanted = options.kernel or (
        LIVE if options.html is not None and found.byteorder == "little" else None
    )
    if wanted is None:
        return {}
    from pybpf.cli.subjects import types_of
    from pybpf.inspect.judge import judge

    kernel = profile(wanted)
    types = types_of(options.btf, kernel)
    return judge(found, programs, kernel, options.seconds, types, states)


def _graphs(found: Object | Code | Loaded, options: argparse.Namespace) -> int:
    from pybpf.inspect.graph import calls_dot, flow_dot

    lines = flow_dot if options.dot == _GRAPHS[0] else calls_dot
    chosen = None if options.prog is None else [options.prog]
    for code in opened.codes(found, chosen, whole=True):
        print("\n".join(lines(code)))
    return 0


def _page(facts: Facts, codes: Sequence[Code], states: Sequence[States | None], path: str) -> int:
    from pathlib import Path

    from pybpf.inspect.page import Shown, page

    shown = [*map(Shown, facts.programs, codes, states)]
    try:
        Path(path).write_text(page(facts, shown), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path or repr(path)}: {error.strerror}") from None
    return 0
