"""Shell patterns with ksh's extended forms: a pattern and names in, the names it matches out.

``*  ?  [abc]  [!abc]`` and ``?(a|b)  *(a|b)  +(a|b)  @(a|b)  !(a|b)``. What is not closed stands
for itself, and so do groups that nest too deeply to be meant. (bash 5.2 forgets that a group behind
a ``*`` may match nothing: ``*@(|x)`` is not ``*`` to it. Here it is, as in ksh93 and mksh.)

A pattern becomes a regular expression, which goes through a kernel's 100,000 functions in no time.
Repetition and negation are too much for it: they may take time without end, or mean something
else. So they count as ``*`` there, and the few names that are left are matched exactly, by keeping
the set of all places in a name up to which the pattern may have come (Thompson, 1968).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pybpf.dataclass import dataclass, field

_MAGIC = re.compile(r"[*?\[]|[!@+]\(")
_OPENERS = "?*+@!"
_DEEPEST = 16


@dataclass(frozen=True, slots=True)
class _One:
    """One character of these ranges, both ends included; ``negated``: of none of them."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False

    def has(self, character: str) -> bool:
        return any(low <= character <= high for low, high in self.ranges) is not self.negated


@dataclass(frozen=True, slots=True)
class _Group:
    """``kind(choices)``: the kind is the character before the parenthesis; ``*`` alone has none."""

    kind: str
    choices: tuple[tuple[_Part, ...], ...]


_Part = _One | _Group
_ANY = _Group("*", (((_One((), negated=True)),),))


def is_glob(text: str) -> bool:
    """Whether ``text`` holds a pattern character."""
    return _MAGIC.search(text) is not None


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that the whole pattern matches, in their order."""
    parts = _parse(pattern)
    may_match = re.compile("".join(map(_regex, parts)), re.DOTALL).fullmatch
    found = (name for name in names if may_match(name))
    if _is_exact(parts):
        return list(found)
    return [name for name in found if len(name) in _Name(name).ends(parts, 0)]


def _parse(pattern: str) -> tuple[_Part, ...]:
    """Return the parts of a pattern."""
    openings = _openings(pattern)
    # What is being read: the opener's kind, its finished choices, the parts of the present one.
    open_groups: list[tuple[str, list[tuple[_Part, ...]], list[_Part]]] = [("", [], [])]
    at = 0
    while at < len(pattern):
        ch = pattern[at]
        kind, choices, parts = open_groups[-1]
        if at in openings:
            open_groups.append((ch, [], []))
            at += 1
        elif ch in "|)" and kind:
            choices.append(tuple(parts))
            parts.clear()
            if ch == ")":
                open_groups.pop()
                open_groups[-1][2].append(_Group(kind, tuple(choices)))
        elif ch == "*":
            parts.append(_ANY)
        elif ch == "?":
            parts.append(_One((), negated=True))
        elif ch == "[" and (close := _bracket(pattern, at)):
            parts.append(_set(pattern[at + 1 : close]))
            at = close
        else:
            parts.append(_One(((ch, ch),)))
        at += 1
    return tuple(open_groups[0][2])


def _openings(pattern: str) -> set[int]:
    """Return where groups begin: those that are closed."""
    found: set[int] = set()
    pending: list[int] = []
    at = 0
    while at < len(pattern):
        if pattern[at] == "[" and (close := _bracket(pattern, at)):
            at = close
        elif pattern[at] in _OPENERS and pattern[at + 1 : at + 2] == "(":
            pending.append(at)
            at += 1
        elif pattern[at] == ")" and pending:
            opening = pending.pop()
            if len(pending) < _DEEPEST:
                found.add(opening)
        at += 1
    return found


def _bracket(pattern: str, at: int) -> int:
    """Return where the bracket that opens at ``at`` closes, 0 if it does not."""
    first = at + 1 + (pattern[at + 1 : at + 2] in ("!", "^"))
    return max(pattern.find("]", first + 1), 0)


def _set(body: str) -> _One:
    negated = body[0] in "!^"
    found = re.findall(r"(.)-(.)|(.)", body[negated:], re.DOTALL)
    return _One(tuple((low or one, high or one) for low, high, one in found), negated)


def _is_exact(parts: tuple[_Part, ...]) -> bool:
    """Whether the regular expression says all that the pattern does."""
    return all(
        isinstance(part, _One)
        or part is _ANY
        or (part.kind in "?@" and all(map(_is_exact, part.choices)))
        for part in parts
    )


def _regex(part: _Part) -> str:
    match part:
        case _One(ranges=ranges, negated=negated):
            inside = "".join(f"{re.escape(a)}-{re.escape(b)}" for a, b in ranges if a <= b)
            if not inside:
                return "." if negated else r"(?!)"
            return f"[{'^' * negated}{inside}]"
        case _Group(kind="?" | "@" as kind, choices=choices):
            inner = "|".join("".join(map(_regex, choice)) for choice in choices)
            return f"(?:{inner}){'?' if kind == '?' else ''}"
        case _:
            return ".*"


@dataclass(frozen=True, slots=True)
class _Name:
    """A name to be matched; ``known`` is what was found out: by group and place, where it ends."""

    text: str
    known: dict[tuple[int, int], set[int]] = field(default_factory=dict)

    def ends(self, parts: tuple[_Part, ...], start: int) -> set[int]:
        """Return all places where what the parts match, from ``start`` on, can end."""
        places = {start}
        for part in parts:
            places = {end for place in places for end in self._steps(part, place)}
        return places

    def _steps(self, part: _Part, place: int) -> Iterable[int]:
        if isinstance(part, _One):
            fits = place < len(self.text) and part.has(self.text[place])
            return [place + 1] if fits else []
        if part is _ANY:
            return range(place, len(self.text) + 1)
        key = id(part), place
        if key not in self.known:
            self.known[key] = self._group(part, place)
        return self.known[key]

    def _group(self, group: _Group, place: int) -> set[int]:
        once = self._chosen(group, place)
        match group.kind:
            case "!":
                return set(range(place, len(self.text) + 1)) - once
            case "@":
                return once
            case "?":
                return once | {place}
            case _:
                pass
        # Again and again, from every place that was not yet come to.
        reached = {place} if group.kind == "*" else set()
        while fresh := once - reached:
            reached |= fresh
            once = {end for at in fresh for end in self._chosen(group, at)}
        return reached

    def _chosen(self, group: _Group, place: int) -> set[int]:
        return {end for choice in group.choices for end in self.ends(choice, place)}
