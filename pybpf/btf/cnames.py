"""Names of types in; names that C can have, each for one thing only, out."""

from __future__ import annotations

import re

_KEYWORDS = frozenset(
    {"asm", "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else",
     "enum", "extern", "float", "for", "goto", "if", "inline", "int", "long", "register",
     "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef",
     "typeof", "union", "unsigned", "void", "volatile", "while", "_Alignas", "_Alignof", "_Atomic",
     "_Bool", "_Complex", "_Float16", "_Generic", "_Imaginary", "_Noreturn", "_Static_assert",
     "_Thread_local", "__int128"}
)  # fmt: skip
_NUMBERS = frozenset(
    {"char", "short", "int", "long", "signed", "unsigned", "float", "double", "_Bool", "_Complex",
     "_Float16", "__int128"}
)  # fmt: skip
BUILT_IN = frozenset({"__builtin_va_list"})
"""Typedefs that compilers know, and understand as what their own target has."""


def is_number(name: str) -> bool:
    """Whether a name is that of an arithmetic type, in any order of its words."""
    return bool(name) and set(name.split()) <= _NUMBERS


def identifier(name: str) -> str:
    """Return a name with ``_`` for what C allows in none, behind a keyword, before a digit."""
    clean = re.sub(r"\W", "_", name, flags=re.ASCII)
    if clean[:1].isdecimal():
        return f"_{clean}"
    return f"{clean}_" if clean in _KEYWORDS else clean


class Scope:
    """One name space of C: who comes second with a name gets ``name___2``, as from bpftool."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        self._of: dict[int, str] = {}

    def name(self, number: int, name: str) -> str:
        """Return the name of a type, which is the same whenever it is asked for."""
        if number not in self._of:
            self._of[number] = self.unique(name)
        return self._of[number]

    def unique(self, name: str) -> str:
        """Return a name that nothing has yet."""
        plain = identifier(name)
        while True:
            times = self._times[plain] = self._times.get(plain, 0) + 1
            if times == 1:
                return plain
            candidate = f"{plain}___{times}"
            if candidate not in self._times:
                self._times[candidate] = 1
                return candidate
