"""Run a ply script, or an object made of one, on the live kernel, or recorded events in the VM."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from pybpf import __version__
from pybpf.cli import UsageError, inputs
from pybpf.cli.printer import Printer
from pybpf.errors import KernelError
from pybpf.rows import Block, ExitRow, LostRow, Row

if TYPE_CHECKING:
    from pybpf.kernel.attach import Skipped
    from pybpf.script import CompiledScript
    from pybpf.source import Source
    from pybpf.target.target import Target

_DEFAULT_PROBES = 1000
_Compile = Callable[["Target"], "CompiledScript"]
"""What makes a script ready for a target."""


def declare_ply(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that ply has too."""
    add = parser.add_argument
    add("script", nargs="?", metavar="SCRIPT-or-FILE", help="the script, or a file with it")
    add("arguments", nargs="*", metavar="ARG", help="what $1, $2 … stand for")
    add("-c", "--command", metavar="CMD", help="run CMD; $target is its pid; its end ends the run")
    add("-d", "--debug", action="store_true", help="say more, with the kernel's log where it fails")
    add("-e", "--dry-run", action="store_true", help="compile only")
    add("-k", "--keep-going", action="store_true", help="go on where records are lost")
    add("-S", "--dump", action="store_true", help="print types, IR and bytecode first")
    add("-T", "--self-test", action="store_true", help="check what this kernel and user can do")
    add("-u", "--unbuffer", action="store_true", help="write every line at once")
    add("-v", "--version", action="version", version=f"pybpf {__version__}")


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    declare_ply(parser)
    add = parser.add_argument
    add("--format", choices=("text", "json"), default="text", help="JSON lines instead of text")
    inputs.declare_sizes(parser)
    add(
        "--max-probes", type=inputs.count, metavar="N", default=_DEFAULT_PROBES,
        help=f"functions that patterns may match where each takes an event ({_DEFAULT_PROBES})",
    )  # fmt: skip
    add("--vm", action="store_true", help="run in the built-in VM, on the events of --events")
    add(
        "--events", metavar="FILE",
        help="recorded events, JSON lines; without --vm for where there is no BPF",
    )  # fmt: skip
    add("--target", metavar="FILE", help="compile for a snapshot (with --vm or --dry-run)")
    add("--no-verify", action="store_true", help="leave the verifier's model alone")


def main(options: argparse.Namespace) -> int:
    """Run the script and return the exit status that it means."""
    if options.self_test:
        from pybpf.cli import doctor

        return doctor.examine(json=options.format == "json")
    given = inputs.script_or_object(options.script)
    if options.target and not (options.vm or options.dry_run):
        raise UsageError("--target goes with --vm or --dry-run: a live run is for this machine")
    if options.vm and options.command is not None:
        raise UsageError("-c starts a process, which --vm cannot trace")
    if options.vm and options.events is None:
        raise UsageError("--vm wants recorded events: --events FILE")
    if options.events is not None and not options.vm:
        options.vm = _no_kernel(options.events)
    run = _run_vm if options.vm else _run_live
    if isinstance(given, bytes):
        return run(options, _ahead(options, given), {})
    environment = {str(i): a for i, a in enumerate(options.arguments, start=1)}
    environment["0"] = given.name
    return run(options, partial(_compile, options, given), environment)


def _ahead(options: argparse.Namespace, data: bytes) -> _Compile:
    """Return what makes the script in an object ready; raises UsageError for what it has settled.

    The compiler is not loaded.
    """
    from pybpf.objfile.unpack import unpack
    from pybpf.target.needs import fitted

    if options.arguments:
        raise UsageError(
            f"{options.script} takes no arguments: what $1 stands for was settled when it was made"
            "\n  hint: put them behind the script of `pybpf compile -o`"
        )
    for name in ("map_size", "buffer", "cgroup"):
        if getattr(options, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{option} is about compiling, and {options.script} is compiled"
                f"\n  hint: `pybpf compile {option} … -o` takes it"
            )
    if options.dump:
        raise UsageError(f"-S shows how a script is compiled, and {options.script} is compiled")
    packed = unpack(data, options.script)
    return lambda target: fitted(packed.script, packed.needs, target, options.script)


def _no_kernel(events: str) -> bool:
    """Whether this process cannot use BPF, so that recorded events go to the VM by themselves."""
    try:
        from pybpf.kernel.features import why_unavailable

        reason = why_unavailable()
    except KernelError as error:
        reason = error
    if reason is not None:
        _say(f"pybpf: no BPF here ({reason.strerror}): using the VM, on {events}")
    return reason is not None


