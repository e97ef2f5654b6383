"""Load an eBPF object: its maps and programs; pin them, or attach the programs for a while."""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

from pybpf.cli import UsageError, inputs
from pybpf.errors import KernelError

if TYPE_CHECKING:
    from pybpf.btf.reader import Btf
    from pybpf.kernel.child import Child
    from pybpf.objects.attached import Where
    from pybpf.objects.object import Object

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PINS = "/sys/fs/bpf"
_T = TypeVar("_T")


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("file", metavar="FILE.o", help="an object, as clang -target bpf makes it")
    add("--prog", action="append", metavar="NAME", help="load this program (any number), no other")
    add("--btf", metavar="FILE", help="relocate for these types of a kernel, not the running one's")
    add("--map-size", action="append", default=[], metavar="NAME=N", type=_pair(inputs.count),
        help="give a map room for N entries")  # fmt: skip
    add("--rodata", action="append", default=[], metavar="NAME=VALUE", type=_pair(str),
        help="set a constant, or the first value of a variable")  # fmt: skip
    add("--target", action="append", default=[], metavar="PROG=NAME", type=_pair(str),
        help="what a program is attached to, in place of what its section says")  # fmt: skip
    add("--replace", action="append", default=[], metavar="PROG=WHICH", type=_pair(str),
        help="of which loaded program an freplace is: prog:ID or pinned:PATH")  # fmt: skip
    add("--pin", metavar="DIR", help="pin programs, maps and links in a bpf file system, and end")
    add("--pin-root", metavar="DIR", default=_PINS,
        help=f"where maps that want it are pinned by their names ({_PINS})")  # fmt: skip
    add("--attach", action="store_true", help="attach the programs, until Ctrl-C or the end of -c")
    add("--attach-prog", action="append", metavar="NAME",
        help="attach this program (any number), no other")  # fmt: skip
    add("--dev", metavar="IF", help="attach XDP, tc and socket programs to a network interface")
    add("--cgroup", metavar="PATH", help="attach programs to a cgroup; `self` is that of pybpf")
    add("--netns", metavar="PATH", help="attach to a network namespace; `self` is that of pybpf")
    add("--netfilter", metavar="HOOK", help="attach to packets, such as ipv4:input:-100")
    add("--pid", type=inputs.count, metavar="N", help="attach user probes to one process only")
    add("--frequency", type=inputs.count, metavar="HZ", help="run perf_event programs so often")
    add("-c", "--command", metavar="CMD", help="run CMD when all is attached; its end is the end")
    add("--trace", action="store_true", help="print what bpf_printk() of all programs writes")
    add("--dump", action="store_true", help="print maps and variables at the end")
    add("--json", action="store_true", help="print them as JSON lines")
    add("-v", "--verbose", action="store_true", help="tell of each step and CO-RE relocation")
    add("-d", "--debug", action="store_true", help="print the kernel's whole log where it refuses")


def _pair(convert: Callable[[str], _T]) -> Callable[[str], tuple[str, _T]]:
    def pair(text: str) -> tuple[str, _T]:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError
        return name, convert(value)

    pair.__name__ = "NAME=VALUE"  # which argparse names in its message
    return pair


def main(options: argparse.Namespace) -> int:
    """Load an object, and what else is asked for."""
    options.attach = options.attach or options.attach_prog is not None
    _check(options)
    from pybpf.objects.object import Object

    with ExitStack() as stack:
        held = stack.enter_context(_opened(Object.open, options.file))
        if options.attach and held.parsed.elf.section(".pybpf") is not None:
            hint = f"`pybpf run {options.file}` attaches its programs, and prints what they say"
            raise UsageError(f"{options.file} is a script, compiled\n  hint: {hint}")
        _change(held, options)
        _replace(held, options, stack)
        child = _child(options, stack)
        wake = stack.enter_context(_signals()) if options.attach and not options.pin else -1
        _load(held, options)
        if options.attach:
            _attach(held, options)
        if options.pin:
            held.pin(options.pin)
        if not options.attach or options.pin:
            _summary(held)
        else:
            _stay(held, options, child, wake)
        if options.dump:
            _dump(held, options)
    return 0


def _load(held: Object, options: argparse.Namespace) -> None:
    """Load it; say why the kernel refuses a program, and what is left undone."""
    try:
        held.load(
            target=_types(options.btf), pin_root=options.pin_root, progress=_progress(options)
        )
    except KernelError as error:
        from pybpf.cli.checked import explain_refusal

        explain_refusal(error)
        raise
    for text in held.warnings:
        _say(f"warning: {text}")


def _check(options: argparse.Namespace) -> None:
    """Refuse options that lack others."""
    if options.attach and not (options.pin and options.command):
        return
    if options.pin and options.command:
        raise UsageError("-c runs while programs are attached, and --pin ends at once")
    for name in ("dev", "cgroup", "netns", "netfilter", "pid", "frequency", "command", "trace"):
        if getattr(options, name):
            raise UsageError(f"--{name} goes with --attach")


