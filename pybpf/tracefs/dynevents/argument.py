"""``NAME=FETCH:TYPE`` as one argument of an event: its text in, how it is recorded out.

Source: traceprobe_parse_probe_arg() and what it calls in kernel/trace/trace_probe.c.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from pybpf.dataclass import dataclass, replace
from pybpf.tracefs.dynevents.btfpath import NO_FIELDS, bit_field, check_string, stored_type
from pybpf.tracefs.dynevents.context import UNKNOWN_TYPE, Context, Op, Where
from pybpf.tracefs.dynevents.ctext import (
    U64,
    NumberError,
    is_name,
    restore,
    simple_unsigned,
    unsigned,
    unsigned32,
)
from pybpf.tracefs.dynevents.expression import expression
from pybpf.tracefs.dynevents.log import Refused
from pybpf.tracefs.dynevents.messages import Message
from pybpf.tracefs.dynevents.rules import MAX_ARG_NAME, MAX_ARRAY, MAX_EVENT_SIZE, MAX_OPS
from pybpf.tracefs.fetch import Bits, Builtin, Deref, Fetch, FetchArg, FetchType, Field


@dataclass(frozen=True, slots=True)
class Storage:
    """How a fetch type is stored: the C type and size in bytes in the format file, how printed."""

    name: str
    ctype: str
    size: int
    signed: bool
    fmt: str
    string: bool = False


def _storages() -> dict[str, Storage]:
    found = {
        name: Storage(name, "__data_loc char[]", 4, signed=True, fmt='\\"%s\\"', string=True)
        for name in ("string", "ustring", "symstr")
    }
    for bits in (8, 16, 32, 64):
        long = "L" if bits == 64 else ""
        unsigned_c = f"u{bits}"
        found[f"u{bits}"] = Storage(
            f"u{bits}", unsigned_c, bits // 8, signed=False, fmt=f"%{long}u"
        )
        found[f"s{bits}"] = Storage(f"s{bits}", f"s{bits}", bits // 8, signed=True, fmt=f"%{long}d")
        found[f"x{bits}"] = Storage(
            f"x{bits}", unsigned_c, bits // 8, signed=False, fmt=f"0x%{long}x"
        )
    found["char"] = Storage("char", "u8", 1, signed=False, fmt="'%c'")
    found["symbol"] = Storage("symbol", "u64", 8, signed=False, fmt="%pS")
    return found


STORAGES: Mapping[str, Storage] = MappingProxyType(_storages())
"""The fetch types by name, on a 64-bit machine."""
_DEFAULT = "x64"


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument as the kernel keeps it.

    ``text`` is its expression as it was written, which is how it is listed. ``offset`` counts bytes
    from the end of what every record of the event begins with. ``count`` is 0 for no array.
    ``symbol`` is the ``SYM[+off]`` it reads, not looked up yet. ``known`` is False where the type
    depends on BTF that was not at hand.
    """

    name: str
    text: str
    value: FetchArg
    storage: Storage
    count: int
    offset: int
    ops: tuple[Op, ...]
    symbol: str | None
    known: bool = True

    @property
    def size(self) -> int:
        """How many bytes of the fixed part it takes."""
        return self.storage.size * (self.count or 1)

    @property
    def listed(self) -> str:
        """The argument as the kernel lists it."""
        return f"{self.name}={restore(self.text)}"


# What no argument may be called. See reserved_field_names of kernel/trace/trace_probe.c.
RESERVED = frozenset(
    {"common_type", "common_flags", "common_preempt_count", "common_pid", "common_tgid"}
    | {"__probe_ip", "__probe_ret_ip", "__probe_func"}
)

_STRING_OPS = frozenset({Op.DEREF, Op.UDEREF, Op.IMM, Op.COMM, Op.DATA, Op.FIELD})
_SYMSTR_OPS = frozenset({Op.REG, Op.STACK, Op.RETVAL, Op.ARG, Op.DEREF, Op.FIELD})
_POINTING = frozenset({Op.IMM, Op.COMM, Op.DATA, Op.FIELD})


def parse_arguments(
    argv: Sequence[str], context: Context, check: Callable[[Argument], None] | None = None
) -> tuple[Argument, ...]:
    """Return the arguments in the words ``argv``, which follow the first two of the command.

    ``check`` is called with each before the next is parsed. Raises Refused, with the reason logged.
    """
    found: list[Argument] = []
    for word in argv:
        context.log.index = 2 + len(found)
        argument = _argument(word, found, context)
        if check is not None:
            check(argument)
        found.append(argument)
    return tuple(found)


