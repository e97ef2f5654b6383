r"""Fetch arguments without name and type: the text of one in, its value and its steps out.

fetch: '$' NAME | NAME | '%' REGISTER | '@' ADDRESS | '@' SYMBOL [('+' | '-') OFFSET]
     | '@+' OFFSET | ('+' | '-') ['u'] OFFSET '(' fetch ')' | '\' NUMBER | '\"' TEXT '"'
     | 'this_cpu_read(' fetch ')' | 'this_cpu_ptr(' fetch ')'
     | '(' STRUCT [',' MEMBERS] ')' (fetch | '(' fetch ')') '->' MEMBERS

The order of the checks and the places they complain about are the kernel's, see parse_probe_arg()
of kernel/trace/trace_probe.c; what is odd about them is odd there.
"""

from __future__ import annotations

import errno
import re
from typing import Literal

from pybpf.tracefs.dynevents.btfpath import event_field, function_variable, members, typecast
from pybpf.tracefs.dynevents.context import Context, Op, Where
from pybpf.tracefs.dynevents.ctext import (
    NumberError,
    is_digit,
    is_letter,
    restore,
    signed,
    unsigned,
)
from pybpf.tracefs.dynevents.messages import Message
from pybpf.tracefs.dynevents.rules import MAX_STACK
from pybpf.tracefs.fetch import (
    Builtin,
    Cast,
    Deref,
    Fetch,
    Field,
    FileMemory,
    FunctionArg,
    Immediate,
    Memory,
    Path,
    PerCpu,
    Register,
    StackWord,
    SymbolMemory,
    Text,
)

_READ: Literal["this_cpu_read"] = "this_cpu_read"
_POINT: Literal["this_cpu_ptr"] = "this_cpu_ptr"
_PER_CPU = (_READ, _POINT)

# x86-64; see regs_query_register_offset() of arch/x86/kernel/ptrace.c.
REGISTERS = frozenset(
    {"r15", "r14", "r13", "r12", "r11", "r10", "r9", "r8", "bx", "cx", "dx", "si", "di", "bp"}
    | {"ax", "orig_ax", "ip", "cs", "flags", "sp", "ss"}
)


def expression(text: str, context: Context) -> Fetch:
    """Return the value of a fetch argument, and leave its steps in the context.

    Raises Refused, with the reason logged, for what the kernel refuses.
    """
    first = text[:1]
    match first:
        case "$":
            return _dollar(text, context)
        case "%":
            return _register(text, context)
        case "@":
            return _memory(text, context)
        case "+" | "-":
            return _dereference(text, context)
        case "\\":
            return _immediate(text, context)
        case "(" if context.rules.casts:
            return _cast(text, context)
    if context.rules.casts and text.startswith(tuple(f"{name}(" for name in _PER_CPU)):
        return _per_cpu(text, context)
    if context.rules.btf_args and (is_letter(first) or first == "_"):
        return _bare(text, context)
    raise context.refuse(Message.BAD_FETCH_ARG)


def _bare(text: str, context: Context) -> Fetch:
    if context.rules.casts and Where.EVENT in context.where:
        return event_field(text, context, bare=True, missing=Message.NO_EVENT_FIELD)
    if not context.at_entry and not context.at_return:
        raise context.refuse(Message.NOSUP_BTFARG)
    return function_variable(text, context)


def _dollar(text: str, context: Context) -> Fetch:
    name = text[1:]
    if Where.EVENT in context.where:
        if not context.rules.early_fields:
            context.step(Op.FIELD)
            return Field(restore(name))
        return event_field(name, context, bare=False, missing=Message.BAD_VAR)
    if name.startswith("retval") if context.rules.btf_args else name == "retval":
        return _retval(text, context)
    if name.startswith("stack"):
        return _stack(name.removeprefix("stack"), context)
    if name in {"comm", "COMM"}:
        context.step(Op.COMM)
        return Builtin("comm")
    if context.rules.casts and name.startswith("current"):
        return _current(name.removeprefix("current"), context)
    if name.startswith("arg"):
        return _function_arg(name.removeprefix("arg"), context)
    raise context.refuse(Message.BAD_VAR)


def _retval(text: str, context: Context) -> Fetch:
    if Where.RETURN not in context.where:
        raise context.refuse(Message.RETVAL_ON_PROBE)
    if Where.KERNEL in context.where and context.rules.btf_args:
        return function_variable(text, context)
    context.step(Op.RETVAL)
    return Builtin("retval")


