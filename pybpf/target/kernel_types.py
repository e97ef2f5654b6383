"""The types of a kernel: the running one's, or a file in; its Btf, out.

A file holds BTF as it is (/sys/kernel/btf/vmlinux, ``bpftool btf dump … format raw``), or is an ELF
file with a section .BTF, as a kernel image with debug information (vmlinux) or an object is.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pybpf.errors import TargetError

if TYPE_CHECKING:
    from pybpf.btf.reader import Btf

LIVE = "/sys/kernel/btf/vmlinux"
"""Where a kernel shows its own types, if it has any."""

_ELF = b"\x7fELF"
_LARGEST = 256 << 20


@cache
def live() -> Btf | None:
    """Return the types of the running kernel, None where it has none; they are read once.

    Raises TargetError for what is no BTF.
    """
    from pathlib import Path

    return read(LIVE) if Path(LIVE).exists() else None


def read(path: str) -> Btf:
    """Return the types in a file; raises TargetError, which names it, where there are none."""
    from pybpf.btf.reader import Btf

    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib loads slowly
            is_elf = file.read(len(_ELF)) == _ELF
            file.seek(0)
            data = b"" if is_elf else file.read(_LARGEST + 1)
    except OSError as error:
        raise TargetError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > _LARGEST:
        raise TargetError(f"{path}: over {_LARGEST >> 20} MiB are more than any kernel's types")
    try:
        return Btf(_section(path) if is_elf else data)
    except TargetError as error:
        raise TargetError(f"{path}: {error.message}", hints=error.hints) from None


def _section(path: str) -> bytes:
    """Return the section .BTF of an ELF file of any machine; raises TargetError."""
    from elftools.elf.elffile import ELFFile

    with open(path, "rb") as file:  # noqa: PTH123 - as above
        try:
            section = ELFFile(file).get_section_by_name(".BTF")
            data = b""
            if section is not None and section.data_size <= _LARGEST:
                data = section.data()
        except Exception as error:  # noqa: BLE001 - pyelftools' errors are of any kind
            raise TargetError(f"no ELF file: {error}") from None
    if not data:
        raise TargetError("no section .BTF")
    return data
