"""Explanations: of what the model rejects, of the kernel's wording in all releases, and their form.

The programs are written so that each is rejected for one reason.
"""

import re
from pathlib import Path

import pytest

from pybpf.corpus import CorpusProgram
from pybpf.dataclass import replace
from pybpf.isa.abi import MapType, ProgType
from pybpf.isa.assembler import assemble
from pybpf.script import MapRole, MapSpec
from pybpf.target.profile import profile
from pybpf.verifier import explain as table
from pybpf.verifier.explain import explain
from pybpf.verifier.subject import of_program
from pybpf.verifier.verify import verify

MAPS = (
    MapSpec("hash", MapRole.MAP, MapType.HASH, 4, 8, 16),
    MapSpec("one", MapRole.MAP, MapType.ARRAY, 4, 16, 1),
    MapSpec("ring", MapRole.EVENTS, MapType.RINGBUF, 0, 0, 4096),
    MapSpec("wide", MapRole.MAP, MapType.HASH, 64, 8, 16),
)
LOOKUP = """
    r6 = r1
    *(u32 *)(r10 - 4) = 0
    r2 = r10
    r2 += -4
    r1 = map_fd:hash ll
    call bpf_map_lookup_elem
"""
# An unknown number in r0, and the packet's bounds in r2 and r3.
RANDOM = "call bpf_get_prandom_u32\n"
PACKET = "r2 = *(u32 *)(r1 + 0); r3 = *(u32 *)(r1 + 4)\n"
END = "r0 = 0; exit"

REJECTED = [
    ("null-check", "xdp", LOOKUP + "r0 = *(u64 *)(r0 + 0); exit"),
    ("null-check", "xdp", LOOKUP + "r0 += 4; r0 = 0; exit"),
    ("not-a-pointer", "xdp", "r2 = 5; r0 = *(u8 *)(r2 + 0); exit"),
    ("wrong-pointer", "xdp", PACKET + "r0 = *(u8 *)(r3 + 0); exit"),
    ("uninitialised-register", "xdp", "r0 = r4; exit"),
    ("stack-bounds", "xdp", "*(u64 *)(r10 - 520) = 0;" + END),
    ("bounds-unchecked", "xdp", "r1 = map_value:one ll; r0 = *(u64 *)(r1 + 16);" + END),
    ("bounds-unchecked", "xdp", RANDOM + "w0 &= 31; r1 = map_value:one ll; r1 += r0;"
     "r0 = *(u8 *)(r1 + 0);" + END),
    ("negative-index", "xdp", RANDOM + "r0 &= 7; r0 -= 4; r1 = map_value:one ll; r1 += r0;"
     "r0 = *(u8 *)(r1 + 0);" + END),
    ("unbounded", "xdp", RANDOM + "w0 &= 0x3fffffff; r1 = map_value:one ll; r1 += r0;"
     "r0 = *(u8 *)(r1 + 0);" + END),
    ("packet-bounds", "xdp", PACKET + "r0 = *(u8 *)(r2 + 0);" + END),
    ("context-access", "xdp", "r0 = *(u64 *)(r1 + 4); exit"),
    ("context-modified", "xdp", "r1 += 8; r0 = *(u32 *)(r1 + 0);" + END),
    ("context-variable", "xdp", "r6 = r1;" + RANDOM + "r0 &= 4; r6 += r0;"
     "r0 = *(u32 *)(r6 + 0);" + END),
    ("core-relocation", "kprobe", "call 195896080;" + END),
    ("helper-not-allowed", "kprobe", "call bpf_redirect;" + END),
    ("argument-type", "xdp", "r1 = 0; r2 = r10; call bpf_map_lookup_elem;" + END),
    ("map-type", "xdp", LOOKUP.replace("lookup_elem", "push_elem").replace(
        "call", "r2 = r10; r2 += -8; *(u64 *)(r2 + 0) = 0; r3 = 0; call") + END),
    ("stack-bounds", "xdp", LOOKUP.replace("map_fd:hash", "map_fd:wide") + END),
    ("reference-leak", "kprobe", "r1 = map_fd:ring ll; r2 = 8; r3 = 0;"
     "call bpf_ringbuf_reserve;" + END),
    ("pointer-arithmetic", "xdp", "r1 *= 2;" + END),
    ("pointer-arithmetic", "xdp", "w1 += 2;" + END),
    ("pointer-arithmetic", "xdp", RANDOM + "r0 <<= 40; r1 = map_value:one ll; r1 += r0;" + END),
    ("loop-infinite", "xdp", "r0 = 0; again: goto again"),
    ("unreachable", "xdp", "r0 = 0; exit; r0 = 1; exit"),
    ("no-exit", "xdp", "r0 = 0"),
    ("return-value", "cgroup_skb", "r0 = 7; exit"),
    ("misaligned", "xdp", "*(u32 *)(r10 - 6) = 0;" + END),
    ("frame-pointer", "xdp", "r10 = 0;" + END),
    ("licence", "kprobe", "licence:" + "r1 = r10; r1 += -8; r2 = 8; r3 = 0;"
     "call bpf_probe_read_kernel;" + END),
    ("legacy-packet-load", "kprobe", "r6 = r1; r0 = *(u32 *)skb[0]; exit"),
]  # fmt: skip


