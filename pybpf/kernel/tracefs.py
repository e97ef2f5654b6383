"""The kernel's tracefs and debugfs, mounted or not: paths in them are read, written and made."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from pybpf.errors import KernelError, TargetError
from pybpf.kernel.fd import Fd
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
            if error.errno == errno.ENODEV:  # of an event that has gone since it was opened
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
            raise _refused(f"{self.where}/{path}", error, self.where) from None

    def read_bytes(self, path: str) -> bytes:
        """Return the bytes of the file at a relative path. Raises KernelError."""
        with Fd(self.open(path, os.O_RDONLY)) as fd:
            found = b""
            try:
                while piece := os.read(fd.fileno(), 1 << 16):
                    found += piece
            except OSError as error:
                raise self._failed("read", path, error) from None
            return found

    def write(self, path: str, text: str, *, truncate: bool = False) -> None:
        """Write to the file at a relative path in one call, at its end unless ``truncate``.

        Where a file lists what is there (``dynamic_events``), truncating removes it all. Raises
        KernelError.
        """
        flags = os.O_WRONLY | (os.O_TRUNC if truncate else os.O_APPEND)
        with Fd(self.open(path, flags)) as fd:
            data = text.encode("utf-8", "surrogateescape")
            try:
                written = os.write(fd.fileno(), data) if data else 0
            except OSError as error:
                raise self._failed("write to", path, error) from None
            if written != len(data):
                raise KernelError(errno.EIO, f"cannot write all to {self.where}/{path}")

    def open(self, path: str, flags: int) -> int:
        """Return a descriptor of the file at a relative path. Raises KernelError."""
        try:
            return os.open(path, flags | os.O_CLOEXEC, dir_fd=self._fd)
        except OSError as error:
            raise self._failed("open", path, error) from None

    def exists(self, path: str) -> bool:
        """Say whether there is something at a relative path."""
        try:
            os.stat(path, dir_fd=self._fd)
        except OSError:
            return False
        return True

    def names(self, path: str) -> tuple[str, ...]:
        """Return the names in a folder, sorted. Raises KernelError."""
        with Fd(self.open(path, os.O_RDONLY | os.O_DIRECTORY)) as fd:
            return tuple(sorted(os.listdir(fd.fileno())))  # noqa: PTH208 - no path

    def mkdir(self, path: str) -> None:
        """Make a folder. Raises KernelError."""
        try:
            os.mkdir(path, 0o750, dir_fd=self._fd)
        except OSError as error:
            raise self._failed("make", path, error) from None

    def rmdir(self, path: str) -> None:
        """Remove a folder. Raises KernelError."""
        try:
            os.rmdir(path, dir_fd=self._fd)
        except OSError as error:
            raise self._failed("remove", path, error) from None

    def _failed(self, verb: str, path: str, error: OSError) -> KernelError:
        number = error.errno or errno.EIO
        return KernelError(number, f"cannot {verb} {self.where}/{path}", hints=_why(number))


def _why(number: int) -> tuple[str, ...]:
    match number:
        case errno.EACCES | errno.EPERM if os.geteuid():
            return ("only root traces, and whom root lets in",)
        case errno.EPERM:
            from pybpf.kernel.rights import explain

            return tuple(filter(None, (explain(),)))
        case errno.EROFS:
            return ("tracefs is mounted read-only: mount -o remount,rw /sys/kernel/tracing",)
        case _:
            return ()


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