def _stack(rest: str, context: Context) -> Fetch:
    if not rest:
        context.step(Op.STACKP)
        return Builtin("stack")
    index = _decimal(rest) if is_digit(rest[0]) else None
    if index is None:
        raise context.refuse(Message.BAD_VAR)
    if Where.KERNEL in context.where and index > MAX_STACK:
        raise context.refuse(Message.BAD_STACK_NUM)
    context.step(Op.STACK)
    return StackWord(index % (1 << 32))


def _current(rest: str, context: Context) -> Fetch:
    if Where.KERNEL not in context.where or (rest and not rest.startswith("->")):
        raise context.refuse(Message.BAD_VAR)
    context.step(Op.CURRENT)
    if not rest:
        return Builtin("current")
    context.offset += len("$current->")
    types = context.types
    task = None if types is None else types.struct("task_struct")
    return Path(Builtin("current"), members(rest[2:], task, context, is_struct=True))


def _function_arg(rest: str, context: Context) -> Fetch:
    if not context.rules.btf_args and not context.at_entry:
        raise context.refuse(Message.BAD_VAR)
    number = _decimal(rest.removeprefix("+"))
    if number is None:
        raise context.refuse(Message.BAD_VAR)
    if not 0 < number <= MAX_STACK:
        raise context.refuse(Message.BAD_ARG_NUM)
    if not context.at_entry and not context.at_return:
        raise context.refuse(Message.NOFENTRY_ARGS)
    context.step(Op.ARG if context.at_entry else Op.EDATA)
    return FunctionArg(number)


def _decimal(text: str) -> int | None:
    """Return a decimal number of 64 bits, None for another text; leading zeros mean nothing."""
    if not re.fullmatch("[0-9]+", text):
        return None
    value = int(text)
    return value if value < 1 << 64 else None


def _register(text: str, context: Context) -> Fetch:
    if context.where & (Where.EVENT | Where.FPROBE):
        refusal = context.refuse(Message.BAD_VAR)
        if context.rules.register_logged_twice:
            refusal = context.refuse(Message.BAD_FETCH_ARG)
        raise refusal
    if text[1:] not in REGISTERS:
        raise context.refuse(Message.BAD_REG_NAME)
    context.step(Op.REG)
    return Register(text[1:])


def _memory(text: str, context: Context) -> Fetch:
    rest = text[1:]
    value: Fetch
    if is_digit(rest[:1]):
        value = Memory(_number(rest, context, Message.BAD_MEM_ADDR))
        context.step(Op.IMM)
    elif rest.startswith("+"):
        if Where.KERNEL in context.where:
            raise context.refuse(Message.FILE_ON_KPROBE)
        try:
            value = FileMemory(signed(rest[1:]))
        except NumberError as error:
            raise context.refuse(Message.BAD_FILE_OFFS, errno_=error.errno) from None
        context.step(Op.FOFFS)
    else:
        if Where.KERNEL not in context.where:
            raise context.refuse(Message.SYM_ON_UPROBE)
        context.step(Op.SYMBOL)
        context.step(Op.IMM)
        # Whether they are a symbol and a number is judged later.
        context.symbol = rest
        symbol, offset = split_symbol(rest)
        value = SymbolMemory(restore(symbol), _lenient(offset))
    context.step(Op.DEREF)
    return value


def split_symbol(text: str) -> tuple[str, str]:
    """Split ``SYM[+off]`` at the first sign."""
    match = re.search("[+-]", text)
    return (text, "") if match is None else (text[: match.start()], text[match.start() :])


def _lenient(text: str) -> int:
    try:
        return signed(text) if text else 0
    except NumberError:
        return 0


def _number(text: str, context: Context, message: Message) -> int:
    try:
        return unsigned(text)
    except NumberError as error:
        raise context.refuse(message, errno_=error.errno) from None


def _dereference(text: str, context: Context) -> Fetch:
    if context.rules.nesting is not None:
        context.nest()
    user = text[1:2] == "u"
    # Where 'u' is, the kernel forgets to count it: carets within are one byte early.
    digits = text[0] + text[2:] if user else text
    digits = digits.removeprefix("+")
    number, brace, inner = digits.partition("(")
    if not brace:
        raise context.refuse(Message.DEREF_NEED_BRACE)
    try:
        offset = signed(number)
    except NumberError as error:
        raise context.refuse(Message.BAD_DEREF_OFFS, errno_=error.errno) from None
    context.offset += len(number) + 1 + (not digits.startswith("-"))
    base = _within(inner, Op.UDEREF if user else Op.DEREF, context)
    if context.rules.nesting is not None:
        context.nesting -= 1
    return Deref(offset, base, user)


