"""Filters of events, checked in outline: fields and operators in, the first wrong one out.

It knows the shape of a predicate and the names in it, which is what a definition needs by itself;
a World may bring a judge that knows the rest.
"""

from __future__ import annotations

import re

from pybpf.tracefs.dynevents.rules import Rules
from pybpf.tracefs.dynevents.world import FilterRefusal
from pybpf.tracefs.format import EventField

_BUILTIN = frozenset({"cpu", "CPU", "comm", "COMM", "common_cpu", "common_comm"})
_SKIP = re.compile(r"[\s(!]*")
_FIELD = re.compile(r"\w*", re.ASCII)
_SUFFIX = re.compile(r"\.(?:ustring|function)")
_OPERATOR = re.compile(r"\s*(==|!=|<=|>=|<|>|&(?!&)|~)")
_NUMBER = re.compile(r"\s*(-?\w+)")
_OTHER = re.compile(r"""\s*("[^"]*"|'[^']*'|CPUS\{[^}]*\}|[^\s&|()]+)""")
_NEXT = re.compile(r"[\s)]*(?:&&|\|\||$)")


def judge_filter(text: str, fields: tuple[EventField, ...], rules: Rules) -> FilterRefusal | None:
    """Return what is wrong with the fields and operators of a filter, None if nothing is."""
    del rules
    names = {field.name for field in fields} | _BUILTIN
    place = 0
    while place < len(text):
        place = _end(_SKIP, text, place)
        found = _FIELD.match(text, place)
        name = found[0] if found else ""
        place += len(name)
        if name not in names:
            return FilterRefusal("Field not found", place + 1)
        place = _end(_SUFFIX, text, place)
        operator = _OPERATOR.match(text, place)
        if operator is None:
            return FilterRefusal("Invalid operator", _end(re.compile(r"\s*"), text, place) + 1)
        place = operator.end()
        number = _NUMBER.match(text, place)
        if number is not None and not _fits(number[1]):
            return FilterRefusal("Illegal integer value", number.start(1) + 1)
        operand = _OTHER.match(text, place)
        following = None if operand is None else _NEXT.match(text, operand.end())
        if following is None:
            return None
        place = following.end()
    return None


def _end(pattern: re.Pattern[str], text: str, place: int) -> int:
    match = pattern.match(text, place)
    return place if match is None else match.end()


def _fits(text: str) -> bool:
    return not text.lstrip("-").isdecimal() or -(1 << 63) <= int(text) < 1 << 64
