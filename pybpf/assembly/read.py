"""Assembler text with directives in, a Unit out.

A text is read in three rounds: constants are noted, so that they may stand behind what uses them;
directives are followed in their order; instructions are assembled when all names are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from pybpf.assembly.constants import Constants
from pybpf.assembly.ctypes import Types, is_identifier
from pybpf.assembly.data import DATA, Section, is_data
from pybpf.assembly.maps import MapReader
from pybpf.assembly.unit import TEXT, Extern, Function, Map, Unit
from pybpf.dataclass import dataclass, field
from pybpf.errors import AssemblyError, Diagnostic, Severity
from pybpf.isa.assembler import assemble_items, failure
from pybpf.isa.expressions import REGISTER, Tokens, unescape
from pybpf.isa.insn import ByteOrder, Program
from pybpf.isa.lexer import FAULTS_AT_MOST, Label, Statement, Token, lex
from pybpf.isa.operands import Outside
from pybpf.isa.table import OPS
from pybpf.objfile.sections import kinds, parse
from pybpf.source import Source, Span
from pybpf.suggest import did_you_mean
from pybpf.types import INT, VOID, Func, Ptr, Struct, Type

_CONSTANT = frozenset({".equ", ".set"})
_CALLS = frozenset({OPS["call_local"], OPS["lddw_func"]})
_LAST = frozenset({OPS["exit"], OPS["ja"], OPS["gotol"]})
_SECTIONS_AT_MOST = 5_000
_PROGRAM = Func(INT, (("ctx", Ptr(VOID)),))
_FUNCTION = Func(INT)


def read(text: str, name: str = "<asm>", byteorder: ByteOrder = "little") -> Unit:
    """Return what a text describes; ``name`` is the file name in errors.

    Raises AssemblyError, which points at the first faults.
    """
    reader = _Reader(Source(name, text), byteorder)
    unit = reader.unit()
    if reader.faults:
        raise failure(reader.faults)
    return unit


@dataclass(slots=True)
class _Body:
    """A function and what it is made of, before its instructions are read."""

    name: str
    section: str
    is_global: bool
    prototype: Func
    span: Span | None
    items: list[Label | Statement] = field(default_factory=list)


class _Reader:
    def __init__(self, source: Source, byteorder: ByteOrder) -> None:
        self._source = source
        self._byteorder: ByteOrder = byteorder
        self.faults: list[Diagnostic] = []
        self._constants = Constants()
        self._structs: dict[str, Struct] = {}
        self._types = Types(self._structs)
        self._licence: str | None = None
        self._bodies: list[_Body] = []
        self._maps: dict[str, Map] = {}
        self._sections: dict[str, Section] = {}
        self._externs: dict[str, Extern] = {}
        self._names_of_sections: set[str] = set()
        self._places: dict[str, Span] = {}
        self._symbols: dict[str, Outside] = {}
        self._at: _Body | Section | None = None
        self._directives: dict[str, Callable[[Tokens, Span], None]] = {
            ".prog": self._prog, ".func": self._func, ".map": self._map, ".extern": self._extern,
            ".struct": self._struct, ".license": self._license, ".licence": self._license,
        }  # fmt: skip

    def unit(self) -> Unit:
        items = [*lex(self._source, self.faults)]
        for item in items:
            self._guarded(self._note, item)
        for item in items:
            if len(self.faults) >= FAULTS_AT_MOST:
                break
            self._guarded(self._follow, item)
        self.faults += self._constants.check()
        for section in self._sections.values():
            section.finish()
        functions = tuple(self._functions())
        warnings = tuple(chain.from_iterable(map(_warnings, functions)))
        self._check_values()
        return Unit(
            self._source, self._byteorder, "GPL" if self._licence is None else self._licence,
            functions, tuple(self._maps.values()),
            tuple(section.data() for section in self._sections.values()),
            tuple(self._externs.values()), self._symbols, warnings,
        )  # fmt: skip

    def _guarded(self, step: Callable[[Label | Statement], None], item: Label | Statement) -> None:
        try:
            step(item)
        except AssemblyError as error:
            self.faults += error.diagnostics

    # --- the first round --------------------------------------------------------------------------

    # constant = (".equ" | ".set") name "," number
    def _note(self, item: Label | Statement) -> None:
        """Note a constant, or a kfunc that is called without being declared."""
        if isinstance(item, Label):
            return
        first, second, third = (*item.tokens, *item.tokens[-1:] * 2)[:3]
        at = Tokens(item)
        if first.text == "call" and second.text == "kfunc" and third.kind == "word":
            self._externs.setdefault(third.text, Extern(third.text, Func(VOID)))
        if first.text not in _CONSTANT:
            return
        at.next()
        name = self._name(at, "the name of a constant")
        if self._constants.defined(name.text):
            raise at.error(name, f"{name.text} is defined twice")
        at.expect(",")
        self._constants.define(name, item, 3)

    # --- the second round -------------------------------------------------------------------------

    # statement = directive | instruction
    def _follow(self, item: Label | Statement) -> None:
        if isinstance(item, Statement) and item.tokens[0].text[0] == ".":
            self._directive(item)
        elif isinstance(self._at, Section):
            self._into(self._at, item)
        else:
            if self._at is None:
                self._at = _Body("", "", is_global=True, prototype=_PROGRAM, span=None)
                self._bodies.append(self._at)
            self._at.items.append(item)

    def _into(self, section: Section, item: Label | Statement) -> None:
        """Put a label into a section of data, where there can be no instruction."""
        if isinstance(item, Statement):
            hint = "begin a program with .prog, a function with .func"
            where = f"{section.name} holds data, and no instructions"
            raise AssemblyError(Diagnostic(where, item.span, (hint,)))
        if not item.name.isidentifier():
            hint = "letters, digits and _ make one"
            raise AssemblyError(Diagnostic("this is no name of a variable", item.span, (hint,)))
        self._declare(item.name, item.span, Outside.DATA)
        section.label(item.name)

    def _directive(self, item: Statement) -> None:
        at = Tokens(item, self._constants)
        word = at.next()
        if word.text in _CONSTANT:
            return
        if is_data(word.text):
            if word.text not in self._sections:
                self._check_room(at.span(word), word.text)
                self._sections[word.text] = Section(word.text, self._constants, self._byteorder)
            self._at = self._sections[word.text]
        elif word.text in self._directives:
            self._directives[word.text](at, item.span)
        elif word.text in DATA:
            if not isinstance(self._at, Section):
                hint = "begin one with .data, .rodata or .bss"
                raise at.error(word, f"{word.text} belongs into a section of data", hint)
            self._at.directive(word, at, item)
        else:
            names = [*self._directives, *DATA, *_CONSTANT, ".data", ".rodata", ".bss"]
            near = did_you_mean(word.text, names)
            raise at.error(word, f"there is no directive {word.text}{near}")
        at.finish("directive")

    def _declare(self, name: str, span: Span, kind: Outside | None) -> None:
        """Note a name that instructions may refer to; ``kind`` None: they cannot."""
        if name in self._places:
            hint = f"the other one is in line {self._places[name].line}"
            raise AssemblyError(Diagnostic(f"{name} is defined twice", span, (hint,)))
        if self._constants.defined(name):
            raise AssemblyError(Diagnostic(f"{name} is a constant already", span))
        self._places[name] = span
        if kind is not None:
            self._symbols[name] = kind

    def _check_room(self, span: Span, section: str) -> None:
        """Check that there are not more sections than the file can have."""
        self._names_of_sections.add(section)
        if len(self._names_of_sections) > _SECTIONS_AT_MOST:
            wrong = f"more than {_SECTIONS_AT_MOST} sections"
            raise AssemblyError(Diagnostic(wrong, span))

    def _name(self, at: Tokens, what: str) -> Token:
        token = at.next()
        if not is_identifier(token) or REGISTER.fullmatch(token.text):
            raise at.expected(what, token)
        return token

    # prog = ".prog" section ["," name]
    def _prog(self, at: Tokens, span: Span) -> None:
        first = at.peek()
        section = _section(at)
        bare = section.removeprefix("?")
        if parse(section) is None:
            names = [kind.name.rstrip("+") for kind in kinds()]
            near = did_you_mean(bare.partition("/")[0] if "/" in bare else bare, names)
            raise at.error(at.since(first), f"no program type has a section '{section}'{near}")
        if at.accept(","):
            token = self._name(at, "the name of the program")
            name, place = token.text, at.span(token)
        else:
            last = bare.rpartition("/")[2] or bare
            name = "".join(ch if ch.isascii() and ch.isalnum() else "_" for ch in last)
            name, place = f"_{name}" if name[0].isdigit() else name, at.since(first)
        self._declare(name, place, None)
        self._check_room(place, section)
        self._at = _Body(name, section, is_global=True, prototype=_PROGRAM, span=span)
        self._bodies.append(self._at)

    # func = ".func" name [","] ["static" | "global"] ["," type]
    def _func(self, at: Tokens, span: Span) -> None:
        name = self._name(at, "the name of the function")
        prototype = _FUNCTION
        at.accept(",")
        is_global = at.accept("global")
        known = is_global or at.accept("static")
        if at.accept(",") if known else at.peek().kind != "end":
            first = at.peek()
            t = self._types.type(at)
            if not isinstance(t, Func):
                hint = "such as int (u32 value)"
                raise at.error(at.since(first), "this is no type of a function", hint)
            prototype = t
        self._declare(name.text, at.span(name), Outside.FUNCTION)
        self._at = _Body(name.text, TEXT, is_global, prototype, span)
        self._bodies.append(self._at)

    def _map(self, at: Tokens, span: Span) -> None:
        name = self._name(at, "the name of the map")
        self._declare(name.text, at.span(name), Outside.MAP)
        found = MapReader(self._types, self._maps).read(at, name.text, span)
        self._maps[name.text] = found

    # extern = ".extern" name ["," type] ["," "kconfig"] ["," "weak"]
    def _extern(self, at: Tokens, _: Span) -> None:
        name = self._name(at, "the name of what is extern")
        t: Type = VOID
        weak = kconfig = False
        while at.accept(","):
            if at.accept("weak"):
                weak = True
            elif at.accept("kconfig"):
                kconfig = True
            else:
                t = self._types.type(at)
        found = Extern(name.text, t, weak, kconfig)
        if kconfig and found.outside is Outside.KFUNC:
            raise at.error(name, "an option of the kernel is no function")
        if kconfig and t == VOID:
            hint = f".extern {name.text}, int, kconfig"
            raise at.error(name, "an option of the kernel needs a type", hint)
        self._declare(name.text, at.span(name), found.outside)
        self._externs[name.text] = found

    # struct = ".struct" name fields
    def _struct(self, at: Tokens, _: Span) -> None:
        name = self._name(at, "the name of the structure")
        if name.text in self._structs:
            raise at.error(name, f"struct {name.text} is defined twice")
        found = self._types.fields(at, name.text)
        self._structs[name.text] = found
        known = self._constants.known
        known[f"sizeof({name.text})"] = found.size
        known.update((f"{name.text}.{one.name}", one.offset) for one in found.fields)

    # license = ".license" string
    def _license(self, at: Tokens, _: Span) -> None:
        token = at.next()
        found = unescape(token.text[1:-1]) if token.kind == "string" else None
        if found is None:
            raise at.expected('a string such as "GPL"', token)
        if self._licence is not None:
            raise at.error(token, "there are two licences")
        self._licence = found.decode("utf-8", "replace")

    # --- the third round --------------------------------------------------------------------------

    def _functions(self) -> Iterator[Function]:
        for name, extern in self._externs.items():
            self._symbols.setdefault(name, extern.outside)
        for body in self._bodies:
            if len(self.faults) >= FAULTS_AT_MOST:
                return
            before = len(self.faults)
            program = assemble_items(
                body.items, self.faults, constants=self._constants, outside=self._symbols
            )
            if body.span is not None and not any(isinstance(i, Statement) for i in body.items):
                self.faults.append(Diagnostic(f"{body.name} has no instructions", body.span))
            if body.section and len(self.faults) == before:
                self.faults += self._refused(program)
            yield Function(
                body.name, body.section, body.is_global, body.prototype, program, body.span
            )

    def _refused(self, program: Program) -> Iterator[Diagnostic]:
        """Yield what instructions of an object's function refer to, but cannot."""
        for one, span in zip(program.insns, program.spans, strict=True):
            if one.op in _CALLS and one.symbol is None:
                hint = "a linker may put functions in another order: name them by .func"
                yield Diagnostic("this calls a distance, not a function", span, (hint,))
            elif one.symbol is None:
                continue
            elif one.op in _CALLS and one.symbol not in self._symbols:
                hint = f"begin it with '.func {one.symbol}'"
                yield Diagnostic(f"{one.symbol} is a label, and no function", span, (hint,))
            elif one.op.name.startswith("lddw_map") and one.symbol not in self._symbols:
                near = did_you_mean(one.symbol, [*self._maps])
                yield Diagnostic(f"there is no map '{one.symbol}'{near}", span)

    def _check_values(self) -> None:
        """Check that what maps hold from the start is there."""
        programs = {body.name for body in self._bodies if body.section not in {"", TEXT}}
        for one in self._maps.values():
            names = self._maps.keys() if one.inner is not None else programs
            what = "map" if one.inner is not None else "program"
            for _, name in one.values:
                if name not in names:
                    near = did_you_mean(name, names)
                    self.faults.append(Diagnostic(f"there is no {what} '{name}'{near}", one.span))


# section = string | tokens up to "," that no blank parts
def _section(at: Tokens) -> str:
    first = at.peek()
    if first.kind == "string":
        found = unescape(at.next().text[1:-1])
        return found.decode("utf-8", "replace") if found is not None else ""
    while at.peek().kind != "end" and at.peek().text != ",":
        if at.next().end != at.peek().start and at.peek().text not in {",", ""}:
            raise at.error(at.peek(), "the name of a section has no blanks", "or is in quotes")
    if at.peek() is first:
        raise at.expected("the name of a section such as xdp or kprobe/vfs_read", first)
    return at.since(first).text


def _warnings(function: Function) -> Iterator[Diagnostic]:
    program = function.program
    if program.insns and program.spans and program.insns[-1].op not in _LAST:
        name = f"{function.name or 'the program'} goes on behind its last instruction"
        hint = "end it with exit or goto"
        yield Diagnostic(name, program.spans[-1], (hint,), Severity.WARNING)
