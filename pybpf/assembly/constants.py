"""Names of a text in, numbers out: its own constants, members of structures, those of the kernel.

.equ LIMIT, 4 * PAGE            LIMIT, worked out when it is asked for
.struct event { u32 pid }       event.pid, its offset, and sizeof(event)
xdp_md.data                     the same of contexts
XDP_PASS                        the kernel's interface (isa.uapi)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from pybpf.errors import AssemblyError, Diagnostic
from pybpf.isa.expressions import Tokens
from pybpf.isa.lexer import Statement, Token
from pybpf.isa.uapi import CONSTANTS

_DEEPEST = 30
_NEWEST = (99, 0)


class Constants(Mapping[str, int]):
    """What names stand for. To ask for one raises AssemblyError where its definition is wrong."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self._definitions: dict[str, tuple[Token, Statement]] = {}
        self._asked: dict[str, None] = {}

    def define(self, name: Token, statement: Statement, at: int) -> None:
        """Note that a name stands for the expression from token ``at`` of a statement on."""
        tail = Statement(statement.tokens[at:], None, statement.span)
        self._definitions[name.text] = name, tail

    def defined(self, name: str) -> bool:
        """Whether the text itself says what it stands for."""
        return name in self._definitions or name in self.known

    def __getitem__(self, name: str) -> int:
        if name in self.known:
            return self.known[name]
        if name in self._definitions:
            return self._evaluate(name)
        if name in CONSTANTS:
            return CONSTANTS[name]
        return _contexts()[name]

    def _evaluate(self, name: str) -> int:
        token, statement = self._definitions[name]
        tokens = Tokens(statement, self)
        if name in self._asked:
            ring = " -> ".join([*self._asked, name])
            raise tokens.error(token, f"{name} is defined by itself: {ring}")
        if len(self._asked) == _DEEPEST:
            raise tokens.error(token, f"more than {_DEEPEST} constants need each other")
        self._asked[name] = None
        try:
            number = tokens.number().value
            tokens.finish("expression")
        except AssemblyError:
            self.known[name] = 0  # so that the fault is told once
            raise
        finally:
            del self._asked[name]
        self.known[name] = number
        return number

    def check(self) -> Iterator[Diagnostic]:
        """Yield what is wrong with definitions, also with those that nothing asks for."""
        for name in [name for name in self._definitions if name not in self.known]:
            try:
                self[name]
            except AssemblyError as error:
                yield from error.diagnostics

    def __contains__(self, name: object) -> bool:
        if name in self.known or name in self._definitions or name in CONSTANTS:
            return True
        text = str(name)
        return ("." in text or "(" in text) and name in _contexts()

    def __iter__(self) -> Iterator[str]:
        yield from {**self.known, **self._definitions, **CONSTANTS, **_contexts()}

    def __len__(self) -> int:
        return sum(1 for _ in self)


@cache
def _contexts() -> Mapping[str, int]:
    """Return the offsets of the fields of contexts, and their sizes."""
    from pybpf.verifier.contexts import layout, layouts

    found = {}
    for name in layouts():
        context = layout(name, _NEWEST)
        found[f"sizeof({name})"] = context.size
        found.update((f"{name}.{field.name}", field.offset) for field in context.fields)
    return found
