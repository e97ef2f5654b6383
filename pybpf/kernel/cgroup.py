"""Cgroups: a directory, or ``self`` for this process's own, goes in; an open descriptor comes out.

Only those of version 2, in the one hierarchy that all tasks are in, can be asked about by programs.
"""

from __future__ import annotations

import errno
import os
import re

from pybpf.errors import KernelError
from pybpf.kernel.fd import Fd

SELF = "self"
_FSTYPE = "cgroup2"
_UNMOUNTED = "no cgroup2 is mounted: mount -t cgroup2 none /sys/fs/cgroup"


def open_cgroup(path: str) -> Fd:
    """Open a cgroup of version 2; raises KernelError that says what is wrong, and what to do."""
    mounts = _mounts(_read("/proc/self/mountinfo"))
    action = f"cannot use the cgroup {path}"
    if path == SELF:
        own = own_path(_read("/proc/self/cgroup"))
        path = _visible(own, mounts)
        action = f"cannot use the cgroup of this process, {own}"
    try:
        fd = Fd(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError as error:
        raise KernelError(error.errno or 0, action, hints=_advice(mounts)) from None
    device = os.fstat(fd.fileno()).st_dev
    if f"{os.major(device)}:{os.minor(device)}" not in {mount[0] for mount in mounts}:
        fd.close()
        hint = "it is no directory of a cgroup2 file system"
        raise KernelError(errno.EINVAL, action, hints=(hint, *_advice(mounts)))
    return fd


def own_path(text: str) -> str:
    """Return the cgroup that a ``/proc/PID/cgroup`` names in the hierarchy of version 2.

    Line: hierarchy ``:`` controllers ``:`` path. Version 2 has number 0 and no controllers.
    """
    found = re.search(r"^0::(/.*)$", text, re.MULTILINE)
    if found is None:
        raise KernelError(
            errno.ENOENT,
            "cannot tell the cgroup of this process",
            hints=("/proc/self/cgroup has no line that begins with 0:: (CONFIG_CGROUPS, /proc)",),
        )
    return found[1]


_Mount = tuple[str, str, str]
"""Its device as ``major:minor``, the cgroup at its root, and the directory it is mounted at."""


def _mounts(text: str) -> list[_Mount]:
    """Return the mounts of version 2 that a ``/proc/PID/mountinfo`` tells of.

    Line: id, parent, device, root, directory, options, ``-``, type, source, options.
    """
    found = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        if after.split(" ")[0] == _FSTYPE:
            device, root, directory = before.split(" ")[2:5]
            found.append((device, _unescaped(root), _unescaped(directory)))
    return found


def _unescaped(name: str) -> str:
    """Return a name without mountinfo's escapes for blanks, line ends and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), name)


def _visible(own: str, mounts: list[_Mount]) -> str:
    """Return the directory of a cgroup, where one of the mounts shows it."""
    for _, root, directory in mounts:
        if own == root or own.startswith(f"{root.rstrip('/')}/"):
            return f"{directory}/{own[len(root) :].lstrip('/')}"
    raise KernelError(
        errno.ENOENT,
        f"cannot find the cgroup of this process, {own}",
        hints=(f"{mounts[0][2]} shows {mounts[0][1]} only" if mounts else _UNMOUNTED,),
    )


def _advice(mounts: list[_Mount]) -> tuple[str, ...]:
    if not mounts:
        return (_UNMOUNTED,)
    return (f"cgroups are the directories in {mounts[0][2]}; `--cgroup self` is pybpf's own",)


def _read(path: str) -> str:
    """Return the text of a file of /proc; empty where there is none."""
    try:
        with open(path, errors="surrogateescape") as file:  # noqa: PTH123 - pathlib loads slowly
            return file.read()
    except OSError:
        return ""
