"""The instruction table: one row for every operation of RFC 9669 and Linux's additions to it.

The assembler, the disassembler, the encoder, the interpreter and the verifier all read this table;
nothing else spells an opcode. The opcode byte is divided by class:

    arithmetic and jumps           loads and stores
     7 6 5 4   3    2 1 0           7 6 5   4 3    2 1 0
    +--------+---+-------+         +------+------+-------+
    |  code  | s | class |         | mode | size | class |
    +--------+---+-------+         +------+------+-------+

``s`` is 0 where the second operand is ``imm`` and 1 where it is ``src``. Some operations share an
opcode byte and are told apart by a fixed ``off``, ``imm`` or ``src`` field (``sdiv`` is ``div``
with off 1). ``FREE_FIELDS`` says which fields carry operands; every other field is fixed by the row
or must be zero. Source: RFC 9669 sections 3 to 5, and include/uapi/linux/bpf.h for the rows whose
group is ``LINUX``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, StrEnum
from types import MappingProxyType

from pybpf.dataclass import dataclass


class Form(Enum):
    """The operand shape of an operation: what its fields mean and how it is written."""

    ALU_IMM = "dst op= imm"
    ALU_REG = "dst op= src"
    NEG = "dst = -dst"
    MOVSX = "dst = (sN)src"
    SWAP = "dst = beN dst"
    LOAD = "dst = *(uN *)(src + off)"
    STORE_REG = "*(uN *)(dst + off) = src"
    STORE_IMM = "*(uN *)(dst + off) = imm"
    ATOMIC = "lock *(uN *)(dst + off) op= src"
    LOAD_ACQUIRE = "dst = load_acquire((uN *)(src + off))"
    STORE_RELEASE = "store_release((uN *)(dst + off), src)"
    LOAD_IMM64 = "dst = imm64 ll"
    JUMP = "goto +off"
    JUMP_LONG = "gotol +imm"
    BRANCH_IMM = "if dst op imm goto +off"
    BRANCH_REG = "if dst op src goto +off"
    MAY_GOTO = "may_goto +off"
    CALL_HELPER = "call helper"
    CALL_LOCAL = "call pc+imm"
    CALL_KFUNC = "call kernel-function#imm"
    CALL_REG = "callx dst"
    EXIT = "exit"
    ADDR_SPACE_CAST = "dst = addr_space_cast(src, to, from)"
    PACKET_ABS = "r0 = *(uN *)skb[imm]"
    PACKET_IND = "r0 = *(uN *)skb[src + imm]"

    # Each is one object. Enum's own hash, of the name, is a function of Python.
    __hash__ = object.__hash__


class Effect(StrEnum):
    """What an operation computes; ``isa.semantics`` holds the functions on unsigned integers."""

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"
    OR = "|"
    AND = "&"
    LSH = "<<"
    RSH = ">>"
    NEG = "neg"
    MOD = "%"
    XOR = "^"
    MOV = "="
    ARSH = "s>>"
    SDIV = "s/"
    SMOD = "s%"
    MOVSX = "movsx"
    TO_LE = "le"
    TO_BE = "be"
    BSWAP = "bswap"
    JA = "goto"
    JEQ = "=="
    JNE = "!="
    JGT = ">"
    JGE = ">="
    JLT = "<"
    JLE = "<="
    JSET = "jset"
    JSGT = "s>"
    JSGE = "s>="
    JSLT = "s<"
    JSLE = "s<="
    LOAD = "load"
    LOAD_SIGNED = "load signed"
    STORE = "store"
    XCHG = "xchg"
    CMPXCHG = "cmpxchg"
    CALL = "call"
    EXIT = "exit"
    CAST = "cast"


# The fields of an instruction that hold operands. ``LOAD_IMM64`` spreads ``imm`` over two slots.
FREE_FIELDS: Mapping[Form, frozenset[str]] = MappingProxyType(
    {
        Form.ALU_IMM: frozenset({"dst", "imm"}),
        Form.ALU_REG: frozenset({"dst", "src"}),
        Form.NEG: frozenset({"dst"}),
        Form.MOVSX: frozenset({"dst", "src"}),
        Form.SWAP: frozenset({"dst"}),
        Form.LOAD: frozenset({"dst", "src", "off"}),
        Form.STORE_REG: frozenset({"dst", "src", "off"}),
        Form.STORE_IMM: frozenset({"dst", "off", "imm"}),
        Form.ATOMIC: frozenset({"dst", "src", "off"}),
        Form.LOAD_ACQUIRE: frozenset({"dst", "src", "off"}),
        Form.STORE_RELEASE: frozenset({"dst", "src", "off"}),
        Form.LOAD_IMM64: frozenset({"dst", "imm"}),
        Form.JUMP: frozenset({"off"}),
        Form.JUMP_LONG: frozenset({"imm"}),
        Form.BRANCH_IMM: frozenset({"dst", "imm", "off"}),
        Form.BRANCH_REG: frozenset({"dst", "src", "off"}),
        Form.MAY_GOTO: frozenset({"off"}),
        Form.CALL_HELPER: frozenset({"imm"}),
        Form.CALL_LOCAL: frozenset({"imm"}),
        Form.CALL_KFUNC: frozenset({"imm", "off"}),
        Form.CALL_REG: frozenset({"dst"}),
        Form.EXIT: frozenset(),
        Form.ADDR_SPACE_CAST: frozenset({"dst", "src", "imm"}),
        Form.PACKET_ABS: frozenset({"imm"}),
        Form.PACKET_IND: frozenset({"src", "imm"}),
    }
)


class Group(StrEnum):
    """Conformance groups of RFC 9669 section 2.4, and two that it does not define.

    ``LINUX`` marks what only the kernel has. ``CALLX`` is bpf_conformance's: a call through a
    register, which clang emits and user-space runtimes run, but no kernel loads.
    """

    BASE32 = "base32"
    BASE64 = "base64"
    ATOMIC32 = "atomic32"
    ATOMIC64 = "atomic64"
    DIVMUL32 = "divmul32"
    DIVMUL64 = "divmul64"
    PACKET = "packet"
    LINUX = "linux"
    CALLX = "callx"


# A row is one object, compared and hashed as such: tables keyed by rows are as fast as by integers.
@dataclass(frozen=True, slots=True, eq=False)
class OpSpec:
    """One operation.

    ``width`` counts the bits the operation works on (for memory, the bits accessed; for a
    sign-extending move, the bits of the result). ``narrow`` is the source width of ``MOVSX``
    and the swap width of ``SWAP``. ``off``, ``imm`` and ``src`` are the fixed fields that select
    the row where an opcode byte is shared, ``None`` where the field is free or unused.
    ``fetch`` marks atomics that return the old value. ``since`` is the first Linux release
    (``NEVER``: none). ``slots``: how many 8-byte slots the encoded operation takes.
    """

    name: str
    opcode: int
    form: Form
    effect: Effect
    width: int = 64
    narrow: int = 0
    off: int | None = None
    imm: int | None = None
    src: int | None = None
    fetch: bool = False
    group: Group = Group.BASE64
    since: tuple[int, int] = (3, 18)
    slots: int = 1

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Copy and pickle by name, so that there is only ever one object for a row."""
        return _row, (self.name,)


