"""The types of a kernel: the running one's, or a file in; its Btf, out.

A file holds BTF as it is (/sys/kernel/btf/vmlinux, ``bpftool btf dump … format raw``), or is an ELF
file with a section .BTF, as a kernel image with debug information (vmlinux) or an object is.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pybpf.errors import ObjectError, TargetError

if TYPE_CHECKING:
    from pybpf.btf.reader import Btf

LIVE = "/sys/kernel/btf/vmlinux"
"""Where a kernel shows its own types, if it has any."""

_SYMBOLS = "/proc/kallsyms"


@cache
def symbols() -> str:
    """Return the symbols of the running kernel as it lists them, nothing where it does not."""
    try:
        with open(_SYMBOLS, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - pathlib loads slowly
            return file.read()
    except OSError:
        return ""


def read(path: str) -> Btf:
    """Return the types in a file; raises TargetError, which names it, where there are none."""
    from pybpf.btf.source import read_btf

    try:
        return read_btf(path)
    except OSError as error:
        raise TargetError(f"cannot read {path}: {error.strerror}") from None
    except ObjectError as error:
        raise TargetError(str(error)) from None
