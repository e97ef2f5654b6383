"""Prototypes of helpers: a helper's number, a kernel's version and a program type in, a Proto out.

The facts are the table of protos_table, read when the first prototype is asked for. What may be
called by whom is in a profile (pybpf.target.profile).
"""

from __future__ import annotations

import re
from enum import Enum, Flag, auto
from functools import cache

from pybpf.dataclass import dataclass
from pybpf.isa.abi import ProgType
from pybpf.isa.helpers import HELPER_NAMES


class Arg(Enum):
    """``ARG_*``: what an argument must be. The value is its name in the table."""

    ANYTHING = "any"
    SCALAR = "scalar"
    CONST_MAP_PTR = "map"
    PTR_TO_MAP_KEY = "key"
    PTR_TO_MAP_VALUE = "value"
    PTR_TO_MEM = "mem"
    CONST_SIZE = "size"
    CONST_SIZE_OR_ZERO = "size0"
    CONST_ALLOC_SIZE_OR_ZERO = "alloc_size0"
    PTR_TO_CTX = "ctx"
    PTR_TO_SPIN_LOCK = "spin_lock"
    PTR_TO_SOCK_COMMON = "sock_common"
    PTR_TO_SOCKET = "socket"
    PTR_TO_BTF_ID = "btf"
    PTR_TO_BTF_ID_SOCK_COMMON = "sk"
    PTR_TO_PERCPU_BTF_ID = "percpu_btf"
    PTR_TO_RINGBUF_MEM = "ringbuf_mem"
    PTR_TO_FUNC = "func"
    PTR_TO_STACK = "stack"
    PTR_TO_CONST_STR = "const_str"
    PTR_TO_TIMER = "timer"
    KPTR_XCHG_DEST = "kptr_xchg_dest"
    PTR_TO_DYNPTR = "dynptr"


class Ret(Enum):
    """``RET_*``: what a helper leaves in R0. The value is its name in the table."""

    INTEGER = "int"
    VOID = "void"
    PTR_TO_MAP_VALUE = "value"
    PTR_TO_SOCKET = "socket"
    PTR_TO_TCP_SOCK = "tcp_sock"
    PTR_TO_SOCK_COMMON = "sock_common"
    PTR_TO_MEM = "mem"
    PTR_TO_MEM_OR_BTF_ID = "mem_or_btf"
    PTR_TO_BTF_ID = "btf"


class TypeFlag(Flag):
    """Flags of an argument's or a result's type; names without ``PTR_``, ``MEM_`` and ``OBJ_``."""

    NONE = 0
    NULL = auto()
    """May be NULL (PTR_MAYBE_NULL)."""
    RDONLY = auto()
    """Only read by the helper, so that read-only memory will do (MEM_RDONLY)."""
    UNINIT = auto()
    """Filled by the helper, so that it need not be initialised (MEM_UNINIT)."""
    WRITE = auto()
    """Written by the helper, so that read-only memory will not do (MEM_WRITE)."""
    ALIGNED = auto()
    """Must be aligned to its size."""
    RELEASE = auto()
    """Releases the reference that the register holds (OBJ_RELEASE)."""
    RINGBUF = auto()
    """Memory, or a dynptr, of a ring buffer's reservation."""
    LOCAL = auto()
    """A dynptr to memory of the program."""
    TRUSTED = auto()


class CallFlag(Flag):
    """What else is to know of a helper."""

    NONE = 0
    GPL = auto()
    """Only for programs with a licence that the GPL is compatible with."""
    PKT = auto()
    """May be handed pointers into packets (``pkt_access``)."""
    SLEEP = auto()
    """May sleep, so that only sleepable programs may call it (``might_sleep``)."""
    FAST = auto()
    """Leaves R1 to R5 alone where the program follows the rules of bpf_fastcall."""
    LIMITED = auto()
    """Allowed in certain attach points only (``allowed``)."""
    PACKET = auto()
    """Makes all pointers into packets invalid."""
    ACQUIRE = auto()
    """R0 holds a reference that must be released."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument. ``btf`` is the name of the structure of BTF pointers, or empty.

    ``size`` is the bytes of memory of a fixed size, or 0.
    """

    kind: Arg
    flags: TypeFlag
    btf: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class Returned:
    """What a helper leaves in R0; ``btf`` as in Argument."""

    kind: Ret
    flags: TypeFlag
    btf: str = ""


