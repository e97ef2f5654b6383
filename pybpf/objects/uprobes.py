"""A place in a program or library, as sections name it, in; what holds a user probe there out.

    place = path ':' (function ['@' version] | number) ['+' number]

A path without a slash is looked for where shells look for programs and the linker for libraries.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

from pybpf.errors import KernelError, ObjectError
from pybpf.isa.abi import AttachType
from pybpf.kernel import features, syscall
from pybpf.kernel.attach import link_event
from pybpf.kernel.fd import Fd
from pybpf.kernel.maps import online_cpus
from pybpf.kernel.programs import Prog
from pybpf.suggest import did_you_mean

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_LIBRARIES = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")


def link_one(prog: Prog, place: str, pid: int | None, *, on_return: bool) -> tuple[Fd, Fd]:
    """Return the event and the link that hold a probe; raises KernelError and ObjectError."""
    path, name = _parts(place)
    (offset,) = _offsets(path, name, exact=True)
    pmu = features.pmu("uprobe")
    if pmu is None:
        hint = "this kernel was built without CONFIG_UPROBE_EVENTS"
        raise KernelError(errno.EOPNOTSUPP, f"cannot probe {place}", hints=(hint,))
    config = pmu.bits.get("retprobe", 1) if on_return else 0
    process, cpu = (pid, -1) if pid is not None else (-1, online_cpus()[0])
    event = syscall.perf_open_probe(pmu.type, config, path, offset, pid=process, cpu=cpu)
    try:
        return event, link_event(prog, event)
    except BaseException:
        event.close()
        raise


def link_many(
    prog: Prog, place: str, pid: int | None, *, on_return: bool, attach_type: AttachType | None
) -> Fd:
    """Return the link that holds probes on all functions that a pattern matches (Linux 6.6)."""
    path, name = _parts(place)
    return syscall.link_uprobe_multi(
        prog, path, _offsets(path, name, exact=False), on_return=on_return, pid=pid or 0,
        attach_type=attach_type or AttachType.TRACE_UPROBE_MULTI,
    )  # fmt: skip


def _parts(place: str) -> tuple[str, str]:
    path, colon, name = place.rpartition(":")
    if not colon or not path or not name:
        raise ObjectError("", f"{place} is no place in a program, as /bin/sh:main is")
    if "/" in path:
        return path, name
    for folder in _folders(path):
        found = f"{folder}/{path}"
        if os.path.isfile(found):  # noqa: PTH113 - pathlib loads slowly
            return found, name
    raise KernelError(errno.ENOENT, f"cannot find {path}, of which {name} is to be probed")


def _folders(name: str) -> Iterator[str]:
    if ".so" in name:
        yield from os.environ.get("LD_LIBRARY_PATH", "").split(":")
        for folder in _LIBRARIES:
            yield f"{folder}/{os.uname().machine}-linux-gnu"
            yield folder
    yield from os.environ.get("PATH", "/usr/bin:/usr/sbin").split(":")


def _offsets(path: str, name: str, *, exact: bool) -> Sequence[int]:
    """Return where in the file functions are; raises KernelError where it has none of that name."""
    name, plus, distance = name.partition("+")
    more = _number(distance) if plus else 0
    if more is None:
        raise ObjectError("", f"+{distance} is no number of bytes")
    if (offset := _number(name)) is not None:
        return (offset + more,)
    with _Symbols(path) as symbols:
        found = symbols.offsets(name, exact=exact)
        if not found:
            hint = f"no function of the file is called so{did_you_mean(name, symbols.names())}"
            raise KernelError(errno.ENOENT, f"cannot probe {path}:{name}", hints=(hint,))
    return [offset + more for offset in found]


def _number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


class _Symbols:
    """The functions of an ELF file for this machine."""

    def __init__(self, path: str) -> None:
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile

        self._path = path
        try:
            self._file = open(path, "rb")  # noqa: PTH123, SIM115
        except OSError as error:
            raise KernelError(error.errno or 0, f"cannot open {path}") from None
        try:
            self._elf: ELFFile = ELFFile(self._file)
            self._functions = dict(self._read())
        except (ELFError, ValueError, KeyError, AssertionError) as error:
            self._file.close()
            raise ObjectError(path, f"no program or library: {error}") from None

    def _read(self) -> Iterator[tuple[str, int]]:
        from elftools.elf.sections import SymbolTableSection

        segments = [
            (s["p_vaddr"], s["p_filesz"], s["p_offset"]) for s in self._elf.iter_segments("PT_LOAD")
        ]
        for section in (".dynsym", ".symtab"):
            table = self._elf.get_section_by_name(section)
            for symbol in table.iter_symbols() if isinstance(table, SymbolTableSection) else ():
                kind, address = symbol["st_info"]["type"], symbol["st_value"]
                if kind not in {"STT_FUNC", "STT_GNU_IFUNC", "STT_LOOS"} or not address:
                    continue
                for start, size, offset in segments:
                    if start <= address < start + size:
                        yield symbol.name, address - start + offset

    def names(self) -> Iterator[str]:
        return iter(self._functions)

    def offsets(self, pattern: str, *, exact: bool) -> Sequence[int]:
        """Return where functions of a name, or of a pattern, are; each place once."""
        if exact:
            bare = pattern.partition("@")[0]
            return [self._functions[bare]] if bare in self._functions else []
        from fnmatch import fnmatchcase

        return sorted({at for name, at in self._functions.items() if fnmatchcase(name, pattern)})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