def _row(name: str) -> OpSpec:
    return OPS[name]


_LD, _LDX, _ST, _STX, _ALU32, _JMP, _JMP32, _ALU64 = range(8)
_SIZES = {8: 0x10, 16: 0x08, 32: 0x00, 64: 0x18}
_SUFFIX = {8: "b", 16: "h", 32: "w", 64: "dw"}
_MODE_IMM, _MODE_ABS, _MODE_IND, _MODE_MEM, _MODE_MEMSX, _MODE_ATOMIC = (
    0x00, 0x20, 0x40, 0x60, 0x80, 0xC0,
)  # fmt: skip
_REG = 0x08
_V3_18, _V5_1, _V5_12, _V6_6, _V6_9 = (3, 18), (5, 1), (5, 12), (6, 6), (6, 9)
NEVER = (9999, 0)

# name, code, effect, fixed off, whether it is in the divmul groups, first release
_ALU: tuple[tuple[str, int, Effect, int, bool, tuple[int, int]], ...] = (
    ("add", 0x00, Effect.ADD, 0, False, _V3_18),
    ("sub", 0x10, Effect.SUB, 0, False, _V3_18),
    ("mul", 0x20, Effect.MUL, 0, True, _V3_18),
    ("div", 0x30, Effect.DIV, 0, True, _V3_18),
    ("sdiv", 0x30, Effect.SDIV, 1, True, _V6_6),
    ("or", 0x40, Effect.OR, 0, False, _V3_18),
    ("and", 0x50, Effect.AND, 0, False, _V3_18),
    ("lsh", 0x60, Effect.LSH, 0, False, _V3_18),
    ("rsh", 0x70, Effect.RSH, 0, False, _V3_18),
    ("mod", 0x90, Effect.MOD, 0, True, _V3_18),
    ("smod", 0x90, Effect.SMOD, 1, True, _V6_6),
    ("xor", 0xA0, Effect.XOR, 0, False, _V3_18),
    ("mov", 0xB0, Effect.MOV, 0, False, _V3_18),
    ("arsh", 0xC0, Effect.ARSH, 0, False, _V3_18),
)

