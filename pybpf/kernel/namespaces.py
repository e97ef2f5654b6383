"""The pid namespace of this process: nothing goes in; its device and inode come out."""

from __future__ import annotations

import os

from pybpf.kernel.fd import Fd

_LINK = "/proc/self/ns/pid"
_INITIAL = 0xEFFF_FFFC
"""PROC_PID_INIT_INO of include/linux/proc_ns.h."""
_GET_PID_NAMESPACE = 0xFF05
"""PIDFD_GET_PID_NAMESPACE of include/uapi/linux/pidfd.h (Linux 6.11)."""


def pid_namespace() -> tuple[int, int] | None:
    """Return the namespace that numbers this process: None for the initial one.

    The device is as the kernel writes it: the major number times 2**20, plus the minor. None too
    where nobody tells: /proc is not mounted, and the kernel is older than Linux 6.11.
    """
    try:
        status = os.stat(_LINK)  # noqa: PTH116 - pathlib loads slowly
    except OSError:
        found = _asked()
        if found is None:
            return None
        status = found
    if status.st_ino == _INITIAL:
        return None
    return os.major(status.st_dev) << 20 | os.minor(status.st_dev), status.st_ino


def _asked() -> os.stat_result | None:
    """Ask the kernel itself for what /proc would show."""
    import fcntl

    try:
        with Fd(os.pidfd_open(os.getpid())) as process:
            number = fcntl.ioctl(process.fileno(), _GET_PID_NAMESPACE)
            with Fd(number) as namespace:
                return os.fstat(namespace.fileno())
    except OSError:
        return None
