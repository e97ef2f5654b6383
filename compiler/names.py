"""Type a name: ast.Name and a Scope in, what it stands for out.

A name stands for a map without keys, a fact about the event, or (``$name``) a constant that is
given from outside.
"""

from __future__ import annotations

import re

from pybpf.compiler import ast, tast
from pybpf.compiler.builtins import CALLABLE, VALUES
from pybpf.compiler.builtins.values import FOUND, HEX, SYMBOL
from pybpf.compiler.convert import literal_type, text_of
from pybpf.compiler.entries import entry
from pybpf.compiler.foreign import foreign_name
from pybpf.compiler.providers import PROVIDERS, row_of
from pybpf.compiler.scope import NotYetKnown, Refused, Scope, fault
from pybpf.script import Provider
from pybpf.source import Span
from pybpf.suggest import did_you_mean
from pybpf.target.target import LATER
from pybpf.types import LONG, ULONG, Field, Ptr, Space, Struct, Type, struct_of

ARGUMENT = re.compile(r"arg(0|[1-9][0-9]{0,3})")
_LAST_ARGUMENT = 63
"""Functions of more arguments do not exist, and offsets into the stack must stay small."""

# What strtoll takes with base 0, in which ply reads the environment. Digits are bounded, as int()
# is slow on many; longer numbers fit no type.
_NUMBER = re.compile(r"\s*([-+]?)(0[xX][0-9a-fA-F]{1,40}|0[0-7]{0,40}|[1-9][0-9]{0,40})")


def named(scope: Scope, expr: ast.Name) -> tast.Expr:
    """Type a name that stands for a value."""
    name = expr.name
    if name.startswith("$"):
        return _given(scope, expr)
    if name in scope.maps.uses:
        return variable(scope, name, expr.span)
    found = event_value(scope, name, expr.span)
    if found is None:
        raise unknown(scope, expr, "variable")
    return found


def variable(scope: Scope, name: str, span: Span) -> tast.Expr:
    """Type a map's name without brackets: its only value, as the map has no keys."""
    use = scope.maps.uses[name]
    if use.keys is None:
        raise NotYetKnown(name, span)
    if use.keys:
        count = f"{len(use.keys)} key{'s' * (len(use.keys) != 1)}"
        raise fault(span, f"'{name}' is a map with {count}: say which entry, as in {name}[…]")
    return entry(use, (), span)


def event_value(scope: Scope, name: str, span: Span) -> tast.Expr | None:
    """Return the built-in value of that name in this probe, or None where there is none."""
    if row := VALUES.get(name):
        return tast.Context(row.name, row.type, span)
    arch, fields = scope.target.arch, row_of(scope.probe.provider).fields
    if name == "data" and scope.probe.provider is Provider.EPROBE:
        return _recorded(scope, span)
    if name == "data" and name in fields:
        return tast.Context("ctx", Ptr(_record(scope), Space.CTX), span)
    if name == "regs" and name in fields:
        return tast.Context("ctx", Ptr(arch.regs, Space.CTX), span)
    if name == "caller" and name in fields:
        return _register(scope, arch.ip, SYMBOL, span)
    if name == "retval" and name in fields:
        return _register(scope, arch.retval, LONG, span)
    if (match := ARGUMENT.fullmatch(name)) and "arg" in fields:
        return _argument(scope, int(match[1]), span)
    return None


def _argument(scope: Scope, number: int, span: Span) -> tast.Expr:
    arch = scope.target.arch
    if number < len(arch.arguments):
        return _register(scope, arch.arguments[number], HEX, span)
    if arch.stack_arguments is None or number > _LAST_ARGUMENT:
        raise fault(span, f"where arg{number} lies is not known on {arch.name}")
    offset = arch.stack_arguments + 8 * (number - len(arch.arguments))
    return tast.Deref(_register(scope, arch.sp, ULONG, span), offset, Space.KERNEL, HEX, span)


def _register(scope: Scope, name: str, t: Type, span: Span) -> tast.Expr:
    found = scope.target.arch.regs.field(name)
    assert found is not None, "the table of registers names its own"
    return tast.CtxField(found.offset, t, span)


def _record(scope: Scope) -> Struct:
    """Return the record of the probe's tracepoint as a struct.

    The common fields are left out: the kernel hides the start of the record from programs.
    """
    layout = scope.format
    assert layout is not None, "tracepoint probes have a format"
    if layout.name not in scope.records:
        fields = [f for f in layout.fields if not f.common]
        size = max((f.offset + f.size for f in fields), default=8)
        placed = tuple(Field(f.name, f.type, f.offset) for f in fields)
        scope.records[layout.name] = Struct(layout.name, placed, size, 8)
    return scope.records[layout.name]


def _recorded(scope: Scope, span: Span) -> tast.Expr:
    """Return the address of what an eprobe would record: a struct that is made where it is used."""
    found = scope.eprobes[scope.probe.definition]
    name = scope.probe.tracepoint.replace("/", ".")
    fields = [(field, value.type) for field, value in found.values.items()]
    struct = struct_of(name, fields, align=8)
    parts = tast.Parts(tuple(found.values.values()), struct, span)
    return tast.AddressOf(parts, Ptr(struct, Space.CTX), span)


def _given(scope: Scope, expr: ast.Name) -> tast.Expr:
    """Return the constant that an environment variable holds: a number if it reads as one.

    What is not known yet is a value that the run finds in a map.
    """
    found = scope.target.environment.get(expr.name[1:], "")
    if found == LATER:
        return tast.Context(FOUND.name, FOUND.type, expr.span)
    text = found.encode("utf-8", "surrogateescape")
    if match := _NUMBER.fullmatch(found):
        digits = match[2]
        base = 16 if digits[:2].lower() == "0x" else 8 if digits.startswith("0") else 10
        number = int(digits, base)
        number = -number if match[1] == "-" else number
        if -(2**63) <= number < 2**64:
            return tast.Const(number, literal_type(number, decimal=base == 10), expr.span, text)
    return text_of(text, expr.span)


def unknown(scope: Scope, name: ast.Name, kind: str) -> Refused:
    """Return the fault that ``name`` is no ``kind`` here, with the nearest names there are."""
    provider = scope.probe.provider
    field = "arg" if ARGUMENT.fullmatch(name.name) else name.name
    if owners := [str(row.provider) for row in PROVIDERS if field in row.fields]:
        where = f"{name.name} exists in {' and '.join(owners)} probes only"
        if name.name == field == "arg":
            where = "the arguments of a function are arg0, arg1, … (in kprobe probes)"
        return fault(name.span, f"unknown variable '{name.name}' in {provider}", where)
    message = f"unknown {kind} '{name.name}' in {provider}"
    if advice := foreign_name(name.name):
        return fault(name.span, message, advice)
    own = row_of(provider).fields
    known = [*CALLABLE, *VALUES]
    if kind == "variable":
        arguments = [f"arg{n}" for n in range(len(scope.target.arch.arguments)) if "arg" in own]
        known = [*VALUES, *own - {"arg"}, *scope.maps.uses, *arguments]
    return fault(name.span, f"{message}{did_you_mean(name.name, known)}")
