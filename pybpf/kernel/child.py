"""The command of ``-c``: a child that is there, with its pid, before the command starts."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Sequence
from types import TracebackType
from typing import NoReturn, Self

from pybpf.errors import KernelError

_SHELL = "/bin/sh"
_GRACE = 2.0
_STEP = 0.02


class Child:
    """A forked child that waits for ``release`` to run a shell command in its place.

    A single command keeps the pid, so that a script's ``pid == $target`` is about it; what a
    pipeline or a list of commands starts are children of the shell that has the pid.

    If this process ends without releasing it, it ends too, and the command is never run.
    """

    def __init__(self, command: str) -> None:
        path, arguments = program(command)
        held, self._release = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _run(path, arguments, held, self._release)
        os.close(held)
        self._pidfd = -1
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except OSError as error:
            self.close()
            raise KernelError(error.errno or 0, "cannot watch the command") from None

    def fileno(self) -> int:
        """Return a descriptor that polls readable once the child has ended (Linux 5.3)."""
        return self._pidfd

    def release(self) -> None:
        """Let the command run."""
        if self._release >= 0:
            os.write(self._release, b"!")
            os.close(self._release)
            self._release = -1

    def close(self) -> None:
        """End the child if it is still there, and reap it."""
        if self._release >= 0:
            os.close(self._release)
            self._release = -1
        if self.pid > 0:
            self._end()
            self.pid = 0
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _end(self) -> None:
        """Ask the child to end, wait a moment, then insist."""
        for number in (0, signal.SIGTERM, signal.SIGKILL):
            if number:
                os.kill(self.pid, number)
            until = time.monotonic() + (_GRACE if number else 0)
            while True:
                flags = 0 if number == signal.SIGKILL else os.WNOHANG
                if os.waitpid(self.pid, flags)[0]:
                    return
                if time.monotonic() >= until:
                    break
                time.sleep(_STEP)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _run(path: str, arguments: Sequence[str], held: int, release: int) -> NoReturn:
    """Be the child: wait for the go-ahead, then become the program; never return."""
    try:
        os.close(release)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        if os.read(held, 1):
            os.execv(path, arguments)  # noqa: S606 - starting a process is what it is for
    finally:
        os._exit(127)


_OPERATORS = "();|&\n"
_PLAIN = re.compile(r"[\w./,:=+@%^ \t-]*")


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
    path = None if "=" in words[0] or "`" in plain or "$(" in plain else shutil.which(words[0])
    if path is None:
        return whole
    if _PLAIN.fullmatch(command):
        return path, command.split()
    return _SHELL, ("sh", "-c", f"exec {command}")
