"""Where functions lie: the names of functions in, the addresses that can be probed out."""

from __future__ import annotations

from collections.abc import Iterable

from pybpf.errors import TargetError
from pybpf.kernel.tracefs import open_debugfs
from pybpf.target.target import Target

# The call that ftrace replaces begins within so many bytes: behind endbr64, bti and the like.
_ENTRY = 16


def located(names: Iterable[str], target: Target, *, traceable: bool) -> dict[int, str]:
    """Return the addresses of functions, each address once, with one of its names.

    Many static functions may share a name, and a function may have many; ``module:function`` is
    that of the module. ``traceable``: without those that ftrace cannot trace, where it tells (Linux
    6.5). Empty where the kernel hides all addresses.
    """
    try:
        symbols = target.symbols
    except TargetError:
        return {}
    calls = target.entries() if traceable else frozenset()
    found: dict[int, str] = {}
    for name in names:
        for address in symbols.addresses(_symbol(name)):
            if not calls or _reaches(address, calls):
                found.setdefault(address, name)
    return found


def _reaches(address: int, calls: frozenset[int]) -> bool:
    # The most frequent distances first: there are tens of thousands of functions.
    return (
        address in calls
        or address + 4 in calls
        or not calls.isdisjoint(range(address, address + _ENTRY))
    )


def _symbol(name: str) -> str:
    """Return what the symbol table calls a function."""
    module, colon, bare = name.partition(":")
    return f"{bare} [{module}]" if colon else name


# line: '0x' start '-' '0x' end '\t' symbol
def blacklist() -> set[str]:
    """Return the functions that kprobes refuses; none where the list cannot be had."""
    try:
        with open_debugfs() as tree:
            text = tree.read("kprobes/blacklist")
    except (TargetError, FileNotFoundError):
        return set()
    return {line.split()[-1] for line in text.splitlines() if line}