_BRANCHES: tuple[tuple[str, int, Effect], ...] = (
    ("jeq", 0x10, Effect.JEQ),
    ("jgt", 0x20, Effect.JGT),
    ("jge", 0x30, Effect.JGE),
    ("jset", 0x40, Effect.JSET),
    ("jne", 0x50, Effect.JNE),
    ("jsgt", 0x60, Effect.JSGT),
    ("jsge", 0x70, Effect.JSGE),
    ("jlt", 0xA0, Effect.JLT),
    ("jle", 0xB0, Effect.JLE),
    ("jslt", 0xC0, Effect.JSLT),
    ("jsle", 0xD0, Effect.JSLE),
)
_BRANCH_4_14 = frozenset({"jlt", "jle", "jslt", "jsle"})


def _alu_rows() -> Iterator[OpSpec]:
    for width, cls in ((32, _ALU32), (64, _ALU64)):
        base = Group.BASE32 if width == 32 else Group.BASE64
        divmul = Group.DIVMUL32 if width == 32 else Group.DIVMUL64
        for name, code, effect, off, heavy, since in _ALU:
            group = divmul if heavy else base
            for form, bit in ((Form.ALU_IMM, 0), (Form.ALU_REG, _REG)):
                suffix = "imm" if form is Form.ALU_IMM else "reg"
                yield OpSpec(
                    f"{name}{width}_{suffix}", code | bit | cls, form, effect, width,
                    off=off, group=group, since=since,
                )  # fmt: skip
        yield OpSpec(f"neg{width}", 0x80 | cls, Form.NEG, Effect.NEG, width, group=base)
        for narrow in (8, 16, 32)[: 2 if width == 32 else 3]:
            yield OpSpec(
                f"movsx{narrow}_{width}", 0xB0 | _REG | cls, Form.MOVSX, Effect.MOVSX, width,
                narrow=narrow, off=narrow, group=base, since=_V6_6,
            )  # fmt: skip
    for narrow in (16, 32, 64):
        group = Group.BASE64 if narrow == 64 else Group.BASE32
        for name, opcode, effect, since in (
            ("le", 0xD0 | _ALU32, Effect.TO_LE, _V3_18),
            ("be", 0xD0 | _REG | _ALU32, Effect.TO_BE, _V3_18),
            ("bswap", 0xD0 | _ALU64, Effect.BSWAP, _V6_6),
        ):
            yield OpSpec(
                f"{name}{narrow}", opcode, Form.SWAP, effect, 64,
                narrow=narrow, imm=narrow, group=group, since=since,
            )  # fmt: skip
    yield OpSpec(
        "addr_space_cast", 0xB0 | _REG | _ALU64, Form.ADDR_SPACE_CAST, Effect.CAST, 64,
        off=1, group=Group.LINUX, since=_V6_9,
    )  # fmt: skip


def _memory_rows() -> Iterator[OpSpec]:
    for width, size in _SIZES.items():
        group = Group.BASE64 if width == 64 else Group.BASE32
        suffix = _SUFFIX[width]
        yield OpSpec(
            f"ldx{suffix}", _MODE_MEM | size | _LDX, Form.LOAD, Effect.LOAD, width, group=group
        )
        if width < 64:
            yield OpSpec(
                f"ldxs{suffix}", _MODE_MEMSX | size | _LDX, Form.LOAD, Effect.LOAD_SIGNED, width,
                group=Group.BASE64, since=_V6_6,
            )  # fmt: skip
        yield OpSpec(
            f"stx{suffix}", _MODE_MEM | size | _STX, Form.STORE_REG, Effect.STORE, width,
            group=group,
        )  # fmt: skip
        yield OpSpec(
            f"st{suffix}", _MODE_MEM | size | _ST, Form.STORE_IMM, Effect.STORE, width,
            group=group,
        )  # fmt: skip
    for src, (name, since) in enumerate(
        (
            ("", _V3_18),
            ("_map_fd", _V3_18),
            ("_map_value", (5, 2)),
            ("_btf_id", (5, 10)),
            ("_func", (5, 13)),
            ("_map_idx", (5, 14)),
            ("_map_idx_value", (5, 14)),
        )
    ):
        yield OpSpec(
            f"lddw{name}", _MODE_IMM | 0x18 | _LD, Form.LOAD_IMM64, Effect.MOV, 64,
            src=src, since=since, slots=2,
        )  # fmt: skip
    for width in (8, 16, 32):
        for name, mode, form in (
            ("ldabs", _MODE_ABS, Form.PACKET_ABS),
            ("ldind", _MODE_IND, Form.PACKET_IND),
        ):
            yield OpSpec(
                f"{name}{_SUFFIX[width]}", mode | _SIZES[width] | _LD, form, Effect.LOAD, width,
                group=Group.PACKET,
            )  # fmt: skip


