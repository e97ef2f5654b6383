"""Lower scalars and conditions: tast.Expr in, an operand or a branch out."""

from __future__ import annotations

from pybpf.compiler import ir, tast
from pybpf.compiler.builtins.values import LOWERED
from pybpf.compiler.convert import as_int
from pybpf.compiler.lowering import memory
from pybpf.compiler.lowering.patterns import matches
from pybpf.compiler.lowering.state import Lowering, is_steady, pieces
from pybpf.compiler.lowering.strings import difference, equal
from pybpf.types import Int, Ptr, Space, Type, size_of, strip

_SIGN = 1 << 63

_ARITH = {
    "+": ir.BinOp.ADD,
    "-": ir.BinOp.SUB,
    "*": ir.BinOp.MUL,
    "/": ir.BinOp.DIV,
    "%": ir.BinOp.MOD,
    "&": ir.BinOp.AND,
    "|": ir.BinOp.OR,
    "^": ir.BinOp.XOR,
    "<<": ir.BinOp.LSH,
    ">>": ir.BinOp.RSH,
}
_SIGNED = {
    ir.BinOp.DIV: ir.BinOp.SDIV,
    ir.BinOp.MOD: ir.BinOp.SMOD,
    ir.BinOp.RSH: ir.BinOp.ARSH,
}
_COMPARE = {
    "==": (ir.Cmp.EQ, ir.Cmp.EQ),
    "!=": (ir.Cmp.NE, ir.Cmp.NE),
    "<": (ir.Cmp.LT, ir.Cmp.SLT),
    "<=": (ir.Cmp.LE, ir.Cmp.SLE),
    ">": (ir.Cmp.GT, ir.Cmp.SGT),
    ">=": (ir.Cmp.GE, ir.Cmp.SGE),
}
_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def scalar(state: Lowering, expr: tast.Expr) -> ir.Operand:
    """Return the value of a scalar expression, extended to 64 bits by its type."""
    b = state.builder
    match expr:
        case tast.Const():
            return signed64(expr.value)
        case tast.Convert():
            return convert(state, scalar(state, expr.operand), expr.operand.type, expr.type)
        case tast.AddressOf() | tast.Arith() if _is_own(expr):
            return _number_of(state, expr)
        case tast.Arith():
            return _chain(state, expr)
        case tast.Negate():
            t = as_int(expr.type)
            operand = _register(state, scalar(state, expr.operand))
            result = b.register()
            b.add(ir.Neg(result, 32 if t.size == 4 else 64, operand))
            return _settle(state, result, t)
        case tast.Invert():
            t = as_int(expr.type)
            inverted = b.bin(ir.BinOp.XOR, scalar(state, expr.operand), -1)
            return inverted if t.signed or t.size == 8 else b.extend(inverted, 32, signed=False)
        case tast.Not() | tast.Compare() | tast.Logical() | tast.Sound():
            return _truth(state, expr)
        case tast.Like():
            return matches(state, expr)
        case tast.StrCmp():
            return difference(state, expr)
        case tast.Context():
            lower = LOWERED[expr.name].lower
            assert lower is not None, "a scalar has a lowering"
            return lower(b)
        case tast.MapValue():
            return _map_value(state, expr)
        case tast.CtxField():
            return _load(state, ir.CTX, expr.offset, expr.type)
        case tast.Deref():
            slot = ir.SlotRef(b.slot(size_of(expr.type)))
            memory.into(state, expr, slot, 0, size_of(expr.type))
            return _load(state, slot, 0, expr.type)
        case tast.Select():
            base, offset = memory.place(state, expr.object)
            return _load(state, base, offset + expr.offset, expr.type)
        case tast.Text() | tast.ReadString() | tast.DynString() | tast.Parts() | tast.AddressOf():
            raise AssertionError(f"{type(expr).__name__} is no scalar")


def address(state: Lowering, expr: tast.Expr) -> ir.Operand:
    """Return an address for a helper to read at, which may be of the program's own memory."""
    b = state.builder
    match expr:
        case tast.AddressOf():
            base, offset = memory.place(state, expr.object)
            return b.copy(b.address(base, offset))
        case tast.Arith() if _is_own(expr):
            return b.bin(ir.BinOp.ADD, address(state, expr.left), scalar(state, expr.right))
        case _:
            return scalar(state, expr)


def _is_own(expr: tast.Expr) -> bool:
    """Whether the value is an address of the context or the stack, or one that is so far off it."""
    while isinstance(expr, tast.Arith) and expr.op == "+":
        expr = expr.left
    return isinstance(expr, tast.AddressOf)


def _number_of(state: Lowering, expr: tast.Expr) -> ir.VReg:
    """Return an address as a plain number, which the verifier lets one compute with.

    It forgets what a number was where a helper has copied it.
    """
    b = state.builder
    held, plain = ir.SlotRef(b.slot(8)), ir.SlotRef(b.slot(8))
    b.store(held, 0, 8, address(state, expr))
    b.call_void(state.read_helper(Space.KERNEL, text=False), plain, 8, held)
    return b.load(plain, 0, 8)


