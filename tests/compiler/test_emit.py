"""Instructions, labels and line information."""

from __future__ import annotations

from textwrap import dedent

import pytest

from pybpf.compiler.allocate import allocate
from pybpf.compiler.emit import emit
from pybpf.compiler.ir import CTX, Block, Exit, Function, Goto, Instr, Label, Store
from pybpf.compiler.legalize import legalize
from pybpf.compiler.longjumps import Code, lengthen_jumps
from pybpf.errors import SourceError
from pybpf.isa.abi import AttachType, ProgType
from pybpf.isa.disassembler import disassemble
from pybpf.isa.insn import Program, insn
from pybpf.isa.layout import slot_offsets
from pybpf.source import Source, Span
from pybpf.target.features import ALL, CPU_V4
from pybpf.testing.irtext import parse_function

OLD = ALL - {CPU_V4}


def program(function, features=ALL):
    legal = legalize(function, features, "little")
    return emit(allocate(legal, 0), features, ProgType.KPROBE)


def assembly(text: str, features=ALL) -> str:
    return disassemble(program(parse_function(text), features))


def lines(text: str, features=ALL) -> str:
    """Return the instructions of a block, without the exit."""
    text = f"s0: 16 bytes, aligned to 8\nentry:\n{dedent(text)}\nexit 0"
    return "\n".join(line.strip() for line in assembly(text, features).splitlines()[:-2])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("v1 = -5\n*(u64 *)(ctx +0) = v1", "r0 = -5\n*(u64 *)(r1 + 0) = r0"),
        ("v1 = 4294967295\n*(u64 *)(ctx +0) = v1", "w0 = -1\n*(u64 *)(r1 + 0) = r0"),
        ("v1 = 4294967296\n*(u64 *)(ctx +0) = v1", "r0 = 0x100000000 ll\n*(u64 *)(r1 + 0) = r0"),
        ("*(u64 *)(ctx +0) = -5", "*(u64 *)(r1 + 0) = -5"),
        ("*(u8 *)(&s0 +3) = 7", "*(u8 *)(r10 - 13) = 7"),
        (
            "v1 = *(u64 *)(ctx +0)\nv2 = v1 + 1\n*(u64 *)(ctx +0) = v2",
            "r0 = *(u64 *)(r1 + 0)\nr0 += 1\n*(u64 *)(r1 + 0) = r0",
        ),
        (
            "v1 = *(u64 *)(ctx +0)\nv2 = 7 - v1\n*(u64 *)(ctx +0) = v2",
            "r0 = *(u64 *)(r1 + 0)\nr5 = 7\nr5 -= r0\n*(u64 *)(r1 + 0) = r5",
        ),
        (
            (
                "v1 = *(u64 *)(ctx +0)\nv2 = *(u64 *)(ctx +8)\nv3 = v1 + v2\n"
                "*(u64 *)(ctx +0) = v3\n*(u64 *)(ctx +8) = v1"
            ),
            (
                "r0 = *(u64 *)(r1 + 0)\nr5 = *(u64 *)(r1 + 8)\nr5 += r0\n"
                "*(u64 *)(r1 + 0) = r5\n*(u64 *)(r1 + 8) = r0"
            ),
        ),
        (
            "v1 = *(u64 *)(ctx +0)\nv2 = u32 8589934593 - v1\n*(u64 *)(ctx +0) = v2",
            "r0 = *(u64 *)(r1 + 0)\nr5 = 1\nw5 -= w0\n*(u64 *)(r1 + 0) = r5",
        ),
        (
            "v1 = *(u64 *)(ctx +0)\nv2 = u32 v1 s>> 3\nv3 = u32 -v2\n*(u32 *)(ctx +0) = v3",
            "r0 = *(u64 *)(r1 + 0)\nw0 s>>= 3\nw0 = -w0\n*(u32 *)(r1 + 0) = r0",
        ),
        (
            "v1 = *(u64 *)(ctx +0)\nv2 = (u32) v1\n*(u64 *)(ctx +0) = v2",
            "r0 = *(u64 *)(r1 + 0)\nw0 = w0\n*(u64 *)(r1 + 0) = r0",
        ),
        (
            "v1 = *(u64 *)(ctx +0)\nv2 = (u8) v1\n*(u64 *)(ctx +0) = v2",
            "r0 = *(u64 *)(r1 + 0)\nr0 &= 255\n*(u64 *)(r1 + 0) = r0",
        ),
        (
            "v1 = *(u64 *)(ctx +0)\nlock *(u32 *)(&s0 +4) += v1",
            "r0 = *(u64 *)(r1 + 0)\nlock *(u32 *)(r10 - 12) += w0",
        ),
        (
            "v1 = &value(.lost)[8]\n*(u64 *)(v1 +0) = 1",
            "r0 = map_value:.lost + 8 ll\n*(u64 *)(r0 + 0) = 1",
        ),
        (
            "v1 = bpf_map_lookup_elem(map(@), &s0[8])\n*(u64 *)(v1 +0) = 1",
            "r1 = map_fd:@ ll\nr2 = r10\nr2 += -8\ncall bpf_map_lookup_elem\n*(u64 *)(r0 + 0) = 1",
        ),
    ],
)
def test_operations(text, wanted):
    assert lines(text) == wanted


