"""Lower a typed probe to basic blocks over virtual registers: tast.Probe in, ir.Function out.

Statements are here; ``values`` computes scalars and conditions, ``memory`` fills memory with
strings, structs and keys. A scalar is held extended to 64 bits by its own type throughout.
"""

from __future__ import annotations

from pybpf.compiler import ir, tast
from pybpf.compiler.builder import Builder
from pybpf.compiler.constants import place_of
from pybpf.compiler.lowering.memory import into, key_of
from pybpf.compiler.lowering.state import Lowering
from pybpf.compiler.lowering.values import branch, scalar
from pybpf.compiler.runtime import (
    ANY,
    ZERO,
    count_failure,
    count_if_negative,
    leave_unless_in_cgroup,
    reserve,
    submit,
    word,
)
from pybpf.script import STACK_ERRORS, MapRole, Provider
from pybpf.target.target import Target
from pybpf.types import Int, size_of, strip

_WITHOUT_TASK = frozenset({Provider.BEGIN, Provider.END, Provider.INTERVAL})
"""Probes that are not about the task they interrupt."""


def lower(
    script: tast.TypedScript, probe: tast.Probe, target: Target, *, cgroup: bool = False
) -> ir.Function:
    """Return the code of one probe; raises SourceError where that is too long for a program.

    ``cgroup``: what happens to tasks outside the run's cgroup is ignored.
    """
    spec = probe.specs[0]
    b = Builder(str(spec.spec), probe.span, target.pid_namespace)
    state = Lowering(b, script, target.features, target.arch.byteorder)
    if cgroup and spec.provider not in _WITHOUT_TASK:
        leave_unless_in_cgroup(b)
    if probe.predicate is not None:
        b.span = probe.predicate.span
        body = b.label("body")
        branch(state, probe.predicate, body, b.leave_label)
        b.start(body)
    _block(state, probe.body)
    return b.finish()


def _block(state: Lowering, body: tuple[tast.Stmt, ...]) -> None:
    for stmt in body:
        _statement(state, stmt)


def _statement(state: Lowering, stmt: tast.Stmt) -> None:
    b = state.builder
    b.span = stmt.span
    match stmt:
        case tast.Return():
            b.leave()
        case tast.If():
            _if(state, stmt)
        case tast.Evaluate():
            _evaluate(state, stmt.expr)
        case tast.Delete():
            key = key_of(state, stmt.map, stmt.keys)
            b.call_void("bpf_map_delete_elem", ir.MapRef(stmt.map), key)
            state.changes(stmt.map)
        case tast.Assign():
            _assign(state, stmt)
        case tast.Aggregate():
            _aggregate(state, stmt)
        case tast.Emit():
            _emit(state, stmt)


def _if(state: Lowering, stmt: tast.If) -> None:
    b = state.builder
    b.span = stmt.condition.span
    then, done = b.label("then"), b.label("endif")
    otherwise = b.label("else") if stmt.otherwise else done
    branch(state, stmt.condition, then, otherwise)
    b.start(then)
    _block(state, stmt.then)
    if stmt.otherwise:
        b.goto(done)
        b.start(otherwise)
        _block(state, stmt.otherwise)
    b.start(done)


def _evaluate(state: Lowering, expr: tast.Expr) -> None:
    if isinstance(strip(expr.type), Int):
        scalar(state, expr)


def _assign(state: Lowering, stmt: tast.Assign) -> None:
    b = state.builder
    decl = state.script.map(stmt.map)
    size = size_of(decl.value)
    # The value first: it may read the same map, and its slots are free again for the key.
    slot = ir.SlotRef(b.slot(size))
    into(state, stmt.value, slot, 0, size, clean=True)
    key = key_of(state, stmt.map, stmt.keys)
    b.comment(f"{stmt.map}[…] = …")
    result = b.call("bpf_map_update_elem", ir.MapRef(stmt.map), key, slot, ANY)
    state.changes(stmt.map)
    full, done = b.label("full"), b.label("stored")
    # Before Linux 6.4 map operations return an int: the upper half of r0 is not its sign.
    b.branch(ir.Cmp.SLT, result, 0, full, done, width=32)
    b.start(full)
    count_failure(b, state.failures(stmt.map))
    b.start(done)


def _aggregate(state: Lowering, stmt: tast.Aggregate) -> None:
    """Look the entry up once and change this CPU's value in place; insert it where it is missing.

    No other program runs on this CPU in between, and of a per-CPU map an update sets this CPU's
    value only: where another CPU inserted the entry in the meantime, nothing is lost.
    """
    b = state.builder
    decl = state.script.map(stmt.map)
    amount = scalar(state, stmt.value)
    if decl.constants:
        _aggregate_element(state, stmt, decl, amount)
        return
    key = key_of(state, stmt.map, stmt.keys)
    b.comment(f"{stmt.map}[…] = {stmt.role}(…)")
    entry = b.call("bpf_map_lookup_elem", ir.MapRef(stmt.map), key)
    missing, found, done = b.label("missing"), b.label("found"), b.label("counted")
    b.branch(ir.Cmp.EQ, entry, 0, missing, found)
    if decl.role is MapRole.QUANTIZE:
        _quantize(state, stmt, key, entry, (missing, found), amount)
        return
    b.start(found)
    b.store(entry, 0, 8, b.bin(ir.BinOp.ADD, b.load(entry, 0, 8), amount))
    b.goto(done)
    b.start(missing)
    first = _first(state, amount)
    result = b.call("bpf_map_update_elem", ir.MapRef(stmt.map), key, first, ANY)
    count_if_negative(b, state.failures(stmt.map), result)
    b.start(done)


