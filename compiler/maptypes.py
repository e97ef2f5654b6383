"""The types of a script's maps, gathered from every use until nothing changes.

Keys and values take the narrowest type that holds all that is stored: integers widen, strings
lengthen. A literal adapts to the other uses where it fits their type, so that ``m[1] = pid;`` and
``m[1] = 0;`` make a map of pids.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pybpf.compiler import tast
from pybpf.compiler.convert import as_int, holds, is_scalar, join
from pybpf.script import MapRole
from pybpf.source import Span
from pybpf.types import LONG, Type


@dataclass(slots=True)
class Gathered:
    """The type of one key field or value so far; ``where`` is the use that first decided it."""

    type: Type | None = None
    literals: dict[int, Type] = field(default_factory=dict)
    where: Span | None = None

    def add(self, expr: tast.Expr) -> bool:
        """Take ``expr`` in; return False where its type does not go with the earlier ones."""
        if isinstance(expr, tast.Const):
            if self.type is not None and not is_scalar(self.type):
                return False
            self.literals[expr.value] = expr.type
            self.where = self.where or expr.span
            return True
        if self.literals and not is_scalar(expr.type):
            return False
        joined = expr.type if self.type is None else join(self.type, expr.type)
        if joined is None:
            return False
        self.type = joined
        self.where = self.where or expr.span
        return True

    def result(self) -> Type | None:
        """Return the type that holds everything taken in, or None where nothing was."""
        t = self.type
        for value, literal in self.literals.items():
            if t is None:
                t = literal
            elif not holds(as_int(t), value):
                t = join(t, literal)
        return t


@dataclass(slots=True)
class MapUse:
    """What is known of one map."""

    name: str
    where: Span
    role: MapRole | None = None
    role_where: Span | None = None
    keys: list[Gathered] | None = None
    value: Gathered = field(default_factory=Gathered)
    stored: bool = False
    guessed: bool = False

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
        return tuple(
            (u.name, u.role, u.key_types(), u.value_type(), u.stored) for u in self.uses.values()
        )

    def guess(self) -> bool:
        """Give maps that are stored to, but of unknown type, long; return whether there are any.

        Such a map is only ever set from itself: ``m[1] = m[1] + 1``.
        """
        found = False
        for use in self.uses.values():
            if use.stored and use.role is MapRole.MAP and use.value_type() is None:
                use.guessed = found = True
        return found

    def declarations(self) -> tuple[tast.MapDecl, ...]:
        """Return the maps with their final types."""
        return tuple(
            tast.MapDecl(u.name, u.role, u.key_types(), u.value_type() or LONG)
            for u in self.uses.values()
            if u.role is not None
        )
