"""The tokens of a C declaration to a type.

    u32   unsigned long long   char[16]   struct event   struct { u64 hits; u8 name[16]; }
    struct task_struct *   int (u32 pid, void *context)

``struct NAME`` that the text does not define is one of the kernel's, whose content is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pybpf.dataclass import dataclass
from pybpf.isa.expressions import Tokens
from pybpf.isa.lexer import Token
from pybpf.suggest import did_you_mean
from pybpf.tracefs.cnames import INTEGERS, integer
from pybpf.types import VOID, Array, Func, Ptr, Struct, Type, size_of, struct_of

_DEEPEST = 20
_LARGEST = 1 << 29
_KEYWORDS = frozenset({"char", "short", "int", "long", "signed", "unsigned", "void", "struct"})
_IGNORED = frozenset({"const", "volatile"})


def is_identifier(token: Token) -> bool:
    """Whether a token is a name that C, and so .BTF, can have."""
    return token.kind == "word" and token.text.isidentifier() and token.text.isascii()


def begins_type(at: Tokens) -> bool:
    """Whether what comes next can be nothing but a type."""
    word = at.peek().text
    return word in _KEYWORDS or word in _IGNORED or word in INTEGERS


@dataclass(frozen=True, slots=True)
class Types:
    """Reads types; ``structs`` are those that the text defines, by their names."""

    structs: Mapping[str, Struct]

    # type = base {"*"} ["(" [parameters] ")" | "[" number "]" …]
    def type(self, at: Tokens, depth: int = 0) -> Type:
        """Return the type at the cursor, also of a function."""
        found = self._pointers(at, self._base(at, depth))
        if at.accept("("):
            return Func(found, tuple(self._parameters(at, depth)))
        return self._arrays(at, found)

    def sized(self, at: Tokens) -> Type:
        """Return a type that values can have."""
        first = at.peek()
        found = self.type(at)
        if not _has_size(found):
            span = at.since(first)
            raise at.error(span, f"the size of {span.text} is not known")
        return found

    # base = "void" | "struct" (NAME | fields) | integer
    def _base(self, at: Tokens, depth: int) -> Type:
        if depth > _DEEPEST:
            raise at.error(at.peek(), f"more than {_DEEPEST} types within each other")
        while at.peek().text in _IGNORED:
            at.next()
        first = at.peek()
        if at.accept("void"):
            return VOID
        if at.accept("struct"):
            if at.peek().text == "{":
                return self.fields(at, "", depth)
            return self._struct(at, at.next())
        words: list[str] = []
        while at.peek().kind == "word" and integer([*words, at.peek().text]) is not None:
            words.append(at.next().text)
        found = integer(words)
        if found is None:
            names = [*INTEGERS, *_KEYWORDS]
            if first.kind != "word":
                raise at.expected("a type", first)
            near = did_you_mean(first.text, names)
            raise at.error(first, f"there is no type '{first.text}'{near}")
        return found

    def _struct(self, at: Tokens, name: Token) -> Struct:
        if not is_identifier(name):
            raise at.expected("the name of a structure", name)
        return self.structs.get(name.text) or Struct(name.text, (), 0, 1)

    # fields = "{" {type NAME {"[" number "]"} (";" | ",")} "}"
    def fields(self, at: Tokens, name: str, depth: int = 0) -> Struct:
        """Return a structure of the fields in braces at the cursor."""
        at.expect("{")
        found: dict[str, Type] = {}
        while not at.accept("}"):
            first = at.peek()
            t = self._pointers(at, self._base(at, depth + 1))
            field = at.next()
            if not is_identifier(field):
                raise at.expected("the name of a field", field)
            if field.text in found:
                raise at.error(field, f"two fields are '{field.text}'")
            t = self._arrays(at, t)
            if not _has_size(t):
                raise at.error(at.since(first), f"the size of {field.text} is not known")
            found[field.text] = t
            if not at.accept(";") and not at.accept(",") and at.peek().text != "}":
                raise at.expected("';' or '}'", at.peek())
        result = struct_of(name, found.items())
        if result.size > _LARGEST:
            raise at.error(at.peek(), f"a structure has {result.size} bytes")
        return result

    # parameters = "void" | type [NAME] {"," type [NAME]}
    def _parameters(self, at: Tokens, depth: int) -> Iterator[tuple[str, Type]]:
        if at.peek().text == "void" and at.peek(1).text == ")":
            at.next()
        number = 0
        while not at.accept(")"):
            number += 1
            t = self._pointers(at, self._base(at, depth + 1))
            name = at.next().text if at.peek().kind == "word" else f"a{number}"
            yield name, t
            if not at.accept(",") and at.peek().text != ")":
                raise at.expected("',' or ')'", at.peek())

    def _pointers(self, at: Tokens, t: Type) -> Type:
        depth = 0
        while at.accept("*"):
            depth += 1
            if depth > _DEEPEST:
                raise at.error(at.peek(), f"more than {_DEEPEST} pointers to each other")
            t = Ptr(t)
        return t

    # arrays = {"[" number "]"}
    def _arrays(self, at: Tokens, t: Type) -> Type:
        counts = []
        while at.accept("["):
            first = at.peek()
            counts.append(at.unsigned(29))
            at.expect("]")
            if len(counts) > _DEEPEST:
                raise at.error(first, f"more than {_DEEPEST} dimensions")
        for count in reversed(counts):
            t = Array(t, count)
        if counts and _has_size(t) and size_of(t) > _LARGEST:
            raise at.error(at.peek(), f"an array has {size_of(t)} bytes")
        return t


def _has_size(t: Type) -> bool:
    match t:
        case Struct():
            return bool(t.size)
        case Array():
            return _has_size(t.element)
        case Func():
            return False
        case _:
            return t != VOID