def judge(kind, text, kernel="6.12", **options):
    program = replace(
        assemble(text.removeprefix("licence:").replace(";", "\n")),
        prog_type=ProgType[kind.upper()],
        licence="proprietary" if text.startswith("licence:") else "GPL",
    )
    return verify(of_program(program, MAPS).program, profile(kernel), **options)


@pytest.mark.parametrize(("kind", "prog_type", "text"), REJECTED)
def test_what_the_model_rejects_is_explained(kind, prog_type, text):
    report = judge(prog_type, text)

    assert report.verdict == "reject", report
    explanation = explain(report.message)
    assert explanation is not None, report.message
    assert explanation.kind == kind, report.message


def test_the_stack_of_a_chain_of_calls():
    text = "*(u64 *)(r10 - 512) = 0; call f; r0 = 0; exit; f: *(u64 *)(r10 - 8) = 0; r0 = 0; exit"

    report = judge("xdp", text.replace("f: ", "f:\n"))

    assert report.message == "combined stack size of 2 calls is 528. Too large"
    assert explain(report.message).kind == "stack-depth"


def test_a_jump_that_leads_nowhere():
    code = bytes.fromhex("b700000000000000 0500050000000000 9500000000000000")
    report = verify(CorpusProgram("1", ProgType.XDP, code), profile("6.12"))

    assert explain(report.message).kind == "jump-range"


def test_stack_that_nobody_wrote():
    text = LOOKUP.replace("*(u32 *)(r10 - 4) = 0", "") + END

    assert explain(judge("xdp", text, "5.10").message).kind == "uninitialised-stack"
    assert judge("xdp", text, "6.6").verdict == "accept"


def test_leaks_of_the_unprivileged():
    report = judge("socket_filter", "r0 = r10; exit", privileged=False)

    assert explain(report.message).kind == "pointer-leak", report.message


