"""``$arg*``, ``$argN`` and ``:%pd`` of function probes: the words as written in, as judged out.

Source: traceprobe_expand_meta_args() and traceprobe_expand_dentry_args() of
kernel/trace/trace_probe.c.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence

from pybpf.btf.reader import Btf
from pybpf.tracefs.dynevents.btfpath import parameters
from pybpf.tracefs.dynevents.context import Context
from pybpf.tracefs.dynevents.ctext import is_digit
from pybpf.tracefs.dynevents.messages import Message

# Where the name lies in a struct dentry, and the dentry in a struct file, if BTF does not tell;
# so it is in Debian's kernels 6.12 and 7.3 for x86-64.
_NAME_AT = 0x28
_DENTRY_AT = 0x48


def expand(words: Sequence[str], context: Context) -> list[str]:
    """Return the arguments with the names of parameters for ``$arg*`` and ``$argN``.

    Raises Refused.
    """
    expanded = _parameters(words, context)
    if not context.rules.dentry:
        return expanded
    return [_dentry(word, context.types) for word in expanded]


def _parameters(words: Sequence[str], context: Context) -> list[str]:
    if not context.rules.btf_args:
        return list(words)
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
    if not found:
        return list(words)
    names = [name for name, _ in parameters(context)]
    if not names:
        if all_at is None or context.types is None:
            return _without_types(words, all_at, context)
        raise context.refuse(Message.NOSUP_BTFARG)
    return _named(words, all_at, names, context)


def _without_types(words: Sequence[str], all_at: int | None, context: Context) -> list[str]:
    if all_at is None:
        return list(words)
    context.assume("the types of the kernel (BTF) are not known: $arg* is taken to stand for none")
    return [word for place, word in enumerate(words) if place != all_at]


def _named(
    words: Sequence[str], all_at: int | None, names: Sequence[str], context: Context
) -> list[str]:
    result: list[str] = []
    for place, word in enumerate(words):
        context.log.index = place + 2
        if place == all_at:
            result += names
        elif word.startswith("$arg"):
            match = re.fullmatch(r"\$arg([0-9]+)(:.*)?", word, re.DOTALL)
            if match is None:
                raise context.refuse(Message.BAD_VAR, errno_=errno.ENOENT)
            number = int(match[1])
            if not 0 < number <= len(names):
                raise context.refuse(Message.NO_BTFARG, errno_=errno.ENOENT)
            result.append(names[number - 1] + (match[2] or ""))
        else:
            result.append(word)
    return result


def _dentry(word: str, types: Btf | None) -> str:
    if not word.endswith((":%pd", ":%pD")):
        return word
    name, equals, body = word[:-4].partition("=")
    if not equals:
        name, body = "", word[:-4]
    if word.endswith("D"):
        body = f"+0x{_offset(types, 'file', ('f_path', 'dentry'), _DENTRY_AT):x}({body})"
    at = _offset(types, "dentry", ("d_name", "name"), _NAME_AT)
    return f"{name}{equals}+0x0(+0x{at:x}({body})):string"


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