def _argument(word: str, before: Sequence[Argument], context: Context) -> Argument:
    context.begin(0)
    name, equals, body = word.partition("=")
    given: str | None = None
    if equals:
        if len(name) > MAX_ARG_NAME:
            raise context.refuse(Message.ARG_NAME_TOO_LONG)
        if not name:
            raise context.refuse(Message.NO_ARG_NAME)
        given = restore(name)
    else:
        body = word
        name = word.partition(":")[0]
        if not (context.rules.btf_args and is_name(name)):
            name = f"arg{len(before) + 1}"
    if not is_name(name):
        raise context.refuse(Message.BAD_ARG_NAME)
    if name in RESERVED or any(restore(name) == argument.name for argument in before):
        raise context.refuse(Message.USED_ARG_NAME)
    context.begin(len(word) - len(body))
    offset = before[-1].offset + before[-1].size if before else 0
    return _look_up(_Body(body, given, restore(name), context).parse(offset), context)


class _Body:
    """One argument without its name: ``text``, and where the carets of its parts point."""

    def __init__(self, text: str, given: str | None, name: str, context: Context) -> None:
        self.text, self.given, self.name, self.context = text, given, name, context
        self.start = context.offset
        self.type_text: str | None = None
        self.type_at = 0
        self.count = 0

    def parse(self, offset: int) -> Argument:
        context = self.context
        self._check_length()
        storage = self._type()
        if not context.rules.early_fields:
            self._check_size(offset, storage)
        value = expression(self.text.partition(":")[0], context)
        storage = self._with_btf(storage)
        if context.rules.early_fields:
            self._check_size(offset, storage)
        self._store(storage)
        known = not (context.type == UNKNOWN_TYPE and self.type_text is None)
        arg = FetchArg(value, self.given, self._value())
        ops, symbol = tuple(context.ops), context.symbol
        return Argument(self.name, self.text, arg, storage, self.count, offset, ops, symbol, known)

    def _refuse(self, message: Message, ahead: int = 0, errno_: int = errno.EINVAL) -> Refused:
        """Refuse the type; kernels that look fields up late count from where the argument begins.

        Newer ones count from where the parser came to, which for a dereference is within it.
        """
        if not self.context.rules.early_fields:
            self.context.offset = self.start
        return self.context.refuse(message, ahead, errno_=errno_)

    def _check_length(self) -> None:
        if len(self.text) > self.context.rules.expression:
            raise self._refuse(Message.ARG_TOO_LONG, errno_=self.context.rules.expression_errno)
        if not self.text:
            raise self._refuse(Message.NO_ARG_BODY)

    def _check_size(self, offset: int, storage: Storage) -> None:
        if offset + storage.size * (self.count or 1) > MAX_EVENT_SIZE:
            raise self._refuse(Message.EVENT_TOO_BIG, errno_=errno.E2BIG)

    def _type(self) -> Storage:
        """Split the type off, and return how its values are stored."""
        body, colon, type_text = self.text.partition(":")
        if colon:
            self.type_at = len(body) + 1
            self.type_text, bracket, count = type_text.partition("[")
            if bracket:
                self._read_count(count, self.type_at + len(self.type_text) + 1)
        event = Where.EVENT in self.context.where
        if not event and (body in {"$comm", "$COMM"} or body.startswith('\\"')):
            if self.count or self.type_text not in {None, "string"}:
                if self.context.rules.early_fields:
                    raise self._refuse(Message.NEED_STRING_TYPE, self.type_at)
                raise Refused(errno.EINVAL)
            return STORAGES["string"]
        storage = self._find_type(self.type_text)
        if storage is None:
            raise self._refuse(Message.BAD_TYPE, self.type_at)
        return storage

    def _read_count(self, text: str, place: int) -> None:
        number, bracket, rest = text.partition("]")
        if not bracket:
            raise self._refuse(Message.ARRAY_NO_CLOSE, place + len(text))
        if rest:
            raise self._refuse(Message.BAD_ARRAY_SUFFIX, place + len(number) + 1)
        try:
            self.count = unsigned32(number)
        except NumberError:
            self.count = 0
        if not self.count:
            raise self._refuse(Message.BAD_ARRAY_NUM, place)
        if self.count > MAX_ARRAY:
            raise self._refuse(Message.ARRAY_TOO_BIG, place)

    def _find_type(self, name: str | None) -> Storage | None:
        rules = self.context.rules
        user = Where.USER in self.context.where
        if name in {"symbol", "symstr"} and user and not rules.user_symbols:
            return None
        if name is None:
            return STORAGES[_DEFAULT]
        if name.startswith("b"):
            _, slash, container = name.partition("/")
            try:
                bits = unsigned(container) if slash else 0
            except NumberError:
                bits = 0
            return STORAGES[f"u{bits}"] if bits in {8, 16, 32, 64} else None
        if name == "char" and not rules.char:
            return None
        return STORAGES.get(name)

    def _with_btf(self, storage: Storage) -> Storage:
        """Return how a value whose type BTF tells is stored."""
        context = self.context
        if context.type is None:
            return storage
        if self.type_text is None:
            return STORAGES[stored_type(context) or _DEFAULT]
        if "string" in self.type_text:
            check_string(self.type_text, context)
        return storage

    def _store(self, storage: Storage) -> None:
        """Add the steps that store the value. Raises Refused where type and source do not fit."""
        context = self.context
        last = context.ops[-1]
        many = errno.E2BIG if context.rules.early_fields else errno.EINVAL
        if storage.string:
            self._check_text(storage, last)
            if storage.name == "symstr" or last in _POINTING or self.count:
                self._step(Op.STORE)
            array = storage.name != "symstr"
        elif last in {Op.DEREF, Op.UDEREF}:
            array = last is Op.DEREF
        else:
            self._step(Op.STORE, many)
            array = False
        if self.type_text is not None:
            self._check_bits(storage)
        else:
            bit_field(context)
        if self.count:
            if not array:
                raise self._refuse(Message.BAD_STRING, self.type_at)
            self._step(Op.ARRAY, many)

    def _step(self, op: Op, errno_: int = errno.EINVAL) -> None:
        if not self.context.rules.early_fields:
            self.context.offset = self.start
        self.context.step(op, too_many=errno_)

    def _check_text(self, storage: Storage, last: Op) -> None:
        if storage.name == "symstr":
            if last not in _SYMSTR_OPS:
                raise self._refuse(Message.BAD_SYMSTRING, self.type_at)
        elif last not in _STRING_OPS:
            raise self._refuse(Message.BAD_STRING, self.type_at)

    def _check_bits(self, storage: Storage) -> None:
        assert self.type_text is not None
        if not self.type_text.startswith("b"):
            return
        bits = _bits(self.type_text, storage.size * 8, wraps=self.context.rules.wraps)
        too_many = len(self.context.ops) == MAX_OPS if bits else True
        if bits is None or too_many or storage.size * 8 < (bits.width + bits.offset) % U64:
            raise self._refuse(Message.BAD_BITFIELD, self.type_at)
        self.context.step(Op.BITS)

    def _value(self) -> FetchType | None:
        if self.type_text is None:
            return None
        base: str | Bits = self.type_text
        if self.type_text.startswith("b"):
            container = STORAGES[_container(self.type_text)].size * 8
            bits = _bits(self.type_text, container, wraps=self.context.rules.wraps)
            assert bits is not None
            base = bits
        return FetchType(base, self.count or None)


