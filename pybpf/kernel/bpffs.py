"""Pins: objects and paths in; names in a bpf file system out, all of them or none.

A pin holds its object when the process that made it has ended.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from types import TracebackType
from typing import Self

from pybpf.errors import KernelError
from pybpf.kernel.fd import Fd
from pybpf.kernel.packed import pin

ROOT = "/sys/fs/bpf"


class Pins:
    """Names made in one go: leaving its ``with`` block by an error removes them all."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._folders: list[str] = []

    def add(self, held: Fd, path: str) -> None:
        """Pin an object; folders that are missing are made. Raises KernelError."""
        self._make(os.path.dirname(path))  # noqa: PTH120 - pathlib loads slowly
        try:
            pin(held, path)
        except KernelError as error:
            error.hints = _advice(error.errno, path) or error.hints
            raise
        self._paths.append(path)

    def _make(self, folder: str) -> None:
        if not folder or os.path.isdir(folder):  # noqa: PTH112
            return
        self._make(os.path.dirname(folder))  # noqa: PTH120
        try:
            os.mkdir(folder, 0o700)  # noqa: PTH102
        except OSError as error:
            hints = _advice(errno.EPERM, folder)
            raise KernelError(error.errno or 0, f"cannot make {folder}", hints=hints) from None
        self._folders.append(folder)

    def remove(self) -> None:
        """Remove every name, and the folders made for them."""
        for path in reversed(self._paths):
            with suppress(OSError):
                os.unlink(path)  # noqa: PTH108
        for folder in reversed(self._folders):
            with suppress(OSError):
                os.rmdir(folder)  # noqa: PTH106
        self._paths, self._folders = [], []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.remove()


def _advice(number: int | None, path: str) -> tuple[str, ...]:
    match number:
        case errno.EEXIST:
            return ("something is pinned there already: remove it, or choose another folder",)
        case errno.EPERM if not _inside(path):
            return (f"it is in no bpf file system: mount -t bpf bpf {ROOT}",)
        case _:
            return ()


def _inside(path: str) -> bool:
    """Whether the place of a path is on a bpf file system, as far as /proc tells."""
    folder = os.path.realpath(os.path.dirname(path))  # noqa: PTH120
    while not os.path.isdir(folder):  # noqa: PTH112
        folder = os.path.dirname(folder)  # noqa: PTH120
    device = os.stat(folder).st_dev  # noqa: PTH116
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", errors="surrogateescape") as file:  # noqa: PTH123
            return any(
                line.split(" ")[2] == wanted and line.partition(" - ")[2].startswith("bpf ")
                for line in file
            )
    except OSError:
        return True