SIGNED = "v1 = *(s16 *)(ctx +0)\nv2 = (s8) v1\n*(u64 *)(ctx +0) = v2"


def test_sign_extension():
    assert lines(SIGNED) == "r0 = *(s16 *)(r1 + 0)\nr0 = (s8)r0\n*(u64 *)(r1 + 0) = r0"
    assert lines(SIGNED, OLD) == (
        "r0 = *(u16 *)(r1 + 0)\nr0 <<= 48\nr0 s>>= 48\nr0 <<= 56\nr0 s>>= 56\n*(u64 *)(r1 + 0) = r0"
    )


def test_arguments_that_trade_places():
    text = """
        v1 = bpf_get_current_pid_tgid()
        v2 = bpf_get_current_uid_gid()
        bpf_map_delete_elem(v1, v2)
        bpf_map_delete_elem(v2, v1)
    """

    assert lines(text).splitlines()[-6:] == [
        "r1 = r6", "r2 = r7", "call bpf_map_delete_elem",
        "r1 = r7", "r2 = r6", "call bpf_map_delete_elem",
    ]  # fmt: skip


JUMPS = """
    entry:
        if ctx {} 7 goto {} else {}
    a:
        *(u64 *)(ctx +0) = 1
        goto c
    b:
        *(u64 *)(ctx +0) = 2
        goto c
    c:
        exit 3
"""


@pytest.mark.parametrize(
    ("cmp", "then", "otherwise", "wanted"),
    [
        ("==", "a", "b", ["if r1 != 7 goto b"]),
        ("==", "b", "a", ["if r1 == 7 goto b"]),
        ("s>", "a", "c", ["if r1 s<= 7 goto c"]),
        ("&", "a", "b", ["if r1 & 7 goto a", "goto b"]),
        ("&", "b", "a", ["if r1 & 7 goto b"]),
        ("<", "b", "c", ["if r1 < 7 goto b", "goto c"]),
    ],
)
def test_branches_fall_through_where_they_can(cmp, then, otherwise, wanted):
    found = assembly(JUMPS.format(cmp, then, otherwise)).splitlines()

    assert [line.strip() for line in found[: len(wanted)]] == wanted


def test_a_whole_program():
    assert assembly(JUMPS.format("<", "a", "b")) == dedent("""\
            if r1 >= 7 goto b
            *(u64 *)(r1 + 0) = 1
            goto c
        b:
            *(u64 *)(r1 + 0) = 2
        c:
            r0 = 3
            exit
        """)


def test_what_the_kernel_must_know():
    function = parse_function("function BEGIN\nexit 0")

    found = emit(allocate(function, 0), ALL, ProgType.TRACING, AttachType.TRACE_FENTRY)

    assert (found.name, found.prog_type, found.expected_attach_type, found.lines) == (
        "BEGIN",
        ProgType.TRACING,
        AttachType.TRACE_FENTRY,
        (),
    )