def signed64(value: int) -> int:
    """Return the constant as the IR writes it: a signed 64-bit number."""
    value &= 2 * _SIGN - 1
    return value - 2 * _SIGN if value & _SIGN else value


def _register(state: Lowering, operand: ir.Operand) -> ir.VReg:
    return state.builder.copy(operand) if isinstance(operand, int) else operand


def convert(state: Lowering, operand: ir.Operand, source: Type, target: Type) -> ir.Operand:
    """Return an operand of one type as another, extending it only where its form changes."""
    s, t = as_int(source), as_int(target)
    widens = t.size > s.size and (t.signed or not s.signed)
    if t.size == 8 or s == t or widens:
        return operand
    return state.builder.extend(operand, t.bits, signed=t.signed)


def _settle(state: Lowering, result: ir.VReg, t: Int) -> ir.VReg:
    """Return a 32-bit result extended by its type; the hardware leaves the upper half zero."""
    narrow = t.size == 4 and t.signed
    return state.builder.extend(result, 32, signed=True) if narrow else result


def _chain(state: Lowering, expr: tast.Arith) -> ir.Operand:
    """Lower arithmetic whose left sides may be thousands deep, without recursion."""
    chain: list[tast.Arith] = []
    first: tast.Expr = expr
    while isinstance(first, tast.Arith):
        chain.append(first)
        first = first.left
    left = scalar(state, first)
    for node in reversed(chain):
        left = _arith(state, node, left, scalar(state, node.right))
    return left


def _arith(state: Lowering, node: tast.Arith, left: ir.Operand, right: ir.Operand) -> ir.Operand:
    b, t = state.builder, as_int(node.type)
    op, width = _ARITH[node.op], t.bits
    if t.signed:
        op = _SIGNED.get(op, op)
    if op in (ir.BinOp.LSH, ir.BinOp.RSH, ir.BinOp.ARSH) and isinstance(right, int):
        right &= width - 1
    if op in (ir.BinOp.DIV, ir.BinOp.SDIV) and right == 0:
        return 0
    if op in (ir.BinOp.MOD, ir.BinOp.SMOD) and right == 0:
        return left
    if op in (ir.BinOp.AND, ir.BinOp.OR, ir.BinOp.XOR):
        # Both sides are extended alike, so the 64-bit result is extended already.
        return b.bin(op, left, right, 64)
    return _settle(state, b.bin(op, left, right, width), t)


def _truth(state: Lowering, expr: tast.Expr) -> ir.Operand:
    """Return 0 or 1 for a condition.

    It is computed where it can be, as the verifier follows both ways of every branch.
    """
    b = state.builder
    match expr:
        case tast.Const():
            return int(expr.value != 0)
        case tast.Not():
            return b.bin(ir.BinOp.XOR, _truth(state, expr.operand), 1)
        case tast.Logical(op="^^"):
            first, *rest = _parts(expr)
            result = _truth(state, first)
            for part in rest:
                result = b.bin(ir.BinOp.XOR, result, _truth(state, part))
            return result
        case tast.Compare(op="==" | "!=", left=left, right=right) if not (
            isinstance(left, tast.StrCmp) or _is_address(left) or _is_address(right)
        ):
            differ = b.bin(ir.BinOp.XOR, scalar(state, left), scalar(state, right))
            result = _is_set(state, differ)
            return b.bin(ir.BinOp.XOR, result, 1) if expr.op == "==" else result
        case tast.Compare() | tast.Logical() | tast.StrCmp() | tast.Sound():
            return _chosen(state, expr)
        case _:
            return (
                _chosen(state, expr) if _is_address(expr) else _is_set(state, scalar(state, expr))
            )


def _is_set(state: Lowering, operand: ir.Operand) -> ir.VReg:
    """Return 0 for 0, and 1 for all else: the sign of ``x | -x``."""
    b = state.builder
    value, negative = _register(state, operand), b.register()
    b.add(ir.Neg(negative, 64, value))
    return b.bin(ir.BinOp.RSH, b.bin(ir.BinOp.OR, value, negative), 63)


def _is_address(expr: tast.Expr) -> bool:
    """Whether the value is the context's address, which programs may compare but not change."""
    while isinstance(expr, tast.Convert):
        expr = expr.operand
    return isinstance(expr, tast.Context) and isinstance(strip(expr.type), Ptr)


def _chosen(state: Lowering, expr: tast.Expr) -> ir.VReg:
    b = state.builder
    yes, no, done = b.label("yes"), b.label("no"), b.label("truth")
    result = b.register()
    branch(state, expr, yes, no)
    b.start(yes)
    b.copy(1, result)
    b.goto(done)
    b.start(no)
    b.copy(0, result)
    b.start(done)
    return result


