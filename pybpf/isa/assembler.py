"""Assembler text to a program: the C-like syntax of LLVM, bpftool and the kernel's verifier log.

Where these differ every spelling is read; ``disassembler`` says which one is written.

    memory       *(u32 *)(r1 + 8)   *(u32 *)(r1 +8)   *(u32 *)(r1 - 0x8)
    registers    r1 = *(u32 *)(r2 + 0)   w1 = *(u32 *)(r2 + 0)      one and the same
    atomics      r2 = atomic_fetch_add((u64 *)(r1 + 0), r2)   r2 = atomic64_fetch_add(…)
                 r2 = xchg_64(r1 + 0, r2)   r2 = atomic64_xchg((u64 *)(r1 + 0), r2)
                 w0 = cmpxchg32_32(r1 + 0, w0, w2)   r0 = atomic_cmpxchg((u32 *)(r1 + 0), r0, r2)
    jumps        goto +3   goto pc+3   goto +0x3 <LBB0_2>   goto L1   goto 1f   goto 1b
    calls        call 5   call bpf_ktime_get_ns   call ktime_get_ns   call bpf_ktime_get_ns#5
                 call pc+2   call sub1
                 call kernel-function#77   call kernel-function#77 fd_array[1]   callx r2
    wide loads   r1 = 0x123 ll   (18) r1 = 0x123
                 r1 = map_fd[3] ll   r1 = map[id:3]   r1 = map_fd:NAME ll   r1 = map:NAME ll
                 r1 = map_value[3] + 8 ll   r1 = map[id:3][0]+8   r1 = map_value:NAME + 8 ll
                 r1 = map_idx[0] ll   r1 = map_idx_value[0] + 8 ll   r1 = map[idx:0]+8
                 r1 = subprog:NAME ll   r1 = subprog[+5]   r1 = btf_id[7] ll   r1 = btf_id[4:7] ll

Numbers are expressions (see ``expressions``), with the names of ``uapi``. Immediates of 32-bit
operations may be unsigned. 64-bit comparisons take 0x80000000 to 0xffffffff as the bits of a
negative ``imm``, for bpftool prints so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from pybpf.dataclass import replace
from pybpf.errors import AssemblyError, Diagnostic, EncodingError
from pybpf.isa.expressions import REGISTER
from pybpf.isa.helpers import HELPER_NAMES, HELPERS
from pybpf.isa.insn import Insn, Program, insn
from pybpf.isa.layout import distances
from pybpf.isa.lexer import FAULTS_AT_MOST, Label, Statement, Token, lex
from pybpf.isa.operands import Cursor, Outside, Scope
from pybpf.isa.table import OPS, ROWS, Effect, Form, OpSpec
from pybpf.isa.uapi import CONSTANTS
from pybpf.isa.values import parse_value, parse_wide
from pybpf.source import Source
from pybpf.suggest import did_you_mean

_COMPARISONS: dict[tuple[str, int, Form], OpSpec] = {
    ("&" if op.effect is Effect.JSET else str(op.effect), op.width, op.form): op
    for op in ROWS
    if op.form in {Form.BRANCH_IMM, Form.BRANCH_REG}
}
_OPERATIONS: dict[tuple[str, int, Form], OpSpec] = {
    ("=" if op.effect is Effect.MOV else f"{op.effect}=", op.width, op.form): op
    for op in ROWS
    if op.form in {Form.ALU_IMM, Form.ALU_REG}
}
_ATOMICS = {
    (f"{op.effect}=", op.width): op for op in ROWS if op.form is Form.ATOMIC and not op.fetch
}
_STORES = {(op.width, op.form): op for op in ROWS if op.form in {Form.STORE_REG, Form.STORE_IMM}}
_CALLS = frozenset({OPS["call_local"], OPS["call_kfunc"]})
_LINKED = _CALLS | {op for op in ROWS if op.form is Form.LOAD_IMM64}
_U32 = 0xFFFFFFFF
_BEGINNINGS = (
    "call", "callx", "exit", "goto", "gotol", "if", "lock", "may_goto", "store_release",
)  # fmt: skip


def assemble(text: str, name: str = "<asm>") -> Program:
    """Return the program that assembler text describes; ``name`` is the file name in errors.

    Raises AssemblyError, which points at the first faults.
    """
    faults: list[Diagnostic] = []
    items = [*lex(Source(name, text), faults)]
    program = assemble_items(items, faults, constants=CONSTANTS)
    if faults:
        raise failure(faults)
    return program


def failure(faults: Iterable[Diagnostic]) -> AssemblyError:
    """Return the error that tells the first faults, in the order of their places."""
    ordered = sorted(faults, key=lambda fault: fault.span.start if fault.span else 0)
    return AssemblyError(ordered[:FAULTS_AT_MOST])


def assemble_items(
    items: Iterable[Label | Statement],
    faults: list[Diagnostic],
    *,
    constants: Mapping[str, int],
    outside: Mapping[str, Outside] = MappingProxyType({}),
) -> Program:
    """Return the program that labels and instructions make; see ``Scope`` for the names.

    What is wrong is added to ``faults``; the program then lacks it.
    """
    statements, scope = _scope(items, faults, constants, outside)
    cursors = [Cursor(statement, scope, index) for index, statement in enumerate(statements)]
    insns, labels = [], dict(scope.labels)
    found = len(faults)
    for cursor in cursors:
        try:
            insns.append(_statement(cursor))
        except AssemblyError as error:
            faults += error.diagnostics
            if len(faults) >= FAULTS_AT_MOST:
                break
        labels.update(cursor.used)
    spans = tuple(statement.span for statement in statements)
    program = Program(tuple(insns), MappingProxyType(labels), spans=spans)
    if len(faults) == found:
        try:
            distances(placeholders(program, outside))
        except EncodingError as error:
            faults.append(Diagnostic(error.reason, cursors[error.index].place))
    return program


def _scope(
    items: Iterable[Label | Statement],
    faults: list[Diagnostic],
    constants: Mapping[str, int],
    outside: Mapping[str, Outside],
) -> tuple[list[Statement], Scope]:
    """Return the instructions, and the names that these may use."""
    labels: dict[str, Label] = {}
    places: dict[str, int] = {}
    numbered: dict[str, list[int]] = {}
    statements: list[Statement] = []
    for item in items:
        if isinstance(item, Statement):
            statements.append(item)
        elif item.name.isdigit():
            numbered.setdefault(item.name, []).append(len(statements))
        elif (first := labels.setdefault(item.name, item)) is item:
            places[item.name] = len(statements)
        else:
            hint = f"the other one is in line {first.span.line}"
            faults.append(Diagnostic(f"two labels are {item.name!r}", item.span, (hint,)))
    return statements, Scope(places, numbered, constants, outside)


def placeholders(program: Program, outside: Mapping[str, Outside]) -> Program:
    """Return a program with numbers in place of what it refers to outside of itself.

    They are those that relocations expect: -1 in a call, the offset into data in a load.
    """
    return replace(program, insns=tuple(_placeholder(one, outside) for one in program.insns))


def _placeholder(one: Insn, outside: Mapping[str, Outside]) -> Insn:
    if one.symbol is None or one.op not in _LINKED or one.symbol not in outside:
        return one
    if one.op in _CALLS:
        return insn("call_local", imm=-1)
    return insn("lddw", one.dst, imm=one.imm >> 32 & _U32)


# statement = instruction
def _statement(at: Cursor) -> Insn:
    start = at.peek()
    found = _instruction(at)
    at.finish("instruction")
    if at.opcode is not None and at.opcode != found.op.opcode:
        raise at.error(
            start, f"this is opcode {found.op.opcode:02x}, but the line says {at.opcode:02x}"
        )
    return found


# instruction = "exit" | ("goto" | "may_goto" | "gotol") target | call | "callx" register | branch
#             | lock | store | release | assignment
def _instruction(at: Cursor) -> Insn:
    token = at.peek()
    if at.at_register():
        return _assignment(at)
    at.next()
    match token.text:
        case "exit":
            return insn("exit")
        case "goto" | "may_goto":
            distance, symbol = at.target(16)
            return insn("ja" if token.text == "goto" else "may_goto", off=distance, symbol=symbol)
        case "gotol":
            distance, symbol = at.target(32)
            return insn("gotol", imm=distance, symbol=symbol)
        case "call":
            return _call(at)
        case "callx":
            return insn("callx", at.register("r").number)
        case "if":
            return _branch(at)
        case "lock":
            return _lock(at)
        case "*":
            return _store(at)
        case "store_release":
            return _release(at)
        case _:
            near = did_you_mean(token.text, _BEGINNINGS)
            raise at.error(token, f"no instruction begins with '{token.text}'{near}")


# branch = "if" register comparison (register | number) "goto" target
def _branch(at: Cursor) -> Insn:
    dst = at.register("rw")
    comparison = at.next()
    if (comparison.text, dst.width, Form.BRANCH_REG) not in _COMPARISONS:
        raise at.expected("a comparison such as '==' or 's>'", comparison)
    src, imm, form = 0, 0, Form.BRANCH_IMM
    if at.at_register():
        src, form = at.register(dst.letter).number, Form.BRANCH_REG
    else:
        number = at.number()
        imm = at.imm(number, patterns=number.hexadecimal or dst.width == 32)
    at.expect("goto")
    distance, symbol = at.target(16)
    op = _COMPARISONS[comparison.text, dst.width, form]
    return Insn(op, dst.number, src, distance, imm, symbol)


# call = "call" (number | "pc" number ["#" name] | label | ["kfunc"] outside | helper ["#" number]
#      | "unknown" "#" number | "kernel-function" "#" number ["fd_array" "[" number "]"])
def _call(at: Cursor) -> Insn:
    token = at.peek()
    if token.kind != "word" or token.text in at.constants:
        return insn("call_helper", imm=at.imm(at.number()))
    at.next()
    if token.text == "pc":
        number = at.number()
        at.place = number.span
        if at.accept("#"):
            at.next()
        return insn("call_local", imm=at.imm(number))
    if token.text in at.labels:
        return insn("call_local", symbol=token.text)
    if token.text == "kfunc" and at.peek().kind == "word":
        token = at.next()
        if at.outside.get(token.text) is not Outside.KFUNC:
            raise at.error(token, f"no kfunc is declared as {token.text}")
    if token.text in at.outside:
        return _call_outside(at, token)
    if at.accept("#"):
        return _numbered_call(at, token)
    for name in (token.text, f"bpf_{token.text}"):
        if name in HELPERS:
            return insn("call_helper", imm=HELPERS[name])
    near = did_you_mean(token.text, [*at.labels, *at.outside, *HELPERS])
    if not near:
        near = did_you_mean(f"bpf_{token.text}", HELPERS)
    raise at.error(token, f"there is no helper and no label '{token.text}'{near}")


def _call_outside(at: Cursor, name: Token) -> Insn:
    match at.outside[name.text]:
        case Outside.FUNCTION:
            return insn("call_local", symbol=name.text)
        case Outside.KFUNC:
            return insn("call_kfunc", symbol=name.text)
        case _:
            raise at.error(name, f"{name.text} is no function")


def _numbered_call(at: Cursor, name: Token) -> Insn:
    number = at.number()
    imm = at.imm(number)
    if name.text == "kernel-function":
        module = 0
        if at.accept("fd_array"):
            at.expect("[")
            module = at.unsigned(15)
            at.expect("]")
        return insn("call_kfunc", off=module, imm=imm)
    known = HELPERS.get(name.text)
    if known is None and name.text != "unknown":
        # Dumps of loaded programs name helpers and kfuncs by the kernel's symbols, all alike.
        hint = f"write 'call {imm}' or 'call kernel-function#{imm}'"
        raise at.error(name, f"'{name.text}' is no helper, but may be a kfunc", hint)
    # In a loaded program the number of a helper is its distance from the kernel's first one.
    if known is not None and imm != known and imm in HELPER_NAMES:
        raise at.error(number.span, f"{name.text} is helper {known}, not {imm}")
    return insn("call_helper", imm=imm)


# lock = "lock" "*" pointer access op "=" register
def _lock(at: Cursor) -> Insn:
    at.expect("*")
    kind = at.pointer(smallest=32)
    base, off = at.access()
    operator = at.next()
    op = _ATOMICS.get((operator.text, kind.width))
    if op is None:
        raise at.expected("'+=', '|=', '&=' or '^='", operator)
    return Insn(op, base, at.register(kind.letters).number, off)


# store = "*" pointer access "=" (register | number)
def _store(at: Cursor) -> Insn:
    kind = at.pointer()
    base, off = at.access()
    at.expect("=")
    if at.at_register():
        src = at.register(kind.letters).number
        return Insn(_STORES[kind.width, Form.STORE_REG], base, src, off)
    imm = at.imm(at.number(), patterns=kind.width < 64)
    return Insn(_STORES[kind.width, Form.STORE_IMM], base, 0, off, imm)


# release = "store_release" "(" pointer access "," register ")"
def _release(at: Cursor) -> Insn:
    at.expect("(")
    kind = at.pointer()
    base, off = at.access()
    at.expect(",")
    src = at.register(kind.letters).number
    at.expect(")")
    return insn(f"store_release{kind.width}", base, src, off)


# assignment = register "=" value | register op "=" (register | number)
def _assignment(at: Cursor) -> Insn:
    dst = at.register("rw")
    operator = at.next()
    if operator.text == "=" and not _plain_operand(at):
        return parse_value(at, dst)
    if (operator.text, dst.width, Form.ALU_REG) not in _OPERATIONS:
        raise at.expected("an operator such as '=' or '+='", operator)
    if at.at_register():
        src = at.register(dst.letter).number
        return Insn(_OPERATIONS[operator.text, dst.width, Form.ALU_REG], dst.number, src)
    number = at.number()
    hint = None
    if operator.text == "=":
        if at.accept("ll") or at.opcode == OPS["lddw"].opcode:
            return parse_wide(at, dst, number)
        hint = f"'r{dst.number} = {number.span.text} ll' loads 64 bits"
    imm = at.imm(number, patterns=dst.width == 32, hint=hint)
    return Insn(_OPERATIONS[operator.text, dst.width, Form.ALU_IMM], dst.number, imm=imm)


def _plain_operand(at: Cursor) -> bool:
    """Whether a register or a number comes next: what may follow every operator, not just ``=``."""
    token, after = at.peek(), at.peek(1)
    match token.text:
        case "(":  # or a sign extension
            return at.peek(2).text != ")" or after.text in at.constants
        case "+" | "-" | "~":
            return token.text != "-" or not REGISTER.fullmatch(after.text)
        case _:
            pass
    if token.kind == "word":
        known = token.text in at.constants and token.text not in at.outside
        return at.at_register() or known or (token.text == "sizeof" and after.text == "(")
    return token.kind == "number"