def test_line_information_where_the_line_changes():
    source = Source("x.ply", "first\nsecond\n  third\n")

    def store(value, start):
        span = None if start is None else Span(source, start, start + 1)
        return Instr(Store(CTX, 0, 8, value), span)

    instrs = (store(1, None), store(2, 0), store(3, 3), store(4, 15), store(5, None), store(6, 7))
    end = Block(Label("end"), (), Exit(0), Span(source, 6, 7))
    entry = Block(Label("entry"), instrs, Goto(Label("end")), Span(source, 15, 16))

    found = program(Function("f", (entry, end), 1)).lines

    assert [(x.index, x.file, x.line, x.column, x.text) for x in found] == [
        (0, "x.ply", 1, 1, "first"),
        (3, "x.ply", 3, 3, "  third"),
        (5, "x.ply", 2, 2, "second"),
    ]


def stretched(count: int, cmp: str = "jeq64_imm", dst: str = "far") -> Code:
    """Return a branch over ``count`` moves."""
    insns = [insn(cmp, 1, imm=7, symbol=dst), *[insn("mov64_imm", 0, imm=1)] * count, insn("exit")]
    return Code(insns, [None] * len(insns), {"far": len(insns) - 1})


def test_near_jumps_stay():
    code = stretched(32767)

    assert lengthen_jumps(code, "f", frozenset()) is code


def test_a_far_branch_goes_through_a_gate():
    code = lengthen_jumps(stretched(32768), "f", ALL)

    assert [i.op.name for i in code.insns[:4]] == ["jeq64_imm", "ja", "gotol", "mov64_imm"]
    assert [i.symbol for i in code.insns[:3]] == ["far.gate0", "far.next0", "far"]
    assert code.labels == {"far": 32771, "far.gate0": 2, "far.next0": 3}
    assert len(code.spans) == len(code.insns)


def test_a_far_goto_becomes_long():
    code = lengthen_jumps(stretched(32768, "ja"), "f", ALL)

    assert code.insns[0] == insn("gotol", symbol="far")
    assert code.labels == {"far": 32769}


def test_long_branches_push_others_out_of_reach():
    code = stretched(32766)
    code.insns[1:1] = [insn("jne64_imm", 1, imm=7, symbol="far")] * 2
    code.insns[40:40] = [insn("mov64_imm", 0)] * 3
    code.spans[:] = [None] * len(code.insns)
    code.labels["far"] = len(code.insns) - 1

    found = lengthen_jumps(code, "f", ALL)

    offsets = slot_offsets(Program(tuple(found.insns)))
    for index, jump in enumerate(found.insns):
        if jump.symbol and jump.op.name != "gotol":
            distance = offsets[found.labels[jump.symbol]] - offsets[index + 1]
            assert -32768 <= distance <= 32767


def test_far_jumps_on_an_old_kernel():
    source = Source("x.ply", "kprobe:f { … }")
    code = stretched(40000)
    code.spans[0] = Span(source, 0, 8)

    with pytest.raises(SourceError) as caught:
        lengthen_jumps(code, "kprobe:f", OLD)

    assert str(caught.value) == dedent("""\
        x.ply:1:1: error: kprobe:f: the program takes 40002 instructions, and before Linux 6.6 a jump reaches 32767 at most
            kprobe:f { … }
            ^^^^^^^^""")  # noqa: E501


def test_a_program_of_40000_instructions():
    source = parse_function("if ctx == 7 goto out else more\nmore:\ngoto out\nout:\nexit 0")
    entry, more, out = source.blocks
    more = Block(more.label, (Instr(Store(CTX, 0, 8, 1)),) * 40_000, more.terminator)

    found = program(Function("f", (entry, more, out), 1))

    assert [i.op.name for i in found.insns[:3]] == ["jeq64_imm", "ja", "gotol"]
    assert len(bytes(found)) == 8 * 40_005
