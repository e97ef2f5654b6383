"""The parts of a fetch argument that need types: fields, variables, paths through structures.

Where the kernel's types are not at hand, every name is taken for one that exists, and the context
notes the assumption. Source: the BTF parts of kernel/trace/trace_probe.c.
"""

from __future__ import annotations

import errno
import re

from pybpf.btf.reader import Btf, Kind
from pybpf.tracefs.dynevents.context import UNKNOWN_TYPE, Context, Op, Where
from pybpf.tracefs.dynevents.ctext import restore
from pybpf.tracefs.dynevents.log import Refused
from pybpf.tracefs.dynevents.messages import Message
from pybpf.tracefs.fetch import Access, Builtin, Fetch, Field, Path, Variable

_NO_TYPES = "the types of the kernel (BTF) are not known: every member is taken to exist"
_NO_PROTO = "the types of the kernel (BTF) are not known: every parameter is taken to exist"
NO_FIELDS = "the fields of the event are not known: every field is taken to exist"


def event_field(name: str, context: Context, *, bare: bool, missing: Message) -> Fetch:
    """Return a field of the event; ``$comm`` also where it has none of that name."""
    fields = context.fields
    comm = name in {"comm", "COMM"}
    if fields is None:
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise context.refuse(missing)
        context.assume(NO_FIELDS)
        # Where it may be a field or not, more can be done with a field.
        known = True
        if comm and not bare:
            context.step(Op.FIELD)
            return Builtin("comm")
    else:
        known = restore(name) in fields
    if known:
        context.step(Op.FIELD)
        return Field(restore(name), bare)
    if comm and not bare:
        context.step(Op.COMM)
        return Builtin("comm")
    raise context.refuse(missing)


def split_member(text: str, context: Context) -> tuple[str, str, str | None]:
    """Split a path at its first ``->`` or ``.``: name, separator ("" at the end), rest or None."""
    match = re.search(r"[.-]", text)
    if match is None:
        return text, "", None
    place = match.start()
    if text.startswith("->", place):
        return text[:place], "->", text[place + 2 :]
    if text[place] == ".":
        return text[:place], ".", text[place + 1 :]
    raise context.refuse(Message.BAD_HYPHEN, place)


def function_variable(text: str, context: Context) -> Fetch:
    """Return a parameter of the probed function, or ``$retval``, with the path that follows it."""
    name, separator, rest = split_member(text, context)
    if separator == ".":
        ahead = len(name) + 1
        raise context.refuse(Message.NOSUP_DAT_ARG, ahead, errno_=errno.EOPNOTSUPP)
    found = _retval if Where.RETURN in context.where and name == "$retval" else _parameter
    base, number = found(name, rest, context)
    context.type = number
    context.bit_size = context.bit_offset = 0
    if rest is None:
        return base
    context.offset += len(name) + 2
    return Path(base, members(rest, number, context, is_struct=False))


def _retval(name: str, rest: str | None, context: Context) -> tuple[Fetch, int | None]:
    context.step(Op.RETVAL)
    types = types_of_function(context)
    if types is None:
        context.assume(_NO_PROTO)
        return Builtin("retval"), UNKNOWN_TYPE
    _find_proto(context)
    if context.proto is None:
        if rest is not None:
            ahead = len(name) + 2
            raise context.refuse(Message.NO_BTF_ENTRY, ahead, errno_=errno.ENOENT)
        return Builtin("retval"), None
    if context.proto.returns == 0:
        raise context.refuse(Message.NO_RETVAL, errno_=errno.ENOENT)
    return Builtin("retval"), types.skip(context.proto.returns)


def _parameter(name: str, rest: str | None, context: Context) -> tuple[Fetch, int | None]:
    del rest
    types = types_of_function(context)
    if types is None:
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise context.refuse(Message.NO_BTFARG, errno_=errno.ENOENT)
        context.assume(_NO_PROTO)
        number: int | None = UNKNOWN_TYPE
    else:
        # Once the function was found, that it has no parameters is no longer told.
        found = context.proto is not None
        params = dict(reversed(parameters(context)))
        if not params and not found:
            raise context.refuse(Message.NO_BTF_ENTRY, errno_=errno.ENOENT)
        if restore(name) not in params:
            raise context.refuse(Message.NO_BTFARG, errno_=errno.ENOENT)
        number = types.skip(params[restore(name)])
    context.step(Op.ARG if context.at_entry else Op.EDATA)
    return Variable(restore(name)), number


def parameters(context: Context) -> tuple[tuple[str, int], ...]:
    """Return the parameters of the probed function that BTF tells, none where it does not."""
    _find_proto(context)
    if context.proto is None:
        return ()
    # The first one of a tracepoint's stub is the data of whoever registered it.
    return context.proto.params[1 if Where.TRACEPOINT in context.where else 0 :]


def _find_proto(context: Context) -> None:
    if context.proto is None and context.types is not None and context.function:
        context.proto = context.types.function(context.function)


def types_of_function(context: Context) -> Btf | None:
    """Return the types if they may tell of the probed function, None where they cannot."""
    types = context.types
    if types is None or types.complete or context.function is None:
        return types
    return types if types.function(context.function) is not None else None