def _container(text: str) -> str:
    return f"u{unsigned(text.partition('/')[2])}"


def _bits(text: str, container: int, *, wraps: bool) -> Bits | None:
    """Return the bit field ``bWIDTH@OFFSET/CONTAINER``, or None."""
    width, length = simple_unsigned(text[1:], wraps=wraps)
    rest = text[1 + length :]
    if not width or not rest.startswith("@"):
        return None
    offset, length = simple_unsigned(rest[1:], wraps=wraps)
    if not length or rest[1 + length : 2 + length] != "/":
        return None
    return Bits(width, offset, container)


def _look_up(argument: Argument, context: Context) -> Argument:
    """Look up, as old kernels do it after the argument was parsed, the field of an eprobe."""
    if context.rules.early_fields or argument.ops[0] is not Op.FIELD:
        return argument
    name = _innermost(argument.value.fetch)
    if context.fields is not None and name in context.fields:
        return argument
    if name in {"comm", "COMM"}:
        fetch = _with_comm(argument.value.fetch)
        value = FetchArg(fetch, argument.value.name, argument.value.type)
        return replace(argument, value=value)
    if context.fields is None and re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        context.assume(NO_FIELDS)
        return argument
    context.offset = 0
    raise context.refuse(Message.BAD_ATTACH_ARG, errno_=errno.ENOENT)


def _innermost(fetch: Fetch) -> str:
    while isinstance(fetch, Deref):
        fetch = fetch.base
    return fetch.name if isinstance(fetch, Field) else ""


def _with_comm(fetch: Fetch) -> Fetch:
    if isinstance(fetch, Deref):
        return replace(fetch, base=_with_comm(fetch.base))
    return Builtin("comm")
