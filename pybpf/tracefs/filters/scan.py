"""A filter as the kernel reads it: its text in, comparisons, brackets and operators out.

Two passes: the first counts brackets and comparisons, the second reads these and links them to the
program of jumps that the kernel runs. Source: calc_stack(), predicate_parse() of
kernel/trace/trace_events_filter.c.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from pybpf.tracefs.dynevents.ctext import skip_spaces
from pybpf.tracefs.filters.messages import FilterFault, FilterMessage
from pybpf.tracefs.filters.predicate import Surroundings, read_comparison
from pybpf.tracefs.filters.value import Comparison

Token = Comparison | str
"""A comparison, or one of ``( ) ! && ||``."""

_INVERT, _AND, _OR = 1, 2, 4


def scan(text: str, around: Surroundings) -> list[Token]:
    """Return the tokens of a filter, one character a byte. Raises FilterFault."""
    count = _count(text)
    if count == 0:
        raise FilterFault(errno.EINVAL)
    return _Program(text, count, around).read()


def _count(text: str) -> int:
    """Return how many comparisons there seem to be. Raises FilterFault for brackets and quotes."""
    depth, count, inside, quote, last_quote = 1, 0, False, "", 0
    for place, char in enumerate(text):
        if not skip_spaces(char):
            continue
        if quote:
            quote = "" if char == quote else quote
            continue
        if char in {"'", '"'}:
            quote, last_quote = char, place
        elif char in {"|", "&"} and text[place + 1 : place + 2] == char:
            inside = False
            continue
        elif char in {"(", ")"}:
            inside = False
            if char == ")" and depth == 1:
                raise FilterFault(errno.EPERM, FilterMessage.TOO_MANY_CLOSE, place)
            depth += 1 if char == "(" else -1
            continue
        if not inside:
            count, inside = count + 1, True
    if quote:
        raise FilterFault(errno.ESRCH, FilterMessage.MISSING_QUOTE, last_quote)
    if depth != 1:
        raise FilterFault(errno.ENOENT, FilterMessage.TOO_MANY_OPEN, _open(text, depth))
    return count


def _open(text: str, depth: int) -> int:
    """Return the place of the bracket that is not closed, looking from the end."""
    level, quote = depth, ""
    for place in range(len(text) - 1, 0, -1):
        char = text[place]
        if quote:
            quote = "" if char == quote else quote
        elif char == "(":
            if level == depth:
                return place
            level -= 1
        elif char == ")":
            level += 1
        elif char in {"'", '"'}:
            quote = char
    return 0


class _Program:
    """The comparisons with where each jumps to, as far as that decides whether they can be run."""

    def __init__(self, text: str, count: int, around: Surroundings) -> None:
        self.text, self.around = text, around
        self.limit = count + 2
        self.at = 0
        self.stack = [0]
        self.invert = 0
        self.targets: list[int] = []
        self.branches: list[int] = []
        self.tokens: list[Token] = []

    def read(self) -> list[Token]:
        errno_ = errno.ENOMEM
        while self.at < len(self.text):
            place, char = self.at, self.text[self.at]
            self.at += 1
            if not skip_spaces(char):
                continue
            if char == "(":
                self.stack.append(self.invert)
                self.tokens.append(char)
                continue
            if char == "!" and self.text[place + 1 : place + 2] not in {"=", "~"}:
                self.invert ^= 1
                self.tokens.append(char)
                continue
            if len(self.targets) >= self.limit:
                raise FilterFault(errno_, FilterMessage.TOO_MANY_PREDS, place)
            errno_ = errno.EPERM
            self._comparison(place)
            if not self._operators():
                self._check()
                return self.tokens
        if not self.targets:
            raise FilterFault(errno.EINVAL, FilterMessage.NO_FILTER, self.at)
        raise FilterFault(errno.EINVAL, FilterMessage.INVALID_FILTER, self.at)

    def _comparison(self, place: int) -> None:
        self.targets.append(len(self.targets) - 1)
        self.branches.append(0)
        value, length = read_comparison(self.text[place:], place + 1, self.around)
        self.tokens.append(value)
        self.at = place + length

    def _operators(self) -> bool:
        """Read up to the next operator; return False at the end of the text."""
        while True:
            place = self.at
            char = self.text[place : place + 1]
            self.at += 1
            if char and not skip_spaces(char):
                continue
            if char in {"&", "|"} and self.text[place + 1 : place + 2] == char:
                self.at += 1
            elif char not in {")", ""}:
                raise FilterFault(errno.EPERM, FilterMessage.TOO_MANY_PREDS, place)
            if self._link(char):
                self.tokens.append(char * 2)
                return True
            if not char:
                return False
            if len(self.stack) == 1:
                raise FilterFault(errno.EPERM, FilterMessage.TOO_MANY_CLOSE, self.at)
            self.stack.pop()
            self.tokens.append(char)

    def _link(self, char: str) -> bool:
        """Close what the operator binds; say whether ``char`` is an operator."""
        top = self.stack[-1]
        self.invert = top & _INVERT
        if top & _AND:
            self._jump(self.invert)
            top &= ~_AND
        if char == "&":
            self.stack[-1] = top | _AND
            return True
        if top & _OR:
            self._jump(1 - self.invert)
            top &= ~_OR
        self.stack[-1] = top | (_OR if char == "|" else 0)
        return char == "|"

    def _jump(self, branch: int) -> None:
        last = len(self.targets) - 1
        before = self.targets[last]
        if before < 0:
            raise FilterFault(errno.EINVAL)
        start = self.targets[before]
        self.branches[before], self.targets[before], self.targets[last] = branch, last, start

    def _check(self) -> None:
        """Refuse a program that would jump backwards. Raises FilterFault."""
        count = len(self.targets)
        targets = [*self.targets, 1, 0]
        branches = [*self.branches, 0, 0]
        targets[count - 1], branches[count - 1] = count, 0
        for place in range(count - 2, -1, -1):
            target = targets[place]
            if target >= 0 and branches[place] == branches[target]:
                targets[place] = targets[target]
        if any(targets[place] <= place for place in range(count)):
            raise FilterFault(errno.EINVAL)


def comparisons(tokens: list[Token]) -> Iterator[Comparison]:
    """Yield the comparisons among tokens."""
    for token in tokens:
        if isinstance(token, Comparison):
            yield token
