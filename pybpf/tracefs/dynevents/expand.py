"""``$arg*``, ``$argN`` and ``:%pd`` of function probes: the words as written in, as judged out.

Source: traceprobe_expand_meta_args() and traceprobe_expand_dentry_args() of
kernel/trace/trace_probe.c.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence

from pybpf.btf.reader import Btf
from pybpf.dataclass import dataclass, replace
from pybpf.tracefs.dynevents.argument import Argument
from pybpf.tracefs.dynevents.btfpath import parameters, types_of_function
from pybpf.tracefs.dynevents.context import Context
from pybpf.tracefs.dynevents.ctext import is_digit
from pybpf.tracefs.dynevents.messages import Message
from pybpf.tracefs.fetch import Builtin, Deref, FetchArg, FetchType, FunctionArg

# Where the name lies in a struct dentry, and the dentry in a struct file, if BTF does not tell;
# so it is in Debian's kernels 6.12 and 7.3 for x86-64.
_NAME_AT = 0x28
_DENTRY_AT = 0x48


@dataclass(frozen=True, slots=True)
class Word:
    """An argument as it is judged, and what it was written as.

    ``number`` is the N of a bare ``$argN``, 0 for one of the words that ``$arg*`` stands for, and
    ``dentry`` the letter of ``%pd`` or ``%pD``; None for what was written as it is.
    """

    text: str
    number: int | None = None
    dentry: str | None = None


def expand(words: Sequence[str], context: Context) -> tuple[list[Word], bool]:
    """Return the arguments with the names of parameters for ``$arg*`` and ``$argN``.

    The flag says that there is an ``$arg*`` whose meaning is not known: no word stands for it.
    Raises Refused.
    """
    expanded, unknown = _parameters(words, context)
    if context.rules.dentry:
        expanded = [_dentry(word, context.types) for word in expanded]
    return expanded, unknown


def written(words: Sequence[Word], args: Sequence[Argument]) -> tuple[FetchArg, ...]:
    """Return the values of arguments as they were written, before they were expanded."""
    found: list[FetchArg] = []
    everything = FetchArg(Builtin("arg*"))
    for word, arg in zip(words, args, strict=True):
        if word.number == 0:
            if everything not in found:
                found.append(everything)
            continue
        fetch, kind, name = arg.value.fetch, arg.value.type, arg.value.name
        if word.dentry is not None:
            kind = FetchType(f"%p{word.dentry}")
            for _ in range(2 if word.dentry == "d" else 3):
                assert isinstance(fetch, Deref)
                fetch = fetch.base
        if word.number is not None:
            fetch = FunctionArg(word.number)
        found.append(FetchArg(fetch, name, kind))
    return tuple(found)


def _parameters(words: Sequence[str], context: Context) -> tuple[list[Word], bool]:
    if not context.rules.btf_args:
        return [Word(word) for word in words], False
    found, all_at = _find(words, context)
    if not found:
        return [Word(word) for word in words], False
    names = [name for name, _ in parameters(context)]
    if names:
        return _named(words, all_at, names, context), False
    if all_at is None:
        return [Word(word) for word in words], False
    if types_of_function(context) is not None:
        raise context.refuse(Message.NOSUP_BTFARG, errno_=errno.EOPNOTSUPP)
    context.assume("the types of the kernel (BTF) are not known: $arg* is taken to stand for some")
    return [Word(word) for place, word in enumerate(words) if place != all_at], True


def _find(words: Sequence[str], context: Context) -> tuple[bool, int | None]:
    """Say whether there is a bare ``$argN`` or ``$arg*``, and where the latter is."""
    found, all_at = False, None
    for place, word in enumerate(words):
        if not word.startswith("$arg"):
            continue
        context.log.index = place + 2
        context.offset = 0
        if not context.at_entry and not context.at_return:
            raise context.refuse(Message.NOFENTRY_ARGS)
        if not is_digit(word[4:5]) and word[4:5] != "*":
            raise context.refuse(Message.BAD_VAR)
        if word[4:5] == "*":
            if all_at is not None:
                raise context.refuse(Message.DOUBLE_ARGS)
            all_at = place
        found = True
    return found, all_at


def _named(
    words: Sequence[str], all_at: int | None, names: Sequence[str], context: Context
) -> list[Word]:
    result: list[Word] = []
    for place, word in enumerate(words):
        context.log.index = place + 2
        if place == all_at:
            result += [Word(name, number=0) for name in names]
        elif word.startswith("$arg"):
            match = re.fullmatch(r"\$arg([0-9]+)(:.*)?", word, re.DOTALL)
            if match is None:
                raise context.refuse(Message.BAD_VAR, errno_=errno.ENOENT)
            number = int(match[1])
            context.offset = 0
            if not number:
                raise context.refuse(Message.BAD_ARG_NUM)
            if number > len(names):
                raise context.refuse(Message.NO_BTFARG, errno_=errno.ENOENT)
            result.append(Word(names[number - 1] + (match[2] or ""), number=number))
        else:
            result.append(Word(word))
    return result


def _dentry(word: Word, types: Btf | None) -> Word:
    text = word.text
    if not text.endswith((":%pd", ":%pD")):
        return word
    name, equals, body = text[:-4].partition("=")
    if not equals:
        name, body = "", text[:-4]
    if text.endswith("D"):
        body = f"+0x{_offset(types, 'file', ('f_path', 'dentry'), _DENTRY_AT):x}({body})"
    at = _offset(types, "dentry", ("d_name", "name"), _NAME_AT)
    text_now = f"{name}{equals}+0x0(+0x{at:x}({body})):string"
    return replace(word, text=text_now, dentry=text[-1])


def _offset(types: Btf | None, struct: str, path: Sequence[str], default: int) -> int:
    number = None if types is None else types.struct(struct)
    if types is None or number is None:
        return default
    bits = 0
    for name in path:
        member = types.member(number, name)
        if member is None:
            return default
        bits += member.bit_offset
        number = types.skip(member.type)
    return bits // 8
