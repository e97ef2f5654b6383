"""Print how the record of an event is laid out, or decode pages recorded by trace_pipe_raw."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pybpf.cli import UsageError, inputs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pybpf.events.ftrace.expressions import Constants
    from pybpf.tracefs.format import EventFormat


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("event", nargs="?", metavar="SYS/EVENT", help="the event whose record is shown")
    add("--formats", metavar="FILE", help="format files as for `check`, not this machine's")
    add("--pages", metavar="FILE", help="pages of one CPU, to be decoded; - is stdin")
    add("--cpu", type=inputs.cpu, default=0, metavar="N", help="the CPU that they are of (0)")
    add("--format", choices=("text", "json"), default="json", help="of records (json)")


def main(options: argparse.Namespace) -> int:
    """Print fields or records."""
    from pybpf.kernel.ftrace.world import LiveFormats
    from pybpf.kernel.tracefs import open_tracefs

    if (options.event is None) == (options.pages is None):
        raise UsageError("one of SYS/EVENT and --pages says what to show")
    if options.formats is not None:
        from pybpf.cli.events.check import unpacked
        from pybpf.tracefs.dynevents.world import read_formats

        return _show(options, read_formats(unpacked(options.formats)))
    from pybpf.kernel.ftrace.trace import Constants as LiveConstants

    with open_tracefs() as tree:
        return _show(options, LiveFormats(tree, set()), LiveConstants())


def _show(
    options: argparse.Namespace,
    formats: Mapping[str, EventFormat],
    constants: Constants | None = None,
) -> int:
    if options.pages is not None:
        _decode(options, formats, constants)
        return 0
    from pybpf.errors import TargetError
    from pybpf.suggest import did_you_mean

    name = options.event.replace(".", "/", 1)
    if name not in formats:
        raise TargetError(f"there is no event {name}{did_you_mean(name, formats)}")
    found = formats[name]
    print(f"{name}, ID {found.id}")
    width = max((len(field.declaration) for field in found.fields), default=0)
    for field in found.fields:
        kind = "signed" if field.signed else "unsigned"
        place = f"{field.offset:5} +{field.size:<4}"
        print(f"{place} {field.declaration:{width}}  {kind if not field.common else 'common'}")
    print(f"prints {found.print_fmt}")
    return 0


def _decode(
    options: argparse.Namespace,
    formats: Mapping[str, EventFormat],
    constants: Constants | None,
) -> None:
    from io import BytesIO

    from pybpf.dataclass import replace
    from pybpf.events.ftrace.jsonl import to_json
    from pybpf.events.ftrace.lines import line_of
    from pybpf.events.ftrace.reader import Lost, PageReader, RecordFormats, pages_of
    from pybpf.output.escape import escape

    named = (replace(formats[name], name=name) for name in formats)
    known = RecordFormats(named, constants=constants)
    reader = PageReader(known, options.cpu)
    for page in pages_of(BytesIO(inputs.read_bytes(options.pages)), reader.layout):
        for raw in reader.feed_raw(page):
            if options.format == "json":
                print(to_json(raw if isinstance(raw, Lost) else known.decode(raw)))
            elif isinstance(raw, Lost):
                print(raw)
            else:
                line = line_of(raw, known.text(raw), {})
                print(escape(line))
