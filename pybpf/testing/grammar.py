"""Random text by a grammar: alternatives by name and a source of chance in, a text out.

In an alternative ``<name>`` stands for a draw of ``name``. One that is to come up more often stands
there more often.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random

Grammar = Mapping[str, Sequence[str]]

_DEEPEST = 14
_REFERENCE = re.compile(r"<([a-z0-9-]+)>")


def words(text: str) -> tuple[str, ...]:
    """Return alternatives that have no white space in them, written as one text."""
    return tuple(text.split())


def draw(grammar: Grammar, name: str, random: Random, depth: int = 0) -> str:
    """Draw a text of ``name``; deep down only alternatives that name nothing are taken."""
    choices = grammar[name]
    if depth > _DEEPEST:
        choices = tuple(text for text in choices if not _REFERENCE.search(text)) or ("x",)
    return _REFERENCE.sub(lambda m: draw(grammar, m[1], random, depth + 1), random.choice(choices))
