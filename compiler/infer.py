"""Infer: syntax tree and Target in, TypedScript out; reports every fault it finds.

Map types depend on every use of a map, so the walk is repeated until they no longer change; types
only ever widen, so it ends. The last walk, with all types known, reports faults and makes the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pybpf.compiler import ast, tast
from pybpf.compiler.builtins import RESERVED
from pybpf.compiler.builtins.functions import STRING_SIZE
from pybpf.compiler.constants import with_constants
from pybpf.compiler.expressions import condition
from pybpf.compiler.foreign import foreign_provider
from pybpf.compiler.maptypes import MapTypes
from pybpf.compiler.names import ARGUMENT
from pybpf.compiler.providers import PROVIDERS, find
from pybpf.compiler.scope import Failure, NotYetKnown, Refused, Scope
from pybpf.compiler.statements import statement
from pybpf.dataclass import dataclass, field, replace
from pybpf.errors import Diagnostic, ScriptTypeError, TargetError
from pybpf.script import ProbeSpec, Provider
from pybpf.source import Span
from pybpf.suggest import did_you_mean
from pybpf.target.target import Target
from pybpf.types import INT

if TYPE_CHECKING:
    from pybpf.compiler.eprobes.record import Record

MOST_CLAUSES = 4096
"""Each clause is a program or more, every one of which takes file descriptors and memory."""

MOST_NODES = 1 << 17
"""How many names, constants and operations one clause may have: such code fits no program."""


@dataclass(frozen=True, slots=True)
class _Faults:
    """The faults so far, and where maps of unknown type were first used."""

    found: list[Diagnostic] = field(default_factory=list)
    unknown: dict[str, Span] = field(default_factory=dict)


_Group = tuple[ProbeSpec, ...]
"""Places that a clause is attached to and that can share a program."""


def infer(script: ast.Script, target: Target) -> tast.TypedScript:
    """Type a script for a target; raises ScriptTypeError with all faults found."""
    faults = _Faults()
    if len(script.probes) > MOST_CLAUSES:
        message = (
            f"the script has {len(script.probes)} clauses, more than the {MOST_CLAUSES} allowed"
        )
        raise ScriptTypeError(Diagnostic(message, script.probes[MOST_CLAUSES].spec_span))
    clauses = [(probe, _resolve(probe, target, faults)) for probe in script.probes]
    scope = Scope(target, _declare(script, faults))
    maps = scope.maps
    while True:
        before = maps.snapshot()
        scope.start_over()
        for probe, groups in clauses:
            for group in groups:
                _probe(scope, probe, group, _Faults())
        if maps.snapshot() == before and not maps.guess():
            break
    scope.start_over()
    typed = tuple(p for probe, groups in clauses for p in _clause(scope, probe, groups, faults))
    for name, span in faults.unknown.items():
        # Of a map that something faulty is stored in, and of what is none, that fault says enough.
        if not maps.uses[name].broken and not _is_built_in(name):
            message = f"nothing is ever stored in the map '{name}'"
            faults.found.append(Diagnostic(message, span))
    if faults.found or faults.unknown:
        raise ScriptTypeError(sorted(dict.fromkeys(faults.found), key=_start))
    decls = with_constants(maps.declarations(), typed, target.arch.byteorder)
    return tast.TypedScript(script.span.source, typed, decls, tuple(scope.events))


def _start(diagnostic: Diagnostic) -> int:
    return diagnostic.span.start if diagnostic.span else 0


def _declare(script: ast.Script, faults: _Faults) -> MapTypes:
    """Return all maps of a script, nothing known of them yet."""
    maps = MapTypes()
    for node in _nodes(script):
        if not isinstance(node, ast.Index):
            continue
        name, span = node.name.name, node.name.span
        if name not in maps.uses and _is_built_in(name):
            faults.found.append(Diagnostic(f"'{name}' is a built-in, not a map", span))
        maps.use(name, span)
    return maps


def _is_built_in(name: str) -> bool:
    return name in RESERVED or ARGUMENT.fullmatch(name) is not None


def _nodes(script: ast.Script) -> Iterator[object]:
    """Yield every node of all clauses; raises ScriptTypeError where one has too many."""
    for probe in script.probes:
        for count, node in enumerate(_walk(probe)):
            if count >= MOST_NODES:
                message = (
                    f"the clause is too long: it has more than {MOST_NODES} operations and operands"
                )
                raise ScriptTypeError(Diagnostic(message, probe.spec_span))
            yield node


def _unknown_provider(name: str, span: Span) -> Diagnostic:
    known = [str(row.provider) for row in PROVIDERS]
    there_are = f"there are {', '.join(known)}"
    if advice := foreign_provider(name):
        return Diagnostic(f"unknown provider '{name}'", span, (advice, there_are))
    return Diagnostic(f"unknown provider '{name}'{did_you_mean(name, known)}", span, (there_are,))


def _resolve(probe: ast.Probe, target: Target, faults: _Faults) -> list[_Group]:
    """Return where a clause goes.

    Tracepoints differ in their data, so each gets a program of its own, unless the clause never
    looks at it.
    """
    span = probe.spec_span
    name, _, where = probe.spec.partition(":")
    row = find(name)
    if row is None:
        faults.found.append(
            _unknown_provider(name, Span(span.source, span.start, span.start + len(name)))
        )
        return []
    try:
        specs = [replace(spec, span=span) for spec in row.resolve(where, span, target)]
    except Refused as refused:
        # What cannot be read of the target is the same for every clause: it is said once.
        said = {d.message for d in faults.found if isinstance(refused.__cause__, TargetError)}
        faults.found.extend(d for d in refused.diagnostics if d.message not in said)
        return []
    if any(isinstance(node, ast.Name) and node.name == "data" for node in _walk(probe)):
        return [(spec,) for spec in specs]
    return [tuple(specs)]


def _walk(root: object) -> Iterator[object]:
    """Yield every node below ``root``, in the order of the text."""
    stack: list[object] = [root]
    while stack:
        node = stack.pop()
        yield node
        match node:
            case ast.Script(probes=probes):
                stack.extend(reversed(probes))
            case ast.Probe(predicate=predicate, body=body):
                stack.extend((body, predicate))
            case ast.Block(body=statements):
                stack.extend(reversed(statements))
            case ast.If(condition=test, then=then, otherwise=otherwise):
                stack.extend((otherwise, then, test))
            case ast.Delete(target=index):
                stack.append(index)
            case ast.Assign(target=index, value=assigned):
                stack.extend((assigned, index))
            case ast.ExprStmt(expr=expr):
                stack.append(expr)
            case ast.Call(name=name, args=args):
                stack.extend((*reversed(args), name))
            case ast.Index(keys=operands):
                stack.extend(reversed(operands))
            case ast.Member(object=inner) | ast.Unary(operand=inner):
                stack.append(inner)
            case ast.Element(object=inner, index=position):
                stack.extend((position, inner))
            case ast.Binary(left=left, right=right):
                stack.extend((right, left))
            case _:
                pass


def _clause(
    scope: Scope, probe: ast.Probe, groups: Iterable[_Group], faults: _Faults
) -> list[tast.Probe]:
    """Type a clause for each of its groups; a fault that several of them have is reported once."""
    typed: list[tast.Probe] = []
    # By the place of a fault: which group had it first, and how many others had one there too.
    first: dict[Span | None, tuple[_Group, list[Diagnostic]]] = {}
    others: dict[Span | None, int] = {}
    for group in groups:
        found: list[Diagnostic] = []
        typed.append(_probe(scope, probe, group, _Faults(found, faults.unknown)))
        for span in dict.fromkeys(d.span for d in found):
            if span in first:
                others[span] = others.get(span, 0) + 1
            else:
                first[span] = group, [d for d in found if d.span == span]
    for span, (_, found) in first.items():
        if count := others.get(span, 0):
            more = f"so it is for {count} more of the events that '{probe.spec}' matches"
            faults.found.extend(replace(d, hints=(*d.hints, more)) for d in found)
        else:
            faults.found.extend(found)
    return typed


def _probe(scope: Scope, probe: ast.Probe, group: _Group, faults: _Faults) -> tast.Probe:
    scope.spec = spec = group[0]
    scope.format = None
    if spec.provider is Provider.TRACEPOINT:
        try:
            scope.format = scope.target.event_format(spec.tracepoint)
        except TargetError as error:
            faults.found.append(Diagnostic(error.message, probe.spec_span, error.hints))
            return tast.Probe(group, None, (), probe.span)
    predicate = None
    if spec.provider is Provider.EPROBE:
        try:
            predicate = _eprobe(scope, spec, probe.spec_span).condition
        except TargetError as error:
            faults.found.append(Diagnostic(error.message, probe.spec_span, error.hints))
            return tast.Probe(group, None, (), probe.span)
    if probe.predicate is not None:
        try:
            own = condition(scope, probe.predicate)
            predicate = own if predicate is None else tast.Logical("&&", predicate, own, own.span)
        except (Refused, NotYetKnown) as failure:
            _note(faults, failure)
    return tast.Probe(group, predicate, _statements(scope, probe.body, faults), probe.span)


def _eprobe(scope: Scope, spec: ProbeSpec, span: Span) -> Record:
    """Return what an eprobe records; raises TargetError where the target cannot tell."""
    if spec.definition not in scope.eprobes:
        from pybpf.compiler.eprobes.definition import define
        from pybpf.compiler.eprobes.record import record

        definition = define(spec.definition, scope.target)
        scope.eprobes[spec.definition] = record(definition, scope.target, span, STRING_SIZE)
    return scope.eprobes[spec.definition]


def _note(faults: _Faults, failure: Failure) -> None:
    if isinstance(failure, Refused):
        faults.found.extend(failure.diagnostics)
    else:
        faults.unknown.setdefault(failure.name, failure.span)


def _statements(scope: Scope, stmt: ast.Stmt, faults: _Faults) -> tuple[tast.Stmt, ...]:
    """Type a statement; what cannot be typed is left out, and its faults noted."""
    match stmt:
        case ast.Block(body=body):
            typed: list[tast.Stmt] = []
            for inner in body:
                typed += _statements(scope, inner, faults)
            return tuple(typed)
        case ast.If():
            return (_if(scope, stmt, faults),)
        case _:
            try:
                return (statement(scope, stmt),)
            except (Refused, NotYetKnown) as failure:
                _note(faults, failure)
                return ()


def _if(scope: Scope, stmt: ast.If, faults: _Faults) -> tast.Stmt:
    test: tast.Expr
    try:
        test = condition(scope, stmt.condition)
    except (Refused, NotYetKnown) as failure:
        _note(faults, failure)
        test = tast.Const(0, INT, stmt.condition.span)
    then = _statements(scope, stmt.then, faults)
    otherwise = _statements(scope, stmt.otherwise, faults) if stmt.otherwise else ()
    return tast.If(test, then, otherwise, stmt.span)
