"""The command of ``-c``: a child that is there, with its pid, before the command starts."""

from __future__ import annotations

import os
import re
import select
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from pybpf.errors import KernelError
from pybpf.kernel.fd import Fd
from pybpf.kernel.syscall import check, ffi, lib

_SHELL = "/bin/sh"
_GRACE_MS = 2000


class Child:
    """A child that waits for ``release``, then runs a shell command. Raises KernelError.

    A single command keeps the pid, so that a script's ``pid == $target`` is about it; what a
    pipeline or a list of commands starts are children of the shell that has the pid.

    Until then it is stopped. Where this process ends without closing the child, even by SIGKILL,
    the child is killed, and a command that was not released never runs. So it is when the thread
    that made the child ends.
    """

    def __init__(self, command: str) -> None:
        path, arguments = program(command)
        self._watch: Fd | None = None
        self._released = False
        self.pid = 0
        try:
            shell = (_SHELL, "-c", command)
            self.pid = child_start(signal.SIGKILL, path, arguments, shell)
            self._watch = Fd(os.pidfd_open(self.pid))
        except OSError as error:
            self.close()
            if isinstance(error, KernelError):
                raise
            raise KernelError(error.errno or 0, "cannot watch the command") from None

    def fileno(self) -> int:
        """Return a descriptor that polls readable once the child has ended (Linux 5.3)."""
        assert self._watch is not None
        return self._watch.fileno()

    def release(self) -> None:
        """Let the command run."""
        if not self._released:
            self._released = True
            # The child may have been killed while it waited.
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """End the child, and what it started, if it is still there; and reap it."""
        if self.pid:
            self._end()
            self.pid = 0
        if self._watch is not None:
            self._watch.close()

    def _end(self) -> None:
        """Ask the child to end, wait a moment, then insist."""
        if self._released and not self._reaped():
            self._send(signal.SIGTERM)
            self._wait(_GRACE_MS)
        if not self._reaped():
            self._send(signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def _reaped(self) -> bool:
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] != 0
        except ChildProcessError:  # somebody else in this process waits for all children
            return True

    def _send(self, number: int) -> None:
        # The child first, lest a shell goes on to its next command.
        for pid in (self.pid, *descendants(self.pid)):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _wait(self, milliseconds: int) -> None:
        if self._watch is not None:
            poll = select.poll()
            poll.register(self._watch.fileno(), select.POLLIN)
            poll.poll(milliseconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def child_start(
    death_signal: int,
    path: str,
    arguments: Sequence[str],
    otherwise: Sequence[str],
) -> int:
    """Fork a child that has stopped and, at SIGCONT, becomes a program; return its pid.

    Where ``path`` cannot be executed it becomes ``otherwise[0]``. It gets ``death_signal`` when the
    calling thread ends.
    """
    kept = [[ffi.new("char[]", os.fsencode(a)) for a in words] for words in (arguments, otherwise)]
    argv, others = (ffi.new("char *[]", [*words, ffi.NULL]) for words in kept)
    pid = lib.child_start(death_signal, os.fsencode(path), argv, others)
    return check(pid, "cannot fork a process for the command")


def descendants(pid: int) -> Iterator[int]:
    """Yield the children of a process, theirs, and so on, as far as the kernel tells.

    Source: /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN).
    """
    children: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - pathlib is slow to import
            with open(f"/proc/{pid}/task/{thread}/children") as file:  # noqa: PTH123 - as above
                children += map(int, file.read().split())
    for child in children:
        yield child
        yield from descendants(child)


_OPERATORS = "();|&\n"
_PLAIN = re.compile(r"[\w./,:=+@%^ \t-]*")
# What a shell does itself although there are programs of these names: it may do it differently.
_BUILT_IN = frozenset({"[", "echo", "false", "kill", "printf", "pwd", "test", "true"})


def program(command: str) -> tuple[str, Sequence[str]]:
    """Return the program, and its arguments from the zeroth on, that run a shell command.

    A single program is started without a shell where the shell has nothing to do, else it takes the
    shell's place by ``exec``: some shells would do that by themselves, dash does not.
    """
    import shlex
    import shutil

    whole = (_SHELL, ("sh", "-c", command))
    plain = re.sub(r"[0-9]*[<>]&[0-9-]", "", command)  # 2>&1 is no list of commands
    lexer = shlex.shlex(plain, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace = " \t"
    try:
        words = list(lexer)
    except ValueError:  # the shell words its complaint about quotes better
        return whole
    if not words or any(word and set(word) <= set(_OPERATORS) for word in words):
        return whole
    if words[0] in _BUILT_IN or "=" in words[0] or "`" in plain or "$(" in plain:
        return whole
    path = shutil.which(words[0])
    if path is None:
        return whole
    if _PLAIN.fullmatch(command):
        return path, command.split()
    return _SHELL, ("sh", "-c", f"exec {command}")
