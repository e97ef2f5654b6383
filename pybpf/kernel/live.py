"""The running machine as a Target: every fact is read when first asked for, and kept."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from pybpf.errors import KernelError, TargetError
from pybpf.kernel.functions import blacklist
from pybpf.kernel.namespaces import pid_namespace
from pybpf.kernel.tracefs import open_tracefs
from pybpf.target.arch import ARCHES, Arch
from pybpf.target.features import ALL
from pybpf.target.symbols import SymbolTable, hex_numbers, parse_kallsyms
from pybpf.tracefs.format import EventFormat, parse_format

if TYPE_CHECKING:
    from pybpf.btf.reader import Btf

_KALLSYMS = "/proc/kallsyms"
# The second is read where there is not the first (Linux 6.5).
_TRACEABLE = ("available_filter_functions_addrs", "available_filter_functions")
# line: [address ' '] name [' [' module ']'], or a tab in the place of the second blank.
_ADDRESS = re.compile(r"^([0-9a-f]+) (?!\[)", re.MULTILINE)
_NAME = re.compile(r"^(?:[0-9a-f]+ (?!\[))?(\S+)", re.MULTILINE)
_EVENT_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
# Compilers put these before functions, and the symbols before these mark no functions.
_PADDING = ("__pfx_", "__cfi_", "__ftrace_invalid_address__")


def read_kallsyms() -> str:
    """Return the kernel's symbols as it lists them. Raises OSError."""
    with open(_KALLSYMS, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123 - pathlib loads slowly
        return file.read()


class LiveTarget:
    """This machine. ``environment`` adds to, and goes before, the environment of this process."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._overrides = dict(environment or {})
        self._formats: dict[str, EventFormat] = {}
        self._addresses: dict[str, int] = {}

    @cached_property
    def arch(self) -> Arch:
        """Registers and calling convention; raises TargetError for an unknown machine."""
        machine = os.uname().machine
        if machine not in ARCHES:
            raise TargetError(f"unknown architecture {machine}; known are {', '.join(ARCHES)}")
        return ARCHES[machine]

    @cached_property
    def release(self) -> str:
        """The kernel release, such as ``6.12.117+deb13-amd64``."""
        return os.uname().release

    @cached_property
    def cpus(self) -> int:
        """The number of possible CPUs."""
        from pybpf.kernel.maps import possible_cpus

        return len(possible_cpus())

    @cached_property
    def features(self) -> frozenset[str]:
        """What the kernel's BPF can do, by the names in ``target.features``.

        Whoever has no right to find out cannot run a script either, but may compile one: then it
        is compiled for a current kernel.
        """
        try:
            from pybpf.kernel.features import detect

            return detect()
        except KernelError:
            return ALL

    @cached_property
    def pid_namespace(self) -> tuple[int, int] | None:
        """The namespace of this process's pid: its device and inode; None for the initial one."""
        return pid_namespace()

    @cached_property
    def environment(self) -> Mapping[str, str]:
        """What ``$name`` stands for in a script."""
        return {**os.environ, **self._overrides}

    @cached_property
    def symbols(self) -> SymbolTable:
        """The kernel's text symbols, modules included; raises TargetError where they are hidden."""
        try:
            text = read_kallsyms()
        except OSError as error:
            raise TargetError(
                f"cannot read {_KALLSYMS}: {error.strerror} (CONFIG_KALLSYMS)"
            ) from None
        table = parse_kallsyms(text)
        if not any(address for address, _ in table):
            raise TargetError(
                f"the kernel hides the addresses in {_KALLSYMS}; "
                "run as root or with CAP_SYSLOG, and the sysctl kernel.kptr_restrict at most 1"
            )
        return table

    @cached_property
    def types(self) -> Btf | None:
        """The kernel's types, without those of modules; None where it does not tell."""
        from pybpf.btf.reader import Btf
        from pybpf.target.kernel_types import LIVE

        try:
            with open(LIVE, "rb") as file:  # noqa: PTH123
                return Btf(file.read())
        except OSError:
            return None

    def symbol_address(self, name: str) -> int:
        """Return the address of a symbol of code or data; raises TargetError without it."""
        if name not in self._addresses:
            self._addresses[name] = self._find_address(name)
        return self._addresses[name]

    def _find_address(self, name: str) -> int:
        pattern = re.compile(rf"^([0-9a-f]+) \S {re.escape(name)}(?:\t\[.*)?$", re.MULTILINE)
        try:
            found = pattern.search(read_kallsyms())
        except OSError as error:
            raise TargetError(f"cannot read {_KALLSYMS}: {error.strerror}") from None
        if found is None:
            raise TargetError(f"unknown symbol '{name}'")
        if not int(found[1], 16):
            raise TargetError(f"the kernel hides the address of '{name}'; run as root")
        return int(found[1], 16)

    @cached_property
    def _event_names(self) -> tuple[str, ...]:
        with open_tracefs() as tree:
            text = tree.read("available_events")
        return tuple(sorted(line.replace(":", "/", 1) for line in text.split()))

    def event_names(self) -> Sequence[str]:
        """Return all tracepoints as ``category/event``, sorted; raises TargetError without any."""
        return self._event_names

    def event_text(self, name: str) -> str:
        """Return the format file of tracepoint ``category/event``; raises TargetError."""
        if _EVENT_NAME.fullmatch(name):
            with open_tracefs() as tree:
                try:
                    return tree.read(f"events/{name}/format")
                except FileNotFoundError:
                    pass
        raise TargetError(f"unknown tracepoint '{name}'")

    def event_format(self, name: str) -> EventFormat:
        """Return the format of tracepoint ``category/event``; raises TargetError if unknown."""
        if name not in self._formats:
            text = self.event_text(name)
            self._formats[name] = parse_format(text, name, self.arch.byteorder)
        return self._formats[name]

    @cached_property
    def _traceable(self) -> str:
        """What ftrace can trace: the list that has addresses, else that of names only."""
        first, second = _TRACEABLE
        with open_tracefs() as tree:
            with suppress(FileNotFoundError):
                return tree.read(first)
            return tree.read(second)

    @cached_property
    def _entries(self) -> frozenset[int]:
        try:
            addresses = _ADDRESS.findall(self._traceable)
        except (FileNotFoundError, TargetError):
            return frozenset()
        return frozenset(hex_numbers(addresses))

    def entries(self) -> frozenset[int]:
        """Return the addresses of the calls that ftrace replaces; none where it does not tell."""
        return self._entries

    @cached_property
    def _functions(self) -> tuple[str, ...]:
        try:
            names = set(_NAME.findall(self._traceable))
        except (FileNotFoundError, TargetError):  # without CONFIG_DYNAMIC_FTRACE there is no list
            names = {_bare(name) for _, name in self.symbols}
        else:
            names |= self._aliases(names)
        names -= blacklist()
        return tuple(sorted(name for name in names if not name.startswith(_PADDING)))

    def _aliases(self, names: set[str]) -> set[str]:
        """Return all names of functions that go by one of ``names``: ftrace lists one of each."""
        try:
            synonyms = self.symbols.synonyms()
        except TargetError:
            return set()
        groups = ({_bare(name) for name in group} for group in synonyms)
        return set().union(*(group for group in groups if group & names))

    def functions(self) -> Sequence[str]:
        """Return the names of the functions a kprobe may be put on, sorted, without repeats.

        They are those that ftrace can trace, under all their names, or all functions where it
        cannot tell, without the blacklist of kprobes. Raises TargetError where neither tracefs nor
        the symbols can be read.
        """
        return self._functions


def _bare(name: str) -> str:
    """Return a symbol's name without its module."""
    return name.partition(" ")[0]