def _within(inner: str, op: Op, context: Context) -> Fetch:
    """Return what stands before the last ``)``, and add the step that uses it."""
    start = context.offset
    body, brace, _ = inner.rpartition(")")
    if not brace:
        raise context.refuse(Message.DEREF_OPEN_BRACE, len(inner))
    base = expression(body, context)
    context.offset = start
    if context.ops[-1] in {Op.COMM, Op.DATA}:
        raise context.refuse(Message.COMM_CANT_DEREF)
    if op is Op.CPU_PTR and body.startswith("@"):
        context.ops[-1] = op
    else:
        context.step(op)
    context.type = None
    return base


def _per_cpu(text: str, context: Context) -> Fetch:
    if Where.KERNEL not in context.where or Where.EVENT in context.where:
        raise context.refuse(Message.NOSUP_PERCPU)
    operation, _, inner = text.partition("(")
    context.offset += len(operation) + 1
    base = _within(inner, Op.CPU_PTR, context)
    if operation == _POINT:
        return PerCpu(_POINT, base)
    context.step(Op.DEREF)
    return PerCpu(_READ, base)


def _immediate(text: str, context: Context) -> Fetch:
    rest = text[1:]
    if rest.startswith('"'):
        body = rest[1:]
        if not body.endswith('"'):
            raise context.refuse(Message.IMMSTR_NO_CLOSE, 2 + len(body))
        context.step(Op.DATA)
        return Text(restore(body[:-1]))
    try:
        value = _literal(rest)
    except NumberError as error:
        raise context.refuse(Message.BAD_IMM, 1, errno_=error.errno) from None
    context.step(Op.IMM)
    return Immediate(value)


def _literal(text: str) -> int:
    if text[:1] == "-":
        return signed(text)
    if text[:1] == "+":
        return signed(text[1:])
    if is_digit(text[:1]):
        return unsigned(text)
    raise NumberError(errno.EINVAL)


def _cast(text: str, context: Context) -> Fetch:
    start = context.offset
    if Where.USER in context.where:
        raise context.refuse(Message.NOSUP_BTFARG, errno_=errno.EOPNOTSUPP)
    context.nest()
    struct, brace, rest = text[1:].partition(")")
    if not brace:
        raise context.refuse(Message.DEREF_OPEN_BRACE, len(text))
    context.offset += len(struct) + 2
    inner, path = _operand(rest, context)
    base = expression(inner, context)
    context.nesting -= 1
    context.offset = start + 1
    number, place, member = typecast(struct, context)
    context.offset = start + len(text) - len(path)
    steps = members(path, number, context, is_struct=True, back=place)
    return Path(Cast(restore(struct.partition(",")[0]), base, member), steps)


def _operand(rest: str, context: Context) -> tuple[str, str]:
    """Split what follows ``(STRUCT)`` at the ``->`` of the cast's own path."""
    if rest.startswith("("):
        close = _closing(rest)
        if close is None:
            raise context.refuse(Message.DEREF_OPEN_BRACE)
        if not rest.startswith("->", close + 1):
            raise context.refuse(Message.TYPECAST_REQ_FIELD, close + 1)
        context.offset += 1
        return rest[1:close], rest[close + 3 :]
    if rest.startswith(("+", "-", *(f"{name}(" for name in _PER_CPU))):
        opened = rest.find("(", 1)
        if opened < 0:
            raise context.refuse(Message.DEREF_NEED_BRACE)
        close = _closing(rest[opened:])
        if close is None:
            raise context.refuse(Message.DEREF_OPEN_BRACE, len(rest))
        close += opened + 1
        if not rest.startswith("->", close):
            raise context.refuse(Message.TYPECAST_REQ_FIELD, close)
        return rest[:close], rest[close + 2 :]
    if rest.startswith("@") and re.match(r"[^+-]*[+-][0-9]", rest):
        raise context.refuse(Message.TYPECAST_SYM_OFFSET)
    close = rest.find("-")
    if close < 0 or not rest.startswith("->", close):
        raise context.refuse(Message.TYPECAST_REQ_FIELD, len(rest))
    return rest[:close], rest[close + 2 :]


def _closing(text: str) -> int | None:
    """Return where the parenthesis that ``text`` starts with is closed, or None."""
    depth = 0
    for place, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0 and char == ")":
            return place
    return None
