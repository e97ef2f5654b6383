"""Where functions lie: the names of functions in, the addresses that can be probed out."""

from __future__ import annotations

from collections.abc import Iterable

from pybpf.errors import TargetError
from pybpf.kernel.tracefs import open_tracefs
from pybpf.target.target import Target

_TRACEABLE = "available_filter_functions_addrs"
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
    calls = _calls() if traceable else frozenset()
    found: dict[int, str] = {}
    for name in names:
        for address in symbols.addresses(_symbol(name)):
            if not calls or not calls.isdisjoint(range(address, address + _ENTRY)):
                found.setdefault(address, name)
    return found


def _symbol(name: str) -> str:
    """Return what the symbol table calls a function."""
    module, colon, bare = name.partition(":")
    return f"{bare} [{module}]" if colon else name


# line: address ' ' name ['\t[' module ']']
def _calls() -> frozenset[int]:
    """Return the addresses of the calls that ftrace replaces; none where it does not tell."""
    try:
        with open_tracefs() as tree:
            text = tree.read(_TRACEABLE)
    except (FileNotFoundError, TargetError):
        return frozenset()
    return frozenset(int(line.partition(" ")[0], 16) for line in text.splitlines())
