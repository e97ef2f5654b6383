"""Room for open files: how many a run needs goes in; the soft limit is raised for that long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# Below this even the strictest of usual limits has room, and the limits need not be looked at.
_FEW = 100
# What a Python program has open besides.
_OTHERS = 64


@contextmanager
def room_for_files(count: int) -> Iterator[None]:
    """Let this process open ``count`` more files, as far as its hard limit allows."""
    if count < _FEW:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _OTHERS
    if soft != resource.RLIM_INFINITY and wanted > soft:
        raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