# What kernels say, some of it only in other releases than those that the model was asked about.
SAID = {
    "R1 invalid mem access 'map_value_or_null'": "null-check",
    "R0 invalid mem access 'ptr_or_null_sock'": "null-check",
    "R7 invalid mem access 'inv'": "not-a-pointer",
    "R7 invalid mem access 'scalar'": "not-a-pointer",
    "R1 invalid mem access 'map_ptr'": "wrong-pointer",
    "Possibly NULL pointer passed to trusted arg0": "null-argument",
    "invalid indirect read from stack R2 off -8+0 size 8": "uninitialised-stack",
    "invalid read from stack off -8+0 size 8": "uninitialised-stack",
    "invalid read from stack R10 off=-520 size=8": "stack-bounds",
    "invalid write to stack R10 off=0 size=8": "stack-bounds",
    "invalid unbounded variable-offset read from stack R2": "stack-bounds",
    "invalid access to map value, value_size=8 off=8 size=8": "map-value-bounds",
    "R0 max value is outside of the array range": "bounds-unchecked",
    "R0 min value is outside of the allowed memory range": "bounds-unchecked",
    "R2 min value is negative, either use unsigned or 'var &= const'": "negative-index",
    "R2 unbounded memory access, use 'var &= const' or 'if (var < const)'": "unbounded",
    "R2 invalid zero-sized read: u64=[0,7]": "unbounded-size",
    "R1 offset is outside of the packet": "packet-bounds",
    "invalid access to packet, off=0 size=4, R1(id=0,off=0,r=0)": "packet-bounds",
    "cannot write into packet": "packet-write",
    "invalid bpf_context access off=4 size=8": "context-access",
    "dereference of modified ctx ptr R1 off=8 disallowed": "context-modified",
    "variable ctx access var_off=(0x0; 0x4) disallowed": "context-variable",
    "unknown func bpf_probe_read_kernel#113": "helper-unknown",
    "invalid func unknown#9999": "helper-unknown",
    "program of this type cannot use helper bpf_probe_read#4": "helper-not-allowed",
    "cannot call GPL-restricted function from non-GPL compatible program": "licence",
    "helper call might sleep in a non-sleepable prog": "sleeping",
    "helper call is not allowed in probe": None,
    "R1 type=scalar expected=map_ptr": "argument-type",
    "R2 type=inv expected=fp, pkt, pkt_meta, map_value": "argument-type",
    "cannot pass map_type 1 into func bpf_map_push_elem#87": "map-type",
    "write into map forbidden, value_size=8 off=0 size=8": "map-permission",
    "invalid access to map value pointer, value_size=4 off=8": "map-access",
    "fd 7 is not pointing to valid bpf_map": "map-fd",
    "Unreleased reference id=2 alloc_insn=3": "reference-leak",
    "BPF_EXIT instruction in main prog would lead to reference leak": "reference-leak",
    "R1 must be referenced when passed to release function": "reference-unknown",
    "bpf_spin_lock is missing unlock": "lock",
    "function calls are not allowed while holding a lock": "lock",
    "R1 pointer += pointer prohibited": "pointer-arithmetic",
    "R1 bitwise operator &= on pointer prohibited": "pointer-arithmetic",
    "R1 tried to subtract pointer from scalar": "pointer-arithmetic",
    "math between fp pointer and register with unbounded min value is not allowed":
        "pointer-arithmetic",
    "value -2147483648 makes pkt pointer be out of bounds": "pointer-arithmetic",
    "R0 leaks addr as return value": "pointer-leak",
    "R0 leaks addr into map": "pointer-leak",
    "R2 pointer comparison prohibited": "pointer-leak",
    "infinite loop detected at insn 3": "loop-infinite",
    "back-edge from insn 3 to 1": "back-edge",
    "BPF program is too large. Processed 1000001 insn": "too-complex",
    "The sequence of 8193 jumps is too complex.": "too-complex",
    "unreachable insn 4": "unreachable",
    "jump out of range from insn 0 to 9": "jump-range",
    "jump into the middle of ldimm64 insn 2": "jump-range",
    "last insn is not an exit or jmp": "no-exit",
    "At program exit the register R0 has value (0x7; 0x0) should have been in (0x0; 0x3)":
        "return-value",
    "At program exit the register R0 has smin=7 smax=7 should have been in [0, 3]": "return-value",
    "At callback return the register R0 has unknown scalar value should have been in [0, 1]":
        "return-value",
    "combined stack size of 2 calls is 576. Too large": "stack-depth",
    "the call stack of 9 frames is too deep !": "call-depth",
    "misaligned stack access off (0x0; 0x0)+0+-6 size 4": "misaligned",
    "R1 cannot write into rdonly_mem": "read-only",
    "BPF_MOV uses reserved fields": "reserved-fields",
    "BPF_EXIT uses reserved fields": "reserved-fields",
    "invalid bpf_ld_imm64 insn": "reserved-fields",
    "unknown opcode ff": "unknown-opcode",
    "loading/calling other bpf or kernel functions are allowed for CAP_BPF and CAP_SYS_ADMIN":
        "privileges",
    "Expected an initialized dynptr as arg #0": "dynptr",
    "R0 invalid sock_common access off=4 size=8": "socket-access",
    "negative offset ctx ptr R1 off=-8 disallowed": "context-modified",
    "R3 pointer %= pointer prohibited": "pointer-arithmetic",
    "R3 subtraction from stack pointer prohibited": "pointer-arithmetic",
    "5: (a5) if r1 < 0xa goto pc-2 infinite loop detected at insn 5": "loop-infinite",
    "invalid size of register spill": "spill",
    "attempt to corrupt spilled pointer on stack": "spill",
    "invalid shift 64": "operand",
    "div by zero": "operand",
    "R15 is invalid": "operand",
    "addr_space_cast insn can only convert between address space 1 and 0": "arena",
    "callback function not static": "callback",
    "Caller passes invalid args into func#1 ('g')": "function-arguments",
    "number of funcs in func_info doesn't match number of subprogs": "function-types",
    "helper access to the packet is not allowed": "packet-helper",
    "invalid zero-sized read": "unbounded-size",
    "bpf_spin_unlock is missing": "lock",
    "LD_ABS is not allowed in subprogs without BTF": "legacy-packet-load",
    "BPF_LD_[ABS|IND] instructions not allowed for this program type": "legacy-packet-load",
}  # fmt: skip