def typecast(text: str, context: Context) -> tuple[int | None, int, str | None]:
    """Return the structure of ``STRUCT[,MEMBERS]``, how many bytes to go back, and the members."""
    name, comma, path = text.partition(",")
    types = context.types
    if types is None:
        context.assume(_NO_TYPES)
        return UNKNOWN_TYPE, 0, restore(path) if comma else None
    number = types.struct(restore(name))
    if number is None:
        if types.complete or not types.declares(restore(name)):
            raise context.refuse(Message.NO_PTR_STRCT)
        context.assume(
            f"the members of struct {restore(name)} are not known: all are taken to exist"
        )
        return UNKNOWN_TYPE, 0, restore(path) if comma else None
    if not comma:
        return number, 0, None
    context.offset += len(name) + 1
    bits, _, _, rest = _dotted(path, number, context, types)
    if bits % 8:
        raise context.refuse(Message.TYPECAST_NOT_ALIGNED)
    if rest is not None:
        raise context.refuse(Message.TYPECAST_BAD_ARROW, -2)
    return number, bits // 8, restore(path)


def members(
    path: str, number: int | None, context: Context, *, is_struct: bool, back: int = 0
) -> tuple[Access, ...]:
    """Return the steps of a path whose first ``->`` was taken, and leave its type in the context.

    ``number`` is the type that the path starts at: a structure, or else a pointer to one.
    """
    del back  # Only the address depends on it.
    if context.types is None or number == UNKNOWN_TYPE:
        return _untyped(path, context)
    types, rest, current = context.types, path, number or 0
    steps: list[Access] = []
    first = is_struct
    while True:
        if not first:
            if types.kind(current) is not Kind.PTR:
                raise context.refuse(Message.NO_PTR_STRCT)
            current = types.pointed(current)
        if not types.complete and types.kind(current) is Kind.FWD:
            return (*steps, *_untyped(rest, context))
        first = False
        bits, names, current, after = _dotted(rest, current, context, types)
        steps += [Access("." if at else "->", name) for at, name in enumerate(names)]
        context.step(Op.DEREF)
        context.bit_offset = bits % 8
        context.type = current
        if after is None:
            return tuple(steps)
        rest = after


def _dotted(
    path: str, number: int, context: Context, types: Btf
) -> tuple[int, list[str], int, str | None]:
    """Follow ``a.b.c`` up to a ``->`` or the end.

    Returns the bits from the start, the names, the type of the last and what follows the ``->``.
    """
    bits, names, rest = 0, [], path
    while True:
        name, separator, after = split_member(rest, context)
        if not types.is_aggregate(number):
            raise context.refuse(Message.BAD_BTF_TID)
        member = types.member(number, restore(name))
        if member is None:
            raise context.refuse(Message.NO_BTF_FIELD, errno_=errno.ENOENT)
        names.append(restore(name))
        bits += member.bit_offset
        context.bit_size = member.bit_size
        number = types.skip(member.type)
        if after is None:
            return bits, names, number, None
        context.offset += len(name) + len(separator)
        rest = after
        if separator == "->":
            return bits, names, number, rest


def _untyped(path: str, context: Context) -> tuple[Access, ...]:
    context.assume(_NO_TYPES)
    steps, rest, operator = [], path, "->"
    while True:
        name, separator, after = split_member(rest, context)
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise context.refuse(Message.NO_BTF_FIELD, errno_=errno.ENOENT)
        steps.append(Access("->" if operator == "->" else ".", restore(name)))
        if separator != ".":
            context.step(Op.DEREF)
        context.offset += len(name) + len(separator)
        if after is None:
            context.type = UNKNOWN_TYPE
            return tuple(steps)
        rest, operator = after, separator


def bit_field(context: Context) -> None:
    """Add the step that a bit field found by its type needs."""
    if context.type not in {None, UNKNOWN_TYPE} and (context.bit_size % 8 or context.bit_offset):
        context.step(Op.BITS)


def stored_type(context: Context) -> str | None:
    """Return the name of the fetch type that a BTF type is stored as, None for the default."""
    types, number = context.types, context.type
    if types is None or number is None or number == UNKNOWN_TYPE:
        return None
    match types.kind(number):
        case Kind.ENUM:
            return "s32"
        case Kind.ENUM64:
            return "s64"
        case Kind.PTR:
            return "x64"
        case Kind.INT:
            integer = types.integer(number)
            assert integer is not None
            if integer.bits in {8, 16, 32, 64}:
                return f"{'s' if integer.signed else 'u'}{integer.bits}"
            if not integer.signed:
                context.bit_size = integer.bits
                context.bit_offset += integer.offset
                return "u64"
        case _:
            pass
    return None


def check_string(type_name: str, context: Context) -> None:
    """Follow a ``char *`` where its text is wanted. Raises Refused for what is no text."""
    types, number = context.types, context.type
    if types is None or number is None or number == UNKNOWN_TYPE:
        if context.ops[-1] is not Op.DEREF:
            context.step(Op.DEREF)
        return
    if types.kind(number) is Kind.ARRAY and _is_char(types, types.element(number)):
        return
    # The kernel does not ask whether it is a pointer: the size of another type, taken for the
    # number of a type, may be that of a char.
    if _is_char(types, types.pointed(number)):
        context.step(Op.UDEREF if type_name.startswith("u") else Op.DEREF, too_many=errno.E2BIG)
        return
    raise _no_text(context)


def _no_text(context: Context) -> Refused:
    return context.refuse(Message.BAD_TYPE4STR)


def _is_char(types: Btf, number: int) -> bool:
    integer = types.integer(number)
    return integer is not None and not integer.signed and integer.bits == 8