def _opened(open_it: Callable[[str], Object], path: str) -> Object:
    try:
        return open_it(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def _types(path: str | None) -> Btf | None:
    if path is None:
        return None
    from pybpf.target.kernel_types import read

    return read(path)


def _change(held: Object, options: argparse.Namespace) -> None:
    """Do to the object what the arguments say before it is loaded."""
    for name, program in held.programs.items():
        program.autoload = program.autoload if options.prog is None else name in options.prog
    for name in (*(options.prog or ()), *(options.attach_prog or ())):
        held.program(name)
    for name in options.attach_prog or ():
        if not held.program(name).autoload:
            raise UsageError(f"--attach-prog {name}: it is not loaded\n  hint: --prog {name}")
    if options.attach_prog is not None:
        for name, program in held.programs.items():
            program.autoattach = name in options.attach_prog
    for name, place in options.target:
        held.program(name).target = place
    for name, size in options.map_size:
        held.maps.named(name).max_entries = size
    for name, text in options.rodata:
        held.set_constant(name, text)


def _replace(held: Object, options: argparse.Namespace, stack: ExitStack) -> None:
    """Open the programs whose functions are to be replaced."""
    from pybpf.kernel import packed, syscall

    for name, which in options.replace:
        kind, _, place = which.partition(":")
        if kind == "prog" and place.isdecimal():
            found = syscall.object_by_id(syscall.Kind.PROG, int(place))
        elif kind != "pinned" or (pinned := packed.pinned(place)) is None:
            raise UsageError(f"no program is {which}: prog:ID or pinned:PATH")
        else:
            found = pinned
        held.program(name).replace(stack.enter_context(found))


def _progress(options: argparse.Namespace) -> Callable[[str], object]:
    return _say if options.verbose else lambda _: None


def _say(text: str) -> None:
    """Print to standard error, after what was printed to standard output before."""
    from pybpf.cli import printable

    sys.stdout.flush()
    print(printable(text), file=sys.stderr)


def _child(options: argparse.Namespace, stack: ExitStack) -> Child | None:
    if options.command is None:
        return None
    from pybpf.kernel.child import Child

    return stack.enter_context(Child(options.command))


def _where(options: argparse.Namespace) -> Where:
    from pybpf.objects.attached import Where

    return Where(
        options.dev, options.cgroup, options.netns, options.pid, options.frequency,
        options.netfilter,
    )  # fmt: skip


def _attach(held: Object, options: argparse.Namespace) -> None:
    from pybpf.kernel.limits import room_for_files

    with room_for_files(4 * len(held.programs)):
        held.attach(_where(options))
    for text in held.unattached.values():
        _say(f"not attached: {text}")
    if not held.attached:
        raise UsageError("no program is attached")
    names = ", ".join(each.program for each in held.attached)
    if options.verbose or (options.command is None and not options.pin):
        _say(f"attached: {names}")


def _summary(held: Object) -> None:
    rows = [
        ("program", p.name, p.prog_type.name.lower(), p.kernel.info().id)
        for p in held.programs.values()
        if p.loaded
    ]
    rows += [
        ("map", table.name, table.spec.type_name, table.kernel.ids()[0])
        for table in held.maps.values()
    ]
    widths = [max((len(str(row[i])) for row in rows), default=0) for i in range(3)]
    for kind, name, what, number in rows:
        print(f"{kind:{widths[0]}}  {name:{widths[1]}}  {what:{widths[2]}}  id {number}")


def _dump(held: Object, options: argparse.Namespace) -> None:
    from pybpf.objects.show import dumped

    for line in dumped(held, json=options.json):
        print(line)


def _stay(held: Object, options: argparse.Namespace, child: Child | None, wake: int) -> None:
    """Print what iterators say; stay until a signal or the end of the command."""
    iterators = [each for each in held.attached if _iterates(held, each.program)]
    for each in iterators:
        sys.stdout.flush()
        sys.stdout.buffer.write(each.read())
    if child is None and len(iterators) == len(held.attached):
        return
    with ExitStack() as stack:
        poll = select.poll()
        poll.register(wake, select.POLLIN)
        if child is not None:
            poll.register(child.fileno(), select.POLLIN)
        trace = _open_trace(stack) if options.trace else -1
        if trace >= 0:
            poll.register(trace, select.POLLIN)
        if child is not None:
            child.release()
        while [fd for fd, _ in poll.poll()] == [trace]:
            _print_trace(trace)
        if trace >= 0:
            _print_trace(trace)
    held.detach()


def _iterates(held: Object, name: str) -> bool:
    from pybpf.isa.abi import AttachType

    program = held.programs.get(name)
    found = program and program.source.program.expected_attach_type
    return found is AttachType.TRACE_ITER


def _open_trace(stack: ExitStack) -> int:
    from pybpf.kernel.tracefs import open_tracefs

    tree = stack.enter_context(open_tracefs())
    pipe = tree.open("trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
    stack.callback(os.close, pipe)
    return pipe


def _print_trace(pipe: int) -> None:
    """Print what has been traced until now."""
    try:
        while data := os.read(pipe, 1 << 16):
            sys.stdout.buffer.write(data)
    except BlockingIOError:
        pass
    sys.stdout.flush()


@contextmanager
def _signals() -> Iterator[int]:
    """Yield a descriptor that is readable once a signal has asked for the end."""
    with ExitStack() as stack:
        wake, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        stack.callback(os.close, wake)
        stack.callback(os.close, write)
        stack.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(write))
        for number in _SIGNALS:
            stack.callback(signal.signal, number, signal.signal(number, lambda *_: None))
        yield wake