@pytest.mark.parametrize(("message", "kind"), SAID.items())
def test_what_kernels_say_is_explained(message, kind):
    explanation = explain(message)

    assert (explanation and explanation.kind) == kind


def recorded():
    """Return what three kernels said of the programs of the tables beside this file."""
    folder = Path(__file__).parent
    small = re.findall(
        r"^(?:\*|[\d.]+) (?:\d+|-): (.+)", (folder / "verdicts.txt").read_text(), re.MULTILINE
    )
    calls = re.findall(r"^-- [\d. ]+: (.+)", (folder / "calls.cases").read_text(), re.MULTILINE)
    return {message for message in (*small, *calls) if not message.startswith("accept")}


def test_nearly_all_that_kernels_said_is_explained():
    messages = recorded()
    unknown = {message for message in messages if explain(message) is None}

    assert len(messages) > 250
    assert len(unknown) * 20 < len(messages), unknown


def test_a_message_that_is_not_known_has_no_explanation():
    assert explain("something new in Linux 9.1") is None
    assert explain("") is None


def test_a_refusal_without_a_message_is_explained_by_its_errno():
    assert explain("", 22).kind == "program-type"
    assert explain("", 7).kind == "program-size"
    assert explain("", 1) is None


def test_words_of_the_message_stand_in_the_explanation():
    explanation = explain("R3 invalid mem access 'map_value_or_null'")

    assert explanation.why == (
        "r3 may be null here: what gave it (map_value_or_null) returns null where there is "
        "nothing to return"
    )
    assert explanation.fix == (
        "compare r3 with 0 first, and access it only on the branch where it is not"
    )


def test_more_than_the_twenty_most_common_rejections_are_explained():
    assert len(table.kinds()) > 40


@pytest.mark.parametrize("row", table._rows(), ids=lambda row: row.pattern.pattern[:30])
def test_the_rows_are_well_formed(row):
    named = set(row.pattern.groupindex)

    assert re.fullmatch("[a-z]+(-[a-z]+)*", row.kind)
    for text in (row.why, row.fix):
        assert set(re.findall(r"\{(\w+)\}", text)) <= named
        assert not text.endswith(".")