@dataclass(frozen=True, slots=True)
class Proto:
    """The prototype of a helper. ``name`` is without ``bpf_``."""

    number: int
    name: str
    args: tuple[Argument, ...]
    ret: Returned
    flags: CallFlag


@dataclass(frozen=True, slots=True)
class _Row:
    since: tuple[int, int]
    types: frozenset[str]
    proto: Proto


_MEM_WRITE = (6, 1)
"""Since when kernels know MEM_WRITE: 6.12, and the stable releases of 6.1 and 6.6."""


def proto(
    number: int, version: tuple[int, int], prog_type: ProgType = ProgType.UNSPEC
) -> Proto | None:
    """Return the prototype of a helper in a kernel, for programs of a type; None for no helper.

    Whether that kernel has the helper, and lets the type call it, is for its profile to say.
    """
    return _proto(number, version, prog_type.name.lower())


@cache
def _proto(number: int, version: tuple[int, int], prog_type: str) -> Proto | None:
    rows = _rows(number)
    particular = tuple(row for row in rows if prog_type in row.types)
    rows = particular or tuple(row for row in rows if not row.types)
    if not rows:
        return None
    found = max((row for row in rows if row.since <= version), key=_since, default=rows[0]).proto
    return _without_write(found) if version < _MEM_WRITE else found


def _since(row: _Row) -> tuple[int, int]:
    return row.since


def _without_write(found: Proto) -> Proto:
    args = tuple(
        Argument(arg.kind, arg.flags & ~TypeFlag.WRITE, arg.btf, arg.size) for arg in found.args
    )
    return Proto(found.number, found.name, args, found.ret, found.flags)


_ROW = re.compile(r"(\w+)(?:@(\d+)\.(\d+))?(?: \[(\w+)\])? +(.*?)-> (\S+)((?: !\w+)*)")


@cache
def _lines() -> dict[str, list[str]]:
    """Return the lines of the table by the helpers' names."""
    from pybpf.verifier.protos_table import ROWS

    lines: dict[str, list[str]] = {}
    for line in filter(None, ROWS.split("\n")):
        lines.setdefault(line.partition(" ")[0].partition("@")[0], []).append(line)
    return lines


@cache
def _rows(number: int) -> tuple[_Row, ...]:
    """Return the rows of a helper, in their order; none for what is no helper."""
    name = HELPER_NAMES.get(number, "").removeprefix("bpf_")
    return tuple(_row(number, line) for line in _lines().get(name, ()))


def _row(number: int, line: str) -> _Row:
    from pybpf.verifier.protos_table import GROUPS

    match = _ROW.fullmatch(line)
    assert match, line
    name, major, minor, group, args, ret, flags = match.groups()
    kind, type_flags, inner = _split(ret)
    call_flags = CallFlag.NONE
    for flag in flags.split():
        call_flags |= CallFlag[flag[1:].upper()]
    arguments = tuple(map(_argument, args.split()))
    return _Row(
        (int(major or 0), int(minor or 0)),
        frozenset(GROUPS.get(group, group).split()) if group else frozenset(),
        Proto(number, name, arguments, Returned(Ret(kind), type_flags, inner), call_flags),
    )


def _argument(text: str) -> Argument:
    kind, flags, inner = _split(text)
    if inner.isdigit():
        return Argument(Arg(kind), flags, size=int(inner))
    return Argument(Arg(kind), flags, inner)


def _split(text: str) -> tuple[str, TypeFlag, str]:
    """Return the parts of ``kind<structure or size>|flag|flag``."""
    head, *names = text.split("|")
    flags = TypeFlag.NONE
    for name in names:
        flags |= TypeFlag[name.upper()]
    kind, _, inner = head.rstrip(">").partition("<")
    return kind, flags, inner
