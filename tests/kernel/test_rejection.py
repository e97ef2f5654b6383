"""What is said of a program that the verifier refuses: the instruction, its place, the reason."""

import pytest

from pybpf.compiler.pipeline import compile_script
from pybpf.dataclass import replace
from pybpf.errors import KernelError
from pybpf.isa.assembler import assemble
from pybpf.isa.disassembler import format_insn
from pybpf.isa.layout import slot_offsets
from pybpf.kernel.live import LiveTarget
from pybpf.kernel.loader import Loaded
from pybpf.kernel.rejection import locate, rejected_slot, verifier_reason
from pybpf.source import Source, Span

QUOTING = """\
0: R1=ctx() R10=fp0
; @[pid] = count(); @ a.ply:2
0: (79) r0 = *(u64 *)(r1 +0)
; exit(1 / x); @ a.ply:3
1: (79) r0 = *(u64 *)(r0 +0)
R0 invalid mem access 'scalar'
verification time 33 usec
stack depth 0
processed 2 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
"""

EXPLAINED = """\
0: R1=ctx() R10=fp0
0: (95) exit
R0 !read_ok

Verification failed: Register Type Safety: Unreadable register

Reason:
  R0 has never been initialized on this path, so the verifier cannot use it as an input.

Suggestion:
  Initialize R0 on every path before this instruction.

processed 1 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
"""
LOOP = """\
2: (b7) r0 = 0                        ; R0=0
3: (05) goto pc-2
infinite loop detected at insn 2
cur state: R10=fp0
old state: R10=fp0
processed 10 insns (limit 1000000) max_states_per_insn 0 total_states 1 peak_states 1 mark_read 0
"""


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("", ()),
        ("\n\n", ()),
        ("processed 1 insns (limit 1000000)\n", ()),
        ("0: (95) exit\nR0 !read_ok\nprocessed 1 insns\n", ("R0 !read_ok",)),
        (QUOTING, ("R0 invalid mem access 'scalar'", "exit(1 / x); @ a.ply:3")),
        (EXPLAINED, ("R0 !read_ok",)),
        (LOOP, ("infinite loop detected at insn 2",)),
        ("back-edge from insn 3 to 2\n\nprocessed 3 insns\n\n", ("back-edge from insn 3 to 2",)),
    ],
)
def test_the_reason_is_found_in_a_log(log, reason):
    assert verifier_reason(log) == reason


TOO_LARGE = "BPF program is too large. Processed 1000001 insn\nprocessed 1000001 insns (limit)\n"


@pytest.mark.parametrize(
    ("log", "slot"),
    [
        ("", None),
        ("processed 1 insns (limit 1000000)\n", None),
        ("0: (95) exit\nR0 !read_ok\nprocessed 1 insns\n", 0),
        (QUOTING, 1),
        (EXPLAINED, 0),
        (LOOP, 2),
        ("back-edge from insn 3 to 2\n", 3),
        ("unreachable insn 12\nprocessed 0 insns (limit 1000000)\n", 12),
        ("jump out of range from insn 7 to 99\n", 7),
        ("3: (b7) r1 = 1\nfrom 2 to 5: R0=0\n5: (0f) r1 += r0\nmath is bad\n", 5),
        ("last insn is not an exit or jmp\nprocessed 0 insns\n", None),
        (f"8: (05) goto pc+1\n{TOO_LARGE}", 8),
        ("10: (bf) r1 = r2 ; R1_w=1\n10: R1_w=1\ninvalid read from stack\n", 10),
    ],
)
def test_the_slot_is_found_in_a_log(log, slot):
    assert rejected_slot(log) == slot


TEXT = Source("a.ply", "BEGIN { exit(0); }")


@pytest.mark.parametrize(
    ("log", "hints", "text"),
    [
        ("3: (95) exit\nbad\n", ("the kernel refuses instruction 3, `exit`: bad",), "exit"),
        ("2: (b7) r0 = 0\nbad\n", ("the kernel refuses instruction 2, `r0 = 0`: bad",), None),
        ("0: (18) r1 = 0x1\nno\n", ("the kernel refuses instruction 0, `r1 = 0x1 ll`: no",), "0"),
        ("4: (95) exit\nbad\n", ("before",), None),
        ("bad\n", ("before",), None),
        ("", ("before",), None),
    ],
)
def test_slots_are_those_of_the_program(log, hints, text):
    """An lddw takes two; what is beyond the end is in no program of ours."""
    program = assemble("r1 = 1 ll; r0 = 0; exit")
    spans = (Span(TEXT, 13, 14), None, Span(TEXT, 8, 12))
    error = KernelError(22, "cannot load", log=log, hints=("before",))
    locate(error, replace(program, spans=spans))
    assert error.hints == hints
    assert (error.span.text if error.span else None) == text


# Programs that the compiler made, with one instruction changed


def refused(text, old, new):
    """Load the program of a script, in which ``new`` takes the place of the first ``old``."""
    script = compile_script(text, LiveTarget())
    (probe,) = script.probes
    insns = list(probe.program.insns)
    index = [format_insn(insn) for insn in insns].index(old)
    insns[index] = assemble(f"{new}; exit").insns[0]
    program = replace(probe.program, insns=tuple(insns))
    broken = replace(script, probes=(replace(probe, program=program),))
    with Loaded(broken) as loaded, pytest.raises(KernelError) as caught:
        loaded.program(broken.probes[0])
    return caught.value, slot_offsets(program)[index]


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("text", "old", "new", "reason", "place"),
    [
        ("BEGIN { m[1] = pid; }", "r0 >>= 32", "r0 = r9", "R9 !read_ok", "m[1] = pid;"),
        (
            "BEGIN {\n  @ = count();\n  m[1] = pid;\n}",
            "r0 >>= 32",
            "r0 = *(u64 *)(r0 + 0)",
            "R0 invalid mem access 'scalar'",
            "m[1] = pid;",
        ),
    ],
)
def test_a_refusal_leads_to_the_script(text, old, new, reason, place):
    error, slot = refused(text, old, new)
    assert error.span.text == place
    assert error.hints == (f"the kernel refuses instruction {slot}, `{new}`: {reason}",)
    assert f"{slot}: (" in error.log
    lines = error.diagnostic().render().splitlines()
    assert len(lines) == 4
    assert lines[0].endswith(
        "error: cannot load the program of BEGIN: Permission denied (errno 13)"
    )
    assert place in lines[1]
    assert lines[2].strip() == "^" * len(place)


@pytest.mark.kernel
def test_every_instruction_knows_its_place():
    script = compile_script(
        "BEGIN { m[pid] = time; print(m[pid], comm); @[1] = count(); }", LiveTarget()
    )
    (probe,) = script.probes
    assert len(probe.program.spans) == len(probe.program.insns)
    assert probe.span.text == "BEGIN"
    told = {span.text for span in probe.program.spans if span}
    assert {"m[pid] = time;", "@[1] = count();"} <= told


def test_statistics_of_subprograms_are_no_reason():
    log = (
        "R0 !read_ok\nprocessed 1 insns (limit 1000000) max_states_per_insn 0\n"
        "subprog 0 (<unknown>) main insns_self 1 insns_total 1 stack 0\n"
    )
    assert verifier_reason(log) == ("R0 !read_ok",)
