"""Hypothesis strategies for instructions, programs and packets, for fuzzing what reads them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from hypothesis import strategies as st

from pybpf.corpus import CorpusProgram
from pybpf.isa.insn import Insn, Program
from pybpf.isa.table import DISTANCE_FIELD, FREE_FIELDS, OPS, ROWS, Form, OpSpec
from pybpf.testing.programs import generate
from pybpf.testing.programs.mutate import mutate
from pybpf.testing.programs.types import FLAVOURS, Flavour

_REGISTERS = st.integers(0, 10)
_S16 = st.integers(-0x8000, 0x7FFF)
_S32 = st.integers(-0x80000000, 0x7FFFFFFF)
_U32 = st.integers(0, 0xFFFFFFFF)
_S64 = st.integers(-(1 << 63), (1 << 63) - 1)
_FIELDS = {"dst": _REGISTERS, "src": _REGISTERS, "off": _S16, "imm": _S32}


def insns(ops: Sequence[OpSpec] = ROWS) -> st.SearchStrategy[Insn]:
    """Draw instructions of the given rows with operands that can be encoded.

    Jumps and calls hold a distance, which need not lead anywhere; see ``programs``.
    """
    return st.sampled_from(ops).flatmap(_insn)


def _insn(op: OpSpec) -> st.SearchStrategy[Insn]:
    fields = {name: _FIELDS[name] for name in FREE_FIELDS[op.form]}
    if op.name in {"lddw_map_fd", "lddw_map_idx"}:
        fields["imm"] = _U32
    elif op.form is Form.LOAD_IMM64 and op not in DISTANCE_FIELD:
        fields["imm"] = _S64
    elif op.form is Form.CALL_KFUNC:
        fields["off"] = st.integers(0, 0x7FFF)
    elif op.form is Form.ADDR_SPACE_CAST:
        fields["imm"] = st.sampled_from((1, 1 << 16))
    return st.builds(Insn, st.just(op), **fields)


@st.composite
def programs(draw: st.DrawFn, max_size: int = 30) -> Program:
    """Draw programs that ``encode`` accepts, labelled as ``decode`` labels them.

    Every jump, call and ``lddw_func`` leads to some instruction; the verifier would refuse most of
    these programs.
    """
    drawn = draw(st.lists(insns(), min_size=1, max_size=max_size))
    goals = {
        index: draw(st.integers(0, len(drawn) - 1))
        for index, insn in enumerate(drawn)
        if insn.op in DISTANCE_FIELD
    }
    entered = {goal for index, goal in goals.items() if _enters(drawn[index].op)}
    names: dict[int, str] = {}
    for prefix, found in (("sub", entered), ("L", set(goals.values()) - entered)):
        names |= {goal: f"{prefix}{number}" for number, goal in enumerate(sorted(found), start=1)}
    for index, goal in goals.items():
        field = DISTANCE_FIELD[drawn[index].op]
        drawn[index] = (
            replace(drawn[index], off=0, symbol=names[goal])
            if field == "off"
            else replace(drawn[index], imm=0, symbol=names[goal])
        )
    labels = MappingProxyType({name: index for index, name in names.items()})
    return Program(tuple(drawn), labels)


def _enters(op: OpSpec) -> bool:
    """Whether an operation refers to a subprogram rather than to a place to jump to."""
    return op.form is Form.CALL_LOCAL or op is OPS["lddw_func"]


@st.composite
def corpus_programs(
    draw: st.DrawFn, *, valid: bool = False, flavours: Sequence[Flavour] = FLAVOURS
) -> CorpusProgram:
    """Draw whole programs, with their maps, for bpf(2), the verifier and the VM.

    They are ``valid`` (almost all are), or of any kind: valid, with small mistakes, mutants of
    these, or arbitrary bytes. See ``testing.programs``.
    """
    flavour = draw(st.sampled_from(flavours))
    kind = "valid" if valid else draw(st.sampled_from(("valid", "nearly", "mutant", "bytes")))
    if kind == "bytes":
        code = draw(st.lists(st.binary(min_size=8, max_size=8), max_size=12))
        return CorpusProgram("drawn", flavour.prog_type, b"".join(code), flavour.attach[0])
    rng = draw(st.randoms(use_true_random=False))
    program = generate(rng, flavour, "drawn", slips=0.0 if kind == "valid" else 0.03)
    return mutate(rng, program) if kind == "mutant" else program


_PROTOCOLS = {"tcp": (6, 20), "udp": (17, 8), "icmp": (1, 8)}


@st.composite
def packets(draw: st.DrawFn) -> bytes:
    """Draw Ethernet frames of at least 15 bytes: IPv4 and IPv6 with TCP, UDP or ICMP, or anything.

    Checksums are as random as addresses; some frames end early.
    """
    ethernet = draw(st.binary(min_size=12, max_size=12))
    payload = draw(st.binary(max_size=64))
    number, size = _PROTOCOLS[draw(st.sampled_from(sorted(_PROTOCOLS)))]
    segment = draw(st.binary(min_size=size, max_size=size)) + payload
    kind = draw(st.sampled_from(("ipv4", "ipv6", "any")))
    if kind == "ipv4":
        start = struct.pack(">BBHHHBB", 0x45, 0, 20 + len(segment), 1, 0x4000, 64, number)
        frame = b"\x08\x00" + start + draw(st.binary(min_size=10, max_size=10)) + segment
    elif kind == "ipv6":
        start = struct.pack(">IHBB", 6 << 28, len(segment), number, 64)
        frame = b"\x86\xdd" + start + draw(st.binary(min_size=32, max_size=32)) + segment
    else:
        frame = draw(st.binary(min_size=3, max_size=80))
    whole = ethernet + frame
    return whole[: draw(st.integers(15, len(whole)))] if draw(st.booleans()) else whole