def _first(state: Lowering, amount: ir.Operand) -> ir.Argument:
    """Return the address of the value that an entry begins with; there is a 1 in a map already."""
    b = state.builder
    if amount == 1:
        return word(b, state.one)
    slot = ir.SlotRef(b.slot(8))
    b.store(slot, 0, 8, amount)
    return slot


def _quantize(
    state: Lowering,
    stmt: tast.Aggregate,
    key: ir.SlotRef,
    entry: ir.VReg,
    ways: tuple[ir.Label, ir.Label],
    amount: ir.Operand,
) -> None:
    """Go on with a histogram's entry: a missing one is inserted empty, then looked up again."""
    b = state.builder
    missing, found = ways
    full, done = b.label("full"), b.label("counted")
    target = ir.MapRef(stmt.map)
    b.start(missing)
    zero = b.register()
    b.add(ir.MapValueAddr(zero, ZERO))
    b.call_void("bpf_map_update_elem", target, key, zero, ANY)
    b.copy(b.call("bpf_map_lookup_elem", target, key), entry)
    b.branch(ir.Cmp.EQ, entry, 0, full, found)
    b.start(found)
    _add_to_bucket(state, stmt, entry, amount)
    b.goto(done)
    b.start(full)
    count_failure(b, state.failures(stmt.map))
    b.start(done)


def _aggregate_element(
    state: Lowering, stmt: tast.Aggregate, decl: tast.MapDecl, amount: ir.Operand
) -> None:
    """Change an element of an array; every element is there, which only the verifier doubts."""
    b = state.builder
    place = place_of(decl, stmt.keys, state.byteorder)
    assert place is not None, "the map is an array"
    b.comment(f"{stmt.map}[…] = {stmt.role}(…)")
    index = ir.SlotRef(b.slot(4))
    number: ir.Operand = decl.constants.index(place.constant)
    if place.stack:
        number = b.bin(ir.BinOp.ADD, scalar(state, place.stack), STACK_ERRORS, 32)
    b.store(index, 0, 4, number)
    entry = b.call("bpf_map_lookup_elem", ir.MapRef(stmt.map), index)
    found, done = b.label("found"), b.label("counted")
    b.branch(ir.Cmp.EQ, entry, 0, done, found)
    b.start(found)
    if decl.role is MapRole.QUANTIZE:
        _add_to_bucket(state, stmt, entry, amount)
    else:
        b.store(entry, 0, 8, b.bin(ir.BinOp.ADD, b.load(entry, 0, 8), amount))
    if decl.role is MapRole.SUM:
        b.store(entry, 8, 8, 1)
    b.start(done)


def _add_to_bucket(
    state: Lowering, stmt: tast.Aggregate, entry: ir.VReg, amount: ir.Operand
) -> None:
    b = state.builder
    bucket = _bucket(state, amount, stmt.value)
    place = b.bin(ir.BinOp.ADD, entry, b.bin(ir.BinOp.LSH, bucket, 3))
    b.store(place, 0, 8, b.bin(ir.BinOp.ADD, b.load(place, 0, 8), 1))


def _bucket(state: Lowering, value: ir.Operand, expr: tast.Expr) -> ir.VReg:
    """Return the bucket of a value: its binary logarithm; 0 for 0, the top one for negatives."""
    b = state.builder
    t = strip(expr.type)
    bits, signed = (t.bits, t.signed) if isinstance(t, Int) else (64, False)
    v, bucket = b.copy(value), b.copy(0)
    done = b.label("bucket")
    if signed:
        negative, positive = b.label("negative"), b.label("positive")
        b.branch(ir.Cmp.SLT, v, 0, negative, positive)
        b.start(negative)
        b.copy(bits - 1, bucket)
        b.goto(done)
        b.start(positive)
    step = bits // 2
    while step:
        large, small = b.label("large"), b.label("small")
        b.branch(ir.Cmp.GT, v, (1 << step) - 1, large, small)
        b.start(large)
        b.copy(b.bin(ir.BinOp.RSH, v, step), v)
        b.copy(b.bin(ir.BinOp.ADD, bucket, step), bucket)
        b.start(small)
        step //= 2
    b.start(done)
    return bucket


def _emit(state: Lowering, stmt: tast.Emit) -> None:
    """Send a record: scalars are computed first, then the rest is written where it will lie."""
    b = state.builder
    schema = state.script.events[stmt.event]
    size = schema.payload.size
    faults, marks = state.faults, dict(enumerate(stmt.marks))
    ready = {}
    for i, v in enumerate(stmt.values):
        if isinstance(strip(v.type), Int) or state.is_pointer(v.type):
            faults.bit = marks.get(i)
            ready[i] = scalar(state, v)
    b.comment(f"{schema.kind} #{schema.id}")
    record, done = reserve(b, size, ring=state.ring)
    b.store(record, 0, 4, schema.id)
    end = 4
    count = len(stmt.values)
    for i, field in enumerate(schema.payload.fields):
        if isinstance(record, ir.SlotRef):
            state.clear(record, end, field.offset - end)
        if i in ready:
            b.store(record, field.offset, size_of(field.type), ready[i])
        elif i >= count:
            b.store(record, field.offset, 8, faults.words.get(i - count, 0))
        else:
            faults.bit = marks.get(i)
            into(state, stmt.values[i], record, field.offset, size_of(field.type))
        end = field.offset + size_of(field.type)
    faults.bit = None
    faults.words.clear()
    if isinstance(record, ir.SlotRef):
        # The kernel copies the whole record from the stack, so no byte may be unset.
        state.clear(record, end, size - end)
    submit(b, record, size, done)
