"""Kernels known without having them: the name of one in, what is known of it out.

The data are from Debian's kernels for x86-64, booted without modules: the names of their symbols,
and of their types (BTF) those that definitions of probes name most; of others the names alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pybpf.btf.reader import Btf
from pybpf.dataclass import replace
from pybpf.tracefs.dynevents.rules import KNOWN, rules_for
from pybpf.tracefs.dynevents.world import World
from pybpf.tracefs.format import EventFormat

_DATA = Path(__file__).parent / "data"
_CODE, _OTHER, _SEVERAL = range(3)
_TYPED = ("6.12", "7.3")
"""The kernels whose types are known; definitions of older ones cannot ask for any."""

# What is left out of the data: names that the compiler, the tracer or the linker made.
_LEFT_OUT = re.compile(
    r"___|__pfx_|__k(?:sym|str)tab|__cfi|__SC[TK]__|__bpf_trace|__crc_|__param_|__UNIQUE|__initcall"
    r"|__setup|__event_|__tpstr|__func__|__already_done|__key\.|__warned|_rs\.|__exitcall"
    r"|__tracepoint_ptr|__addressable|__p[0-9]|trace_event_(?:fields|raw)|event_class|__probestub"
    r"|__flags_|__BTF_ID_|(?:__)?TRACE_SYS|print_fmt|event_e(?:nter|xit)__|__syscall_meta"
    r"|__compoundliteral|types__|args__|__tracepoint_|dev_attr_"
    r"|__traceiter|perf_trace|trace_raw_output|__print_once|descriptor\."
    r"|_R[NI]|security_hook_active_|trace_event_type_funcs_|event_attr_|rust_helper_"
    r"|.*\.(?:cold|isra|part|constprop|llvm|\d+\Z)"
)


# Those of them that kprobes may be put on.
_LEFT_OUT_CODE = re.compile(r"__traceiter|__probestub|.*\.(?:isra|part|constprop|llvm)")


class Names:
    """Names of symbols; one of the kind that the data leave out counts as there."""

    def __init__(self, names: frozenset[str], left_out: re.Pattern[str]) -> None:
        self._names = names
        self._left_out = left_out

    def __contains__(self, name: object) -> bool:
        return name in self._names or (isinstance(name, str) and bool(self._left_out.match(name)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def profile(release: str, formats: Mapping[str, EventFormat] | None = None) -> World:
    """Return what is known of a kernel release, with the formats of its events if given.

    Of a release that is not one of those that were recorded, only rules are known, those of the
    nearest. Raises TargetError for a text that is no release.
    """
    world = World(rules_for(release), formats)
    if release not in KNOWN:
        return world
    code, other, several = _symbols(release)
    world = replace(
        world,
        functions=Names(code, _LEFT_OUT_CODE),
        symbols=Names(code | other, _LEFT_OUT),
        repeated=several,
    )
    return replace(world, types=_types(release)) if world.rules.btf_args else world


def _types(release: str) -> Btf:
    """Return the types of a release: both lie in one file, each behind its length (u32)."""
    data, start = _unpacked("btf.xz"), 4
    for one in _TYPED:
        size = int.from_bytes(data[start - 4 : start], "little")
        if one == release:
            return Btf(data[start : start + size], complete=False)
        start += size + 4
    raise LookupError(release)


def _symbols(release: str) -> tuple[frozenset[str], ...]:
    """Return the names of functions to probe, those of all else, and those of several symbols.

    The first line of the file has for each name, as one character each, in which of the kernels a
    kprobe may be put on it, in which it is something else and in which several symbols have it:
    bits from 1 on, added to ``0``. A kprobe may be put on what ftrace can trace. The second line
    has one character a name: how many it shares with the one before, added to a blank. What follows
    these is on a line each.
    """
    bit = 1 << tuple(KNOWN).index(release)
    kernels, shared, *endings = _unpacked("symbols.xz").decode("ascii").split("\n")
    name, names = "", []
    for length, ending in zip(shared, endings, strict=True):
        name = name[: ord(length) - ord(" ")] + ending
        names.append(name)
    return tuple(
        frozenset(
            name for name, one in zip(names, kernels[kind::3], strict=True)
            if ord(one) - ord("0") & bit
        )
        for kind in (_CODE, _OTHER, _SEVERAL)
    )  # fmt: skip


def _unpacked(name: str) -> bytes:
    import lzma

    return lzma.decompress((_DATA / name).read_bytes())
