"""The tokens of a ply script, and how tightly its operators bind."""

from __future__ import annotations

from enum import StrEnum

from pybpf.dataclass import dataclass, field
from pybpf.source import Span


class Kind(StrEnum):
    """What a token is; the text alone tells one keyword or operator from another."""

    SPEC = "probe specification"
    NAME = "name"
    AGGREGATION = "aggregation"
    PARAMETER = "parameter"
    NUMBER = "number"
    STRING = "string"
    KEYWORD = "keyword"
    OPERATOR = "operator"
    END = "end of script"


@dataclass(frozen=True, slots=True)
class Token:
    """A lexeme as written, and what it stands for.

    ``value`` is the integer of a NUMBER or the bytes of a STRING, and None for all other kinds;
    ``suffix`` is that of a NUMBER, in lower case. No two kinds share a text, so comparing ``text``
    is enough to find an operator. END stands right behind the last token and has no text.
    """

    kind: Kind
    text: str
    span: Span = field(compare=False, repr=False)
    value: int | bytes | None = None
    suffix: str = ""


KEYWORDS = frozenset({"if", "else", "return", "delete"})

# Prefix operators bind more tightly than any infix operator, and less than "." and "->".
PREFIX = frozenset({"*", "-", "~", "!"})

# Infix operators all group to the left; a higher level binds more tightly.
LEVELS = {
    op: level
    for level, ops in enumerate(
        ("||", "^^", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %"), start=1
    )
    for op in ops.split()
}