def _atomic_rows() -> Iterator[OpSpec]:
    for width in (32, 64):
        opcode = _MODE_ATOMIC | _SIZES[width] | _STX
        group = Group.ATOMIC32 if width == 32 else Group.ATOMIC64
        for name, code, effect in (
            ("add", 0x00, Effect.ADD),
            ("or", 0x40, Effect.OR),
            ("and", 0x50, Effect.AND),
            ("xor", 0xA0, Effect.XOR),
        ):
            yield OpSpec(
                f"atomic_{name}{width}", opcode, Form.ATOMIC, effect, width, imm=code, group=group,
                since=_V3_18 if name == "add" else _V5_12,
            )  # fmt: skip
            yield OpSpec(
                f"atomic_fetch_{name}{width}", opcode, Form.ATOMIC, effect, width,
                imm=code | 1, fetch=True, group=group, since=_V5_12,
            )  # fmt: skip
        yield OpSpec(
            f"xchg{width}", opcode, Form.ATOMIC, Effect.XCHG, width, imm=0xE1, fetch=True,
            group=group, since=_V5_12,
        )  # fmt: skip
        yield OpSpec(
            f"cmpxchg{width}", opcode, Form.ATOMIC, Effect.CMPXCHG, width, imm=0xF1, fetch=True,
            group=group, since=_V5_12,
        )  # fmt: skip
    for width, size in _SIZES.items():
        opcode = _MODE_ATOMIC | size | _STX
        yield OpSpec(
            f"load_acquire{width}", opcode, Form.LOAD_ACQUIRE, Effect.LOAD, width, imm=0x100,
            group=Group.LINUX, since=(6, 15),
        )  # fmt: skip
        yield OpSpec(
            f"store_release{width}", opcode, Form.STORE_RELEASE, Effect.STORE, width, imm=0x110,
            group=Group.LINUX, since=(6, 15),
        )  # fmt: skip


def _jump_rows() -> Iterator[OpSpec]:
    yield OpSpec("ja", 0x00 | _JMP, Form.JUMP, Effect.JA, group=Group.BASE32)
    yield OpSpec("gotol", 0x00 | _JMP32, Form.JUMP_LONG, Effect.JA, group=Group.BASE32, since=_V6_6)
    for width, cls in ((64, _JMP), (32, _JMP32)):
        group = Group.BASE32 if width == 32 else Group.BASE64
        for name, code, effect in _BRANCHES:
            since = _V5_1 if width == 32 else (4, 14) if name in _BRANCH_4_14 else _V3_18
            for form, bit, suffix in (
                (Form.BRANCH_IMM, 0, "imm"),
                (Form.BRANCH_REG, _REG, "reg"),
            ):
                yield OpSpec(
                    f"{name}{width}_{suffix}", code | bit | cls, form, effect, width,
                    group=group, since=since,
                )  # fmt: skip
    yield OpSpec(
        "may_goto", 0xE0 | _JMP, Form.MAY_GOTO, Effect.JA, src=0, group=Group.LINUX, since=_V6_9
    )
    for src, name, form, since in (
        (0, "call_helper", Form.CALL_HELPER, _V3_18),
        (1, "call_local", Form.CALL_LOCAL, (4, 16)),
        (2, "call_kfunc", Form.CALL_KFUNC, (5, 13)),
    ):
        yield OpSpec(name, 0x80 | _JMP, form, Effect.CALL, src=src, group=Group.BASE32, since=since)
    yield OpSpec(
        "callx", 0x80 | _REG | _JMP, Form.CALL_REG, Effect.CALL, group=Group.CALLX, since=NEVER
    )
    yield OpSpec("exit", 0x90 | _JMP, Form.EXIT, Effect.EXIT, group=Group.BASE32)


def _by_opcode() -> dict[int, tuple[OpSpec, ...]]:
    found: dict[int, tuple[OpSpec, ...]] = {}
    for row in ROWS:
        found[row.opcode] = (*found.get(row.opcode, ()), row)
    return found


ROWS: tuple[OpSpec, ...] = (*_alu_rows(), *_memory_rows(), *_atomic_rows(), *_jump_rows())
OPS: Mapping[str, OpSpec] = MappingProxyType({row.name: row for row in ROWS})
BY_OPCODE: Mapping[int, tuple[OpSpec, ...]] = MappingProxyType(_by_opcode())

_OFF_FORMS = frozenset({Form.JUMP, Form.BRANCH_IMM, Form.BRANCH_REG, Form.MAY_GOTO})
_IMM_FORMS = frozenset({Form.JUMP_LONG, Form.CALL_LOCAL})
# The field that holds the distance to another instruction, in slots from the slot after the first
# one of the instruction itself; rows that name no place in the program are absent.
DISTANCE_FIELD: Mapping[OpSpec, str] = MappingProxyType(
    {row: "off" for row in ROWS if row.form in _OFF_FORMS}
    | {row: "imm" for row in ROWS if row.form in _IMM_FORMS}
    | {OPS["lddw_func"]: "imm"}
)