def _say(text: str) -> None:
    """Print to standard error, after what was printed to standard output before."""
    sys.stdout.flush()
    print(text, file=sys.stderr)


def _compile(options: argparse.Namespace, source: Source, target: Target) -> CompiledScript:
    from pybpf.compiler.pipeline import compile_script

    sizes = inputs.sizes(options)
    if options.dump:
        from pybpf.compiler.dump import STAGES, dump

        for stage in STAGES:
            print(f"-- {stage}\n{dump(source, target, stage, sizes)}", end="")
        sys.stdout.flush()
    return compile_script(source, target, sizes)


def _verify(options: argparse.Namespace, script: CompiledScript, target: Target) -> int:
    """Say whether the target's kernel would take the script, which is not going to be loaded.

    A live run does not: the kernel's own verdict comes sooner than the model is imported.
    """
    if options.no_verify:
        return 0
    from pybpf.cli.checked import check

    return check(script, target, verbose=options.debug)


@contextmanager
def _explained(options: argparse.Namespace) -> Iterator[None]:
    """Say of a program that the kernel refuses why that is, in plain words."""
    try:
        yield
    except KernelError as error:
        if not options.no_verify:
            from pybpf.cli.checked import explain_refusal

            explain_refusal(error)
        raise


def _print_all(rows: Iterator[Row | Block], show: Callable[[Row | Block], None]) -> None:
    for row in rows:
        show(row)


def _run_vm(options: argparse.Namespace, compiled: _Compile, environment: dict[str, str]) -> int:
    from pybpf.vm.driver import read_events, run_events

    if options.cgroup is not None:
        raise UsageError("--cgroup is about this machine: recorded events have no cgroups")
    target = inputs.target(options.target, environment)
    script = compiled(target)
    events = read_events(inputs.read_text(options.events))
    if options.dry_run:
        return _verify(options, script, target)
    show = Printer(target, json=options.format == "json", unbuffered=options.unbuffer)
    code = lost = 0
    for row in run_events(script, target, events):
        if isinstance(row, ExitRow):
            code = row.code
        elif isinstance(row, LostRow) and row.map is None:
            lost = row.records
        show(row)
    return code or _complete(lost, options)


def _run_live(options: argparse.Namespace, compiled: _Compile, environment: dict[str, str]) -> int:
    if options.dry_run:
        target = inputs.target(options.target, environment)
        return _verify(options, compiled(target), target)
    from pybpf.cli.progress import Bar
    from pybpf.kernel.child import Child
    from pybpf.session import Session

    with ExitStack() as stack:
        child = None
        if options.command is not None:
            # The command waits with its pid known: the script may speak of $target.
            child = stack.enter_context(Child(options.command))
            environment["target"] = str(child.pid)
        target = inputs.target(None, environment)
        script = compiled(target)
        show = Printer(
            target,
            json=options.format == "json",
            unbuffered=options.unbuffer,
            events=script.events,
        )
        with _explained(options), Bar() as bar:
            session = stack.enter_context(
                Session(
                    script,
                    target,
                    child=child,
                    strict=not options.keep_going,
                    catch_signals=True,
                    before_wait=sys.stdout.flush,
                    max_probes=options.max_probes,
                    progress=bar,
                )
            )
        _report_skipped(session.skipped, debug=options.debug)
        if options.debug:
            _say("debug: attached; not verified before: the kernel did")
        _print_all(session.blocks(), show)
        _print_all(session.finish_blocks(), show)
        _report_misses(session.recursion_misses())
        _complete(session.ending.lost if session.ending else 0, options)
        return session.status


def _complete(lost: int, options: argparse.Namespace) -> int:
    """Return the status of a run that lost records: without -k that is an error."""
    if not lost or options.keep_going:
        return 0
    _say("error: records were lost, so the output is not complete\n  hint: -k goes on all the same")
    return 1


def _report_misses(misses: int) -> None:
    if misses:
        from pybpf.output.text import render_skipped

        _say(render_skipped(misses, "event"))


def _report_skipped(skipped: Sequence[Skipped], *, debug: bool) -> None:
    if not skipped:
        return
    from pybpf.output.text import counted

    _say(
        f"warning: {counted(len(skipped), 'function')} could not be probed"
        + ("" if debug else "; -d names them")
    )
    if debug:
        for one in skipped:
            _say(f"debug: {one.probe}: {one.function}: {one.reason}")