def branch(state: Lowering, expr: tast.Expr, then: ir.Label, otherwise: ir.Label) -> None:
    """End the block: go to ``then`` where ``expr`` is not zero, else to ``otherwise``."""
    b = state.builder
    match expr:
        case tast.Const():
            b.goto(then if expr.value else otherwise)
        case tast.Not():
            branch(state, expr.operand, otherwise, then)
        case tast.Logical():
            _logical(state, expr, then, otherwise)
        case tast.Sound():
            _sound(state, expr, then, otherwise)
        case tast.StrCmp():
            equal(state, expr, otherwise, then)
        case tast.Compare(op="==", left=tast.StrCmp() as compared, right=tast.Const(value=0)):
            equal(state, compared, then, otherwise)
        case tast.Compare(op="!=", left=tast.StrCmp() as compared, right=tast.Const(value=0)):
            equal(state, compared, otherwise, then)
        case tast.Compare():
            op, left, right = expr.op, scalar(state, expr.left), scalar(state, expr.right)
            if isinstance(left, int) and not isinstance(right, int):
                op, left, right = _MIRRORED[op], right, left
            signed = as_int(expr.left.type).signed
            cmp = _COMPARE[op][signed]
            b.branch(cmp, _register(state, left), right, then, otherwise)
        case _:
            b.branch(ir.Cmp.NE, _register(state, scalar(state, expr)), 0, then, otherwise)


def _parts(expr: tast.Logical) -> list[tast.Expr]:
    """Return the operands of a chain of one operator, which leans left and may be long."""
    parts: list[tast.Expr] = []
    first: tast.Expr = expr
    while isinstance(first, tast.Logical) and first.op == expr.op:
        parts.append(first.right)
        first = first.left
    return [first, *reversed(parts)]


def _logical(state: Lowering, expr: tast.Logical, then: ir.Label, otherwise: ir.Label) -> None:
    b = state.builder
    if expr.op == "^^":
        b.branch(ir.Cmp.NE, _register(state, _truth(state, expr)), 0, then, otherwise)
        return
    parts = _parts(expr)
    for part in parts[:-1]:
        following = b.label("and" if expr.op == "&&" else "or")
        if expr.op == "&&":
            branch(state, part, following, otherwise)
        else:
            branch(state, part, then, following)
        b.start(following)
    branch(state, parts[-1], then, otherwise)


def _sound(state: Lowering, expr: tast.Sound, then: ir.Label, otherwise: ir.Label) -> None:
    b, faults = state.builder, state.faults
    before = faults.bit, dict(faults.words)
    faults.bit = 0
    faults.words.clear()
    holds = b.label("holds")
    branch(state, expr.operand, holds, otherwise)
    b.start(holds)
    failed = faults.words.get(0)
    faults.bit, words = before
    faults.words.clear()
    faults.words.update(words)
    if failed is None:
        b.goto(then)
    else:
        b.branch(ir.Cmp.EQ, failed, 0, then, otherwise)


def _map_value(state: Lowering, expr: tast.MapValue) -> ir.Operand:
    """Return the value of an entry, as it was found before if the program changed nothing since."""
    if not is_steady(expr.keys):
        return _look_up(state, expr)
    what = expr, state.writes.get(expr.map, 0)
    return state.builder.once(what, lambda: _look_up(state, expr))


def _look_up(state: Lowering, expr: tast.MapValue) -> ir.Operand:
    b = state.builder
    key = memory.key_of(state, expr.map, expr.keys)
    entry = b.call("bpf_map_lookup_elem", ir.MapRef(expr.map), key)
    result = b.register()
    found, missing, done = b.label("found"), b.label("missing"), b.label("value")
    b.branch(ir.Cmp.NE, entry, 0, found, missing)
    b.start(found)
    t = as_int(expr.type)
    b.add(ir.Load(result, entry, 0, t.size, t.signed))
    b.goto(done)
    b.start(missing)
    b.copy(0, result)
    b.start(done)
    return result


def _load(state: Lowering, base: ir.Base, offset: int, t: Type) -> ir.Operand:
    """Load a scalar; one that is not aligned is put together from its parts."""
    b, n = state.builder, as_int(t) if not isinstance(strip(t), Int) else strip(t)
    size = size_of(t)
    signed = isinstance(n, Int) and n.signed
    cuts = pieces(offset, size)
    if len(cuts) == 1:
        return b.load(base, offset, size, signed=signed)
    whole: ir.Operand = 0
    for at, width in cuts:
        shift = 8 * (at - offset if state.byteorder == "little" else offset + size - at - width)
        part: ir.Operand = b.load(base, at, width)
        if shift:
            part = b.bin(ir.BinOp.LSH, part, shift)
        whole = part if whole == 0 else b.bin(ir.BinOp.OR, whole, part)
    return b.extend(whole, 8 * size, signed=signed) if size < 8 else whole
