"""Names that tell whose something in tracefs is: a process in, a name out, and the way back.

Events and instances stay when the process that made them is killed. Those that carry an owner can
be told from what anybody else made, and from what is still in use.

    pybpf_PID_START_NAMESPACE_SERIAL[_REST]

``START`` is when the process began, in clock ticks since boot; ``NAMESPACE`` the inode of the pid
namespace that numbers it, 0 for the initial one; both hexadecimal. ``SERIAL`` counts in a process.
"""

from __future__ import annotations

import itertools
import os
import re

from pybpf.dataclass import dataclass
from pybpf.kernel.namespaces import pid_namespace

_NAME = re.compile(r"pybpf_(\d{1,10})_([0-9a-f]{1,16})_([0-9a-f]{1,16})_(\d{1,9})(?:_|\Z)")
_serials = itertools.count()


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, and a number for each thing it does at the same time."""

    pid: int
    start: int
    namespace: int
    serial: int

    def __str__(self) -> str:
        return f"pybpf_{self.pid}_{self.start:x}_{self.namespace:x}_{self.serial}"


def new_owner() -> Owner:
    """Return this process, with the next serial number."""
    pid = os.getpid()
    return Owner(pid, _start("self") or 0, _namespace(), next(_serials))


def owner_of(name: str) -> Owner | None:
    """Return whose a group of events, a synthetic event or an instance is; None: nobody's."""
    match = _NAME.match(name)
    if match is None:
        return None
    return Owner(int(match[1]), int(match[2], 16), int(match[3], 16), int(match[4]))


def alive(owner: Owner) -> bool:
    """Say whether the owner's process runs, or cannot be seen from here.

    Processes of a pid namespace are numbered in it, and seen from it and the namespaces around.
    """
    if owner.namespace == _namespace():
        return _start(str(owner.pid)) == owner.start
    if pid_namespace() is not None:
        return True
    return any(_is_in(pid, owner) for pid in _processes())


def _namespace() -> int:
    found = pid_namespace()
    return 0 if found is None else found[1]


def _processes() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - slow
    except OSError:
        return []


def _is_in(pid: str, owner: Owner) -> bool:
    try:
        inode = os.stat(f"/proc/{pid}/ns/pid").st_ino  # noqa: PTH116 - pathlib loads slowly
    except OSError:
        return False
    return inode == owner.namespace and _start(pid) == owner.start


# stat: pid '(' comm ')' state ppid … starttime(22) …
def _start(pid: str) -> int | None:
    """Return when a process began, None where there is none, or a dead one."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib loads slowly
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in {b"Z", b"X"} else int(fields[19])
