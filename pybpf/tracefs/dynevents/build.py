"""Dynamic events made in Python: names and expressions in, checked values out.

    eprobe("sched.sched_switch", args={"prev": field("prev_pid").as_("u32")})

Every maker of an event writes its value as text and parses it by the rules of a kernel, so that
what it returns is what that kernel takes. All of them raise DynEventError where it would not, and
where a part (a name with a space in it, say) would be read back as something else.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from typing import TypeVar

from pybpf.dataclass import dataclass, replace
from pybpf.errors import Diagnostic, DynEventError
from pybpf.source import Source, Span
from pybpf.tracefs.dynevent import (
    DynEvent,
    Eprobe,
    Fprobe,
    Kprobe,
    Removal,
    Synthetic,
    SyntheticField,
    Tprobe,
    Uprobe,
)
from pybpf.tracefs.dynevents.parse import parse
from pybpf.tracefs.dynevents.rules import NEWEST, Rules
from pybpf.tracefs.fetch import (
    Access,
    Bits,
    Builtin,
    Cast,
    Deref,
    Fetch,
    FetchArg,
    FetchType,
    Field,
    FileMemory,
    FunctionArg,
    Immediate,
    Memory,
    Path,
    Register,
    StackWord,
    SymbolMemory,
    Text,
    Variable,
)
from pybpf.tracefs.filters.value import Filter


@dataclass(frozen=True, slots=True)
class Expression:
    """What an argument fetches, and the type it is recorded as."""

    fetch: Fetch
    type: FetchType | None = None

    def as_(self, base: str | Bits, count: int | None = None) -> Expression:
        """Return the expression recorded as a type, or as an array of ``count`` of it."""
        return replace(self, type=FetchType(base, count))

    def at(self, offset: int = 0, *, user: bool = False) -> Expression:
        """Return the memory ``offset`` bytes from the address that the expression is."""
        return Expression(Deref(offset, self.fetch, user))

    def cast(self, struct: str, path: str, member: str | None = None) -> Expression:
        """Return a member of the structure that the expression points to: ``dev->ifindex``.

        With ``member``, the expression points to that member of the structure.
        """
        return Expression(Path(Cast(struct, self.fetch, member), _steps(path)))

    def to(self, path: str) -> Expression:
        """Return a member of what a variable, ``$retval`` or ``$current`` points to."""
        return Expression(Path(self.fetch, _steps(path)))


def _steps(path: str) -> tuple[Access, ...]:
    found: list[Access] = []
    for part in path.split("->"):
        first, *others = part.split(".")
        found += [Access("->", first), *(Access(".", name) for name in others)]
    return tuple(found)


def field(name: str, *, bare: bool = False) -> Expression:
    """Return a field of the event that an eprobe is attached to: ``$name``, bare ``name``."""
    return Expression(Field(name, bare))


def variable(name: str) -> Expression:
    """Return a parameter of the probed function or tracepoint."""
    return Expression(Variable(name))


def comm() -> Expression:
    """Return the name of the current process; in eprobes ``as_("string")`` is to be given."""
    return Expression(Builtin("comm"))


def retval() -> Expression:
    """Return what the probed function returns."""
    return Expression(Builtin("retval"))


def current() -> Expression:
    """Return the address of the current task."""
    return Expression(Builtin("current"))


def all_args() -> Expression:
    """Return all parameters of the probed function, each under its name."""
    return Expression(Builtin("arg*"))


def arg(number: int) -> Expression:
    """Return the argument ``number``, from 1, of the probed function."""
    return Expression(FunctionArg(number))


def stack(index: int | None = None) -> Expression:
    """Return a word of the stack, or its address."""
    return Expression(Builtin("stack") if index is None else StackWord(index))


def register(name: str) -> Expression:
    """Return a register."""
    return Expression(Register(name))


def memory(address: int) -> Expression:
    """Return the memory at an address of the kernel."""
    return Expression(Memory(address))


def symbol(name: str, offset: int = 0) -> Expression:
    """Return the memory ``offset`` bytes from a symbol of the kernel."""
    return Expression(SymbolMemory(name, offset))


def file_memory(offset: int) -> Expression:
    """Return the memory that an offset of the probed file is mapped to."""
    return Expression(FileMemory(offset))


def immediate(value: int | str) -> Expression:
    """Return a number or a text; in eprobes a text is to be given ``as_("string")``."""
    return Expression(Text(value) if isinstance(value, str) else Immediate(value))


Args = Mapping[str, Expression] | Iterable[Expression]
"""Arguments by name, or without names."""
Kernel = str | Rules

_Event = TypeVar("_Event", bound=DynEvent)


def eprobe(
    target: str,
    *,
    group: str | None = None,
    event: str | None = None,
    args: Args = (),
    filter_: str | Filter | None = None,
    kernel: Kernel = NEWEST,
) -> Eprobe:
    """Return an event on the event ``target``, ``group.event``."""
    condition = None if filter_ is None else str(filter_)
    value = Eprobe(target.replace("/", ".", 1), _args(args), group, event, condition)
    return _checked(value, kernel)


def kprobe(
    place: str,
    *,
    group: str | None = None,
    event: str | None = None,
    args: Args = (),
    kernel: Kernel = NEWEST,
) -> Kprobe:
    """Return an event at an instruction of the kernel: ``[MODULE:]SYMBOL[+OFFSET]``, an address."""
    return _checked(Kprobe(place, _args(args), group, event), kernel)


def kretprobe(
    symbol: str,
    *,
    group: str | None = None,
    event: str | None = None,
    args: Args = (),
    maxactive: int | None = None,
    kernel: Kernel = NEWEST,
) -> Kprobe:
    """Return an event at the return of a kernel function."""
    value = Kprobe(symbol, _args(args), group, event, returns=True, maxactive=maxactive)
    return _checked(value, kernel)


def uprobe(
    path: str,
    offset: int,
    *,
    group: str | None = None,
    event: str | None = None,
    args: Args = (),
    returns: bool = False,
    ref_ctr_offset: int | None = None,
    kernel: Kernel = NEWEST,
) -> Uprobe:
    """Return an event at an offset of a file, or at the return of what is there."""
    value = Uprobe(path, offset, _args(args), group, event, returns, ref_ctr_offset)
    return _checked(value, kernel)


def fprobe(
    symbol: str,
    *,
    group: str | None = None,
    event: str | None = None,
    args: Args = (),
    returns: bool = False,
    kernel: Kernel = NEWEST,
) -> Fprobe:
    """Return an event at the entry or the return of a kernel function, made with ftrace."""
    return _checked(Fprobe(symbol, _args(args), group, event, returns), kernel)


def tprobe(
    tracepoint: str,
    *,
    group: str | None = None,
    event: str | None = None,
    args: Args = (),
    kernel: Kernel = NEWEST,
) -> Tprobe:
    """Return an event on a tracepoint as the kernel calls it."""
    return _checked(Tprobe(tracepoint, _args(args), group, event), kernel)


def synthetic(name: str, fields: Mapping[str, str], *, kernel: Kernel = NEWEST) -> Synthetic:
    """Return an event for hist triggers to make; ``fields`` are C types by name."""
    made = tuple(SyntheticField(ctype, field_name) for field_name, ctype in fields.items())
    return _checked(Synthetic(name, made), kernel)


def removal(group: str, event: str | None = None, *, kernel: Kernel = NEWEST) -> Removal:
    """Return the removal of an event, or of all in a group."""
    return _checked(Removal(group, event), kernel)


def _args(args: Args) -> tuple[FetchArg, ...]:
    if isinstance(args, Mapping):
        return tuple(FetchArg(one.fetch, name, one.type) for name, one in args.items())
    return tuple(FetchArg(one.fetch, None, one.type) for one in args)


def _checked(value: _Event, kernel: Kernel) -> _Event:
    text = str(value)
    parsed = parse(text, kernel)
    if type(parsed) is type(value) and parsed == value:
        return value
    source = Source("<definition>", text)
    reason = Diagnostic("a kernel reads this as something else", Span(source, 0, 0))
    raise DynEventError(reason, errno.EINVAL)
