"""Print commands for a shell that do what `trace` would do, and undo it in the right order."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybpf.kernel.ftrace.trace import Checked


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("lines", nargs="*", metavar="DEF-or-EVENT", help="as for `trace`")
    add("-f", "--file", metavar="FILE", help="as for `trace`")
    add("--filter", metavar="EXPR", help="as for `trace`")


def main(options: argparse.Namespace) -> int:
    """Print the commands, and what the kernel accepts of them but does not do."""
    from pybpf.cli.events.tracing import lines_of, warn
    from pybpf.kernel.ftrace.trace import check_plan
    from pybpf.kernel.ftrace.world import live_world
    from pybpf.kernel.tracefs import open_tracefs
    from pybpf.tracefs.plan import parse_step

    lines = lines_of(options)
    with open_tracefs() as tree:
        steps = [parse_step(line) for line in lines]
        checked = check_plan(steps, live_world(tree, lines), options.filter)
    done, undone = zip(*_commands(checked), strict=True)
    print(*done, "# and to take it away again:", *reversed(undone), sep="\n")
    warn(checked.warnings)
    return 0


def _commands(checked: Checked) -> Iterator[tuple[str, str]]:
    """Yield what to do and what undoes it, in the order of doing."""
    from pybpf.tracefs.plan import shell_command as write

    for one in checked.definitions:
        yield write(one.text, "dynamic_events"), write(f"-:{one.event.name}", "dynamic_events")
    for event, text in checked.recorded.items():
        if text is not None:
            path = f"events/{event}/filter"
            yield write(text, path), write("0", path)
    for step in checked.triggers:
        path = f"events/{step.event}/trigger"
        yield write(step.text, path), write(f"!{step.text}", path)
    for event in checked.recorded:
        path = f"events/{event}/enable"
        yield write("1", path), write("0", path)
