"""The types of a script's maps, gathered from every use until nothing changes.

Keys and values take the narrowest type that holds all that is stored: integers widen, strings
lengthen. A literal adapts to the other uses where it fits their type, so that ``m[1] = pid;`` and
``m[1] = 0;`` make a map of pids.
"""

from __future__ import annotations

from collections.abc import Sequence

from pybpf.compiler import tast
from pybpf.compiler.convert import as_int, holds, is_scalar, join
from pybpf.dataclass import dataclass, field
from pybpf.script import MapRole
from pybpf.source import Span
from pybpf.types import LONG, Show, Type, show_of, strip


def place(span: Span) -> str:
    """Return where a span begins, as ``line:column``."""
    return f"{span.line}:{span.column}"


@dataclass(slots=True)
class Gathered:
    """The type of one key field or value so far; ``where`` is the use that first decided it.

    Types are only ever added, so that walking the script again and again comes to an end.
    """

    types: dict[Type, None] = field(default_factory=dict)
    literals: dict[int, Type] = field(default_factory=dict)
    where: Span | None = None
    # What result() found last, from how many types, and the literals it has not seen.
    _found: Type | None = None
    _types: int = 0
    _unseen: list[tuple[int, Type]] = field(default_factory=list)

    def add(self, expr: tast.Expr) -> bool:
        """Take ``expr`` in; return False where its type does not go with the earlier ones."""
        if isinstance(expr, tast.Const):
            if self.types and not is_scalar(next(iter(self.types))):
                return False
            if expr.value not in self.literals:
                self.literals[expr.value] = expr.type
                self._unseen.append((expr.value, expr.type))
        else:
            if self.literals and not is_scalar(expr.type):
                return False
            if self.types and _joined([*self.types, expr.type]) is None:
                return False
            self.types.setdefault(expr.type)
        self.where = self.where or expr.span
        return True

    def result(self) -> Type | None:
        """Return the type that holds everything taken in, or None where nothing was."""
        t, literals = self._found, self._unseen
        if len(self.types) != self._types:
            t, literals = _joined(list(self.types)), list(self.literals.items())
        for value, literal in literals:
            if t is None:
                t = literal
            elif not holds(as_int(t), value):
                t = join(t, literal)
        self._found, self._types, self._unseen = t, len(self.types), []
        return t

    def since(self) -> str:
        """Return where the type was decided, to be put behind its name in a message."""
        return f" since {place(self.where)}" if self.where else ""


def _joined(types: Sequence[Type]) -> Type | None:
    """Return the type of a map's keys or values that are of these types, None if they clash.

    A format (that of a time, say) is kept where it is the only one and its numbers are as wide.
    """
    whole: Type | None = types[0]
    for t in types[1:]:
        whole = join(whole, t) if whole is not None else None
    formatted = [t for t in types if show_of(t) is not Show.PLAIN]
    if whole is not None and len(formatted) == 1 and strip(formatted[0]) == strip(whole):
        return formatted[0]
    return whole


@dataclass(slots=True)
class MapUse:
    """What is known of one map. ``broken``: some value stored in it has a fault of its own."""

    name: str
    where: Span
    role: MapRole | None = None
    role_where: Span | None = None
    keys: list[Gathered] | None = None
    value: Gathered = field(default_factory=Gathered)
    guessed: bool = False
    broken: bool = False

    def value_type(self) -> Type | None:
        """Return the type of an entry, or None as long as no use has shown it."""
        found = self.value.result()
        return LONG if found is None and self.guessed else found

    def key_types(self) -> tuple[Type, ...]:
        """Return the types of the key's fields."""
        return tuple(k.result() or LONG for k in self.keys or ())


@dataclass(slots=True)
class MapTypes:
    """All maps of a script in the order of first appearance."""

    uses: dict[str, MapUse] = field(default_factory=dict)

    def use(self, name: str, span: Span) -> MapUse:
        """Return what is known of ``name``, making a new entry at its first appearance."""
        return self.uses.setdefault(name, MapUse(name, span))

    def snapshot(self) -> tuple[object, ...]:
        """Return a value that changes whenever a type changes."""
        return tuple((u.name, u.role, u.key_types(), u.value_type()) for u in self.uses.values())

    def guess(self) -> bool:
        """Make values of unknown type long in plain maps; return whether there are any.

        Such a map is only ever set from itself: ``m[1] = m[1] + 1``.
        """
        found = False
        for use in self.uses.values():
            if use.role is MapRole.MAP and not use.broken and use.value_type() is None:
                use.guessed = found = True
        return found

    def declarations(self) -> tuple[tast.MapDecl, ...]:
        """Return the maps with their final types."""
        return tuple(
            tast.MapDecl(u.name, u.role, u.key_types(), u.value_type() or LONG)
            for u in self.uses.values()
            if u.role is not None
        )
