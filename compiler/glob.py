"""Shell patterns with ksh's extended forms, as ply takes them in probe specifications.

``*  ?  [abc]  [!abc]`` and ``?(a|b)  *(a|b)  +(a|b)  @(a|b)  !(a|b)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_MAGIC = re.compile(r"[*?\[]|[!@+]\(")
_QUANTIFIER = {"?": "?", "*": "*", "+": "+", "@": ""}


def is_glob(text: str) -> bool:
    """Whether ``text`` holds a pattern character."""
    return _MAGIC.search(text) is not None


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that the whole pattern matches, in their order."""
    match = re.compile(translate(pattern)).fullmatch
    return [name for name in names if match(name)]


def translate(pattern: str) -> str:
    """Return the regular expression of a pattern; an unclosed bracket stands for itself."""
    expression, end = _sequence(pattern, 0, nested=False)
    assert end == len(pattern)
    return expression


def _sequence(pattern: str, at: int, *, nested: bool) -> tuple[str, int]:
    """Translate from ``at`` to the end, or (nested) to the ``|`` or ``)`` that ends this part."""
    out = ""
    while at < len(pattern):
        ch = pattern[at]
        if nested and ch in "|)":
            break
        if pattern[at + 1 : at + 2] == "(" and (ch in _QUANTIFIER or ch == "!"):
            group = _alternatives(pattern, at + 2)
            if group is not None:
                choices, at = group
                if ch == "!":
                    rest, at = _sequence(pattern, at, nested=nested)
                    # What the negated part covers must be none of the choices, whatever it covers.
                    return f"{out}(?!(?:{choices}){rest}$).*{rest}", at
                out += f"(?:{choices}){_QUANTIFIER[ch]}"
                continue
        if ch == "*":
            out += ".*"
        elif ch == "?":
            out += "."
        elif (
            ch == "["
            and (close := pattern.find("]", at + 2 + (pattern[at + 1 : at + 2] == "!"))) > 0
        ):
            body = pattern[at + 1 : close]
            negated = body[:1] in ("!", "^")
            body = body[negated:].replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
            out += f"[{'^' * negated}{body}]"
            at = close
        else:
            out += re.escape(ch)
        at += 1
    return out, at


def _alternatives(pattern: str, at: int) -> tuple[str, int] | None:
    choices: list[str] = []
    while True:
        part, at = _sequence(pattern, at, nested=True)
        choices.append(part)
        if at == len(pattern):
            return None
        at += 1
        if pattern[at - 1] == ")":
            return "|".join(choices), at
