"""Show what is in an object, raw instructions or a loaded program, and what it needs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pybpf.cli import UsageError, inputs, opened
from pybpf.target.profile import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pybpf.inspect.code import Code
    from pybpf.inspect.facts import Facts, Judged
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
    add("--big-endian", action="store_true", help="raw instructions of a big-endian machine")


def main(options: argparse.Namespace) -> int:
    """Look into one file."""
    byteorder: ByteOrder = "big" if options.big_endian else "little"
    found = opened.opened(options.file, byteorder)
    if options.dot:
        return _graphs(found, options)
    facts = _facts(found, options, byteorder)
    if options.json:
        import json

        from pybpf.inspect.report import as_data

        print(json.dumps(as_data(facts), indent=2))
        return 0
    from pybpf.inspect.report import report

    print("\n".join(report(facts)))
    return 0


def _facts(found: Object | Code | Loaded, options: argparse.Namespace, byteorder: str) -> Facts:
    from pybpf.inspect import facts
    from pybpf.inspect.code import Code
    from pybpf.objfile.object import Object

    if isinstance(found, Object):
        programs = _programs(found, options)
        verdicts = _verdicts(found, programs, options) if options.kernel else {}
        return facts.of_object(found, programs, verdicts)
    if options.kernel or options.prog:
        raise UsageError("--kernel and --prog are for the programs of objects")
    if isinstance(found, Code):
        return facts.of_code(found, byteorder)
    from pybpf.inspect.loaded import of_loaded, types

    return facts.of_loaded(found, of_loaded(found), types(found))


def _programs(found: Object, options: argparse.Namespace) -> Sequence[int]:
    if options.prog is None:
        return range(len(found.programs))
    return opened.chosen(found, [options.prog])


def _verdicts(
    found: Object, programs: Iterable[int], options: argparse.Namespace
) -> dict[int, Judged]:
    from pybpf.inspect.judge import judge
    from pybpf.target.profile import profile

    return judge(found, programs, profile(options.kernel), options.seconds)


def _graphs(found: Object | Code | Loaded, options: argparse.Namespace) -> int:
    from pybpf.inspect.graph import calls_dot, flow_dot
    from pybpf.objfile.object import Object

    names = None
    if isinstance(found, Object):
        names = [found.programs[n].name for n in _programs(found, options)]
    lines = flow_dot if options.dot == _GRAPHS[0] else calls_dot
    for code in opened.codes(found, names):
        print("\n".join(lines(code)))
    return 0
