"""The kernel's tracefs and debugfs, mounted or not: a path in it goes in, the text comes out."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from pybpf.errors import KernelError, TargetError
from pybpf.kernel.namespaces import pid_namespace

_TRACEFS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
_DEBUGFS = ("/sys/kernel/debug",)


class Tree:
    """An open directory of one of these file systems.

    ``where`` is its path, or the file system's name where it is mounted out of sight.
    """

    __slots__ = ("_fd", "where")

    def __init__(self, fd: int, where: str) -> None:
        self._fd = fd
        self.where = where

    def read(self, path: str) -> str:
        """Return the text of the file at a relative path.

        Raises FileNotFoundError where there is none, TargetError where it may not be read.
        """
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._fd)
            with open(fd, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123 - an fd
                return file.read()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _refused(f"{self.where}/{path}", error, self.where) from None


@contextmanager
def open_tracefs() -> Iterator[Tree]:
    """Give access to tracefs in a ``with`` block; raises TargetError saying what to do.

    Where it is mounted nowhere, this mounts it out of everybody's sight for that time: the mount
    has no place in the file hierarchy, and ends with its file descriptor.
    """
    with _open("tracefs", _TRACEFS, "available_events", "CONFIG_TRACING") as tree:
        yield tree


@contextmanager
def open_debugfs() -> Iterator[Tree]:
    """Give access to debugfs, as ``open_tracefs`` does to tracefs."""
    with _open("debugfs", _DEBUGFS, "bdi", "CONFIG_DEBUG_FS") as tree:
        yield tree


@contextmanager
def _open(fstype: str, places: tuple[str, ...], landmark: str, option: str) -> Iterator[Tree]:
    """Open the first place that the file system is mounted at, known by a file always in it."""
    for place in places:
        try:
            fd = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            os.stat(landmark, dir_fd=fd)
        except PermissionError as error:
            os.close(fd)
            raise _refused(place, error, place) from None
        except OSError:  # nothing is mounted there
            os.close(fd)
            continue
        try:
            yield Tree(fd, place)
        finally:
            os.close(fd)
        return
    with _mount(fstype, places[0], option) as tree:
        yield tree


@contextmanager
def _mount(fstype: str, place: str, option: str) -> Iterator[Tree]:
    from pybpf.kernel.syscall import mount_detached

    try:
        mount = mount_detached(fstype)
    except KernelError as error:
        if error.errno == errno.ENODEV:
            raise TargetError(f"this kernel has no {fstype} ({option})") from None
        raise TargetError(
            f"{fstype} is not mounted, and mounting it failed: {error.strerror}",
            hints=(
                *_advice(),
                f"it is mounted by: mount -t {fstype} none {place}",
                *_given(place),
            ),
        ) from None
    with mount:
        yield Tree(mount.fileno(), fstype)


def _refused(path: str, error: OSError, place: str) -> TargetError:
    advice = _advice()
    if error.errno == errno.EACCES:
        advice += (f"root can let a group in: mount -o remount,gid=GROUP,mode=750 {place}",)
    return TargetError(f"cannot read {path}: {error.strerror}", hints=advice)


def _given(place: str) -> tuple[str, ...]:
    """Say how a container gets what its host has mounted."""
    if pid_namespace() is None:
        return ()
    return (f"a container can be given the host's: --volume {place}:{place}:ro",)


def _advice() -> tuple[str, ...]:
    elsewhere = "compile for a saved machine: --target FILE"
    return (f"run as root, or {elsewhere}" if os.geteuid() else elsewhere,)
