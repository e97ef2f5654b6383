"""The command of ``-c``: a child that is there, with its pid, before the command starts."""

from __future__ import annotations

import os
import signal
import time
from types import TracebackType
from typing import NoReturn, Self

from pybpf.errors import KernelError

_SHELL = "/bin/sh"
_GRACE = 2.0
_STEP = 0.02


class Child:
    """A forked child that waits for ``release`` to run ``/bin/sh -c command`` in its place.

    If this process ends without releasing it, it ends too, and the command is never run.
    """

    def __init__(self, command: str) -> None:
        held, self._release = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _run(command, held, self._release)
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


def _run(command: str, held: int, release: int) -> NoReturn:
    """Be the child: wait for the go-ahead, then become the shell; never return."""
    try:
        os.close(release)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        if os.read(held, 1):
            os.execv(_SHELL, [_SHELL, "-c", command])  # noqa: S606 - this is the shell
    finally:
        os._exit(127)
