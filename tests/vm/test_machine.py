"""The machine: control flow, frames, and the actions it refuses, with their full text."""

import pytest

from pybpf.errors import EncodingError, VmFault
from pybpf.isa.abi import MapType
from pybpf.isa.assembler import assemble
from pybpf.isa.insn import Program, insn
from pybpf.script import MapRole, MapSpec
from pybpf.vm.coverage import Coverage
from pybpf.vm.interpreter import interpret
from pybpf.vm.machine import Helper, Machine
from pybpf.vm.maps import ProgArray
from pybpf.vm.memory import Trap


def spec(name, kind=MapType.HASH, entries=4, value=8):
    return MapSpec(name, MapRole.MAP, kind, 4, value, entries)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("r0 = 7; exit", 7),
        ("r0 = -1; exit", (1 << 64) - 1),
        ("w0 = -1; exit", (1 << 32) - 1),
        ("r0 = 5; r0 s/= -2; exit", (1 << 64) - 2),
        ("r0 = -5; r0 s%= 3; exit", (1 << 64) - 2),
        ("r0 = 5; r0 /= 0; exit", 0),
        ("r0 = 5; r0 %= 0; exit", 5),
        ("r0 = 0x80; r0 = (s8)r0; exit", (1 << 64) - 128),
        ("r0 = 0x1234; r0 = be16 r0; exit", 0x3412),
        ("r0 = 0x1234; r0 = le16 r0; exit", 0x1234),
        ("r0 = 0x1234; r0 = bswap32 r0; exit", 0x34120000),
        ("r0 = 0x123456789abcdef0 ll; exit", 0x123456789ABCDEF0),
        ("r0 = 1; r0 = -r0; exit", (1 << 64) - 1),
        ("r0 = 1; goto L; r0 = 2; L: exit", 1),
        ("r0 = 1; gotol L; r0 = 2; L: exit", 1),
        ("r0 = 1; r1 = -1; if r1 s< 0 goto L; r0 = 2; L: exit", 1),
        ("r0 = 1; r1 = -1; if r1 < 0 goto L; r0 = 2; L: exit", 2),
        ("r0 = 1; r1 = 0x100000000 ll; if w1 == 0 goto L; r0 = 2; L: exit", 1),
        ("r1 = 300; *(u8 *)(r10 - 1) = r1; r0 = *(u8 *)(r10 - 1); exit", 44),
        ("*(u16 *)(r10 - 2) = -1; r0 = *(s16 *)(r10 - 2); exit", (1 << 64) - 1),
        ("*(u64 *)(r10 - 8) = -2; r0 = *(u64 *)(r10 - 8); exit", (1 << 64) - 2),
        (
            "r1 = addr_space_cast(r10, 0, 1); *(u8 *)(r1 - 1) = 3; r0 = *(u8 *)(r10 - 1); exit",
            3,
        ),
    ],
)
def test_a_program_computes(text, result):
    assert interpret(assemble(text)) == result


ATOMICS = """
    r3 = 5
    *(u64 *)(r10 - 8) = 12
    {}
    r0 = *(u64 *)(r10 - 8)
    r0 <<= 8
    r0 |= r3
    exit
"""


@pytest.mark.parametrize(
    ("insn", "memory", "register"),
    [
        ("lock *(u64 *)(r10 - 8) += r3", 17, 5),
        ("lock *(u32 *)(r10 - 8) |= r3", 13, 5),
        ("lock *(u64 *)(r10 - 8) &= r3", 4, 5),
        ("lock *(u64 *)(r10 - 8) ^= r3", 9, 5),
        ("r3 = atomic_fetch_add((u64 *)(r10 - 8), r3)", 17, 12),
        ("w3 = atomic_fetch_xor((u32 *)(r10 - 8), w3)", 9, 12),
        ("r3 = xchg_64(r10 - 8, r3)", 5, 12),
        ("r0 = 12; r0 = cmpxchg_64(r10 - 8, r0, r3)", 5, 5),
        ("r0 = 11; r0 = cmpxchg_64(r10 - 8, r0, r3)", 12, 5),
        ("r3 = load_acquire((u64 *)(r10 - 8))", 12, 12),
        ("store_release((u64 *)(r10 - 8), r3)", 5, 5),
    ],
)
def test_an_atomic_operation_changes_memory_and_register(insn, memory, register):
    assert interpret(assemble(ATOMICS.format(insn))) == memory << 8 | register


def test_a_compare_and_exchange_of_32_bits_zeroes_the_high_half_of_r0():
    text = "*(u32 *)(r10 - 4) = 5; r0 = -1; r3 = 9; w0 = cmpxchg32_32(r10 - 4, w0, w3); exit"

    assert interpret(assemble(text)) == 5


def test_a_call_passes_arguments_and_keeps_r6_to_r9():
    text = """
        r6 = 6
        r7 = 7
        r1 = 30
        r2 = 4
        call add
        r0 *= r6
        r0 += r7
        exit
    add:
        r6 = 100
        r7 = 100
        r0 = r1
        r0 += r2
        exit
    """

    assert interpret(assemble(text)) == 34 * 6 + 7


def test_every_frame_has_its_own_stack_and_may_use_its_callers():
    text = """
        *(u64 *)(r10 - 8) = 1
        r1 = r10
        call sub
        r0 = *(u64 *)(r10 - 8)
        exit
    sub:
        *(u64 *)(r10 - 8) = 40
        r2 = *(u64 *)(r10 - 8)
        r3 = *(u64 *)(r1 - 8)
        r2 += r3
        r2 += 1
        *(u64 *)(r1 - 8) = r2
        r0 = 0
        exit
    """

    assert interpret(assemble(text)) == 42


COUNTDOWN = """
    r1 = {}
    call sub
    exit
sub:
    r0 = r1
    if r1 == 0 goto out
    r1 -= 1
    call sub
    r0 += 1
out:
    exit
"""


def test_eight_frames_may_be_nested():
    assert interpret(assemble(COUNTDOWN.format(6))) == 6

    with pytest.raises(VmFault) as caught:
        interpret(assemble(COUNTDOWN.format(7)))
    assert str(caught.value) == "6: call sub: calls are nested more than 8 deep"


NOTHING = "holds nothing: it was never set, or a call destroyed it"
OUTSIDE = "of the stack of frame 0: outside its 512 bytes"
RESERVE = "r1 = map:ring ll; r2 = 24; r3 = 0; call bpf_ringbuf_reserve"


# A program, the instruction that is at fault, and why.
@pytest.mark.parametrize(
    ("text", "where", "reason"),
    [
        ("exit", "0: exit", f"r0 {NOTHING}"),
        ("r0 = r3; exit", "0: r0 = r3", f"r3 {NOTHING}"),
        ("r4 += 1; r0 = 0; exit", "0: r4 += 1", f"r4 {NOTHING}"),
        ("if r5 == 0 goto +0; r0 = 0; exit", "0: if r5 == 0 goto +0", f"r5 {NOTHING}"),
        ("*(u64 *)(r10 - 8) = r4; r0 = 0; exit", "0: *(u64 *)(r10 - 8) = r4", f"r4 {NOTHING}"),
        ("r1 = 1; call bpf_jiffies64; r0 = r1; exit", "2: r0 = r1", f"r1 {NOTHING}"),
        ("r0 = 0", "1: (end)", "the program does not end here: an exit is missing"),
        ("r0 = 0; L: goto L", "1: goto L", "the budget of 1000 instructions is used up"),
        (
            "r0 = *(u64 *)(r10 + 0); exit",
            "0: r0 = *(u64 *)(r10 + 0)",
            f"cannot load 8 bytes at offset 512 {OUTSIDE}",
        ),
        (
            "*(u8 *)(r10 - 513) = 1; exit",
            "0: *(u8 *)(r10 - 513) = 1",
            f"cannot store 1 byte at offset -1 {OUTSIDE}",
        ),
        (
            "r1 = 0; r0 = *(u32 *)(r1 + 4); exit",
            "1: r0 = *(u32 *)(r1 + 4)",
            "cannot load 4 bytes at 0x4: null pointer",
        ),
        (
            "r2 = 0x123456 ll; r0 = *(u8 *)(r2 + 0); exit",
            "1: r0 = *(u8 *)(r2 + 0)",
            "cannot load 1 byte at 0x123456: no memory of the program is there",
        ),
        (
            "call leak; r0 = *(u64 *)(r0 - 8); exit; leak: r0 = r10; exit",
            "1: r0 = *(u64 *)(r0 - 8)",
            "cannot load 8 bytes at offset 504 of the stack of frame 1: its function has returned",
        ),
        ("call 999; exit", "0: call 999", "there is no helper 999"),
        (
            "call bpf_rc_repeat; exit",
            "0: call bpf_rc_repeat",
            "the VM does not emulate bpf_rc_repeat",
        ),
        (
            "call kernel-function#7; exit",
            "0: call kernel-function#7",
            "the VM does not emulate kernel function #7",
        ),
        ("r1 = map:nosuch ll; r0 = 0; exit", "0: r1 = map_fd:nosuch ll", "there is no map nosuch"),
        (
            "r1 = map_fd[3] ll; r0 = 0; exit",
            "0: r1 = map_fd[3] ll",
            "map descriptor or index 3 stands for no map",
        ),
        (
            "r1 = map_value:h ll; r0 = 0; exit",
            "0: r1 = map_value:h ll",
            "map h is no array, its values have no fixed address",
        ),
        (
            "r1 = map:h ll; r0 = *(u32 *)(r1 + 0); exit",
            "1: r0 = *(u32 *)(r1 + 0)",
            "cannot load 4 bytes at offset 0 of map h: outside its 0 bytes",
        ),
        (
            "r1 = btf_id[5] ll; r0 = 0; exit",
            "0: r1 = btf_id[5] ll",
            "the VM has no kernel variables, such as that of BTF type 5",
        ),
        (
            "r1 = 8; r2 = r10; call bpf_map_lookup_elem; exit",
            "2: call bpf_map_lookup_elem",
            "0x8 is not a map",
        ),
        (
            "r1 = map:h ll; call bpf_map_lookup_elem; exit",
            "1: call bpf_map_lookup_elem",
            f"r2 {NOTHING}",
        ),
        (
            "r1 = map:ring ll; r2 = r10; call bpf_map_delete_elem; exit",
            "2: call bpf_map_delete_elem",
            "map ring is of type RINGBUF, which this helper does not take",
        ),
        (
            "r1 = map:h ll; r2 = 8; r3 = 0; call bpf_ringbuf_reserve; exit",
            "3: call bpf_ringbuf_reserve",
            "map h is of type HASH, which this helper does not take",
        ),
        (
            f"{RESERVE}; r0 = 0; exit",
            "5: exit",
            "a reservation of 24 bytes in ring buffer ring was neither submitted nor discarded",
        ),
        (
            f"{RESERVE}; r6 = r0; r1 = r0; r2 = 0; call bpf_ringbuf_submit; *(u64 *)(r6 + 0) = 1",
            "8: *(u64 *)(r6 + 0) = 1",
            "cannot store 8 bytes at offset 0 of a record of ring buffer ring: it was submitted",
        ),
        ("r0 = *(u8 *)skb[0]; exit", "0: r0 = *(u8 *)skb[0]", f"r6 {NOTHING}"),
        (
            "r6 = 1; r0 = *(u8 *)skb[0]; exit",
            "1: r0 = *(u8 *)skb[0]",
            "r6 does not hold the context",
        ),
        (
            "r1 = 5; r2 = 6; r3 = 0; call bpf_tail_call; exit",
            "3: call bpf_tail_call",
            "the first argument is 0x5, not the context",
        ),
    ],
)
def test_a_fault_names_the_instruction_and_the_reason(text, where, reason):
    machine = Machine([spec("h"), spec("ring", MapType.RINGBUF, 4096, 0)], budget=1000)

    with pytest.raises(VmFault) as caught:
        machine.run(assemble(text))

    assert str(caught.value) == f"{where}: {reason}"
    assert (caught.value.pc, caught.value.reason) == (int(where.partition(":")[0]), reason)


def test_a_machine_runs_on_after_a_fault():
    machine = Machine([spec("ring", MapType.RINGBUF, 4096, 0)])
    leak = assemble("r1 = map:ring ll; r2 = 8; r3 = 0; call bpf_ringbuf_reserve; r0 = 0; exit")
    with pytest.raises(VmFault):
        machine.run(leak)

    assert machine.run(assemble("r0 = 1; exit")) == 1
    assert machine.maps["ring"].drain() == []


def test_a_jump_to_nowhere_is_no_program():
    with pytest.raises(EncodingError, match="slot 9 is outside the program"):
        interpret(Program((insn("ja", off=8), insn("exit"))))


def test_raw_bytes_are_decoded_first():
    assert interpret(bytes(assemble("r0 = 3; exit"))) == 3
    with pytest.raises(EncodingError, match="no instruction has opcode 0xff"):
        interpret(b"\xff" + bytes(7))


@pytest.mark.parametrize(("limit", "result"), [(0, 0), (1, 1), (5, 5)])
def test_may_goto_goes_round_as_often_as_the_machine_allows(limit, result):
    program = assemble("r0 = 0; L: may_goto out; r0 += 1; goto L; out: exit")

    assert Machine(max_loops=limit).run(program) == result


def test_packet_loads_are_big_endian_and_end_the_program_beyond_the_packet():
    machine = Machine()
    machine.packet = bytes(range(1, 9))

    def run(text):
        return machine.run(assemble(text), 0x1000)

    assert run("r6 = r1; r0 = *(u16 *)skb[1]; exit") == 0x0203
    assert run("r6 = r1; r2 = 3; r0 = *(u32 *)skb[r2 + 1]; exit") == 0x05060708
    assert run("r6 = r1; r0 = *(u32 *)skb[5]; r0 = 9; exit") == 0
    assert run("r6 = r1; r2 = -1; r0 = *(u8 *)skb[r2 + 0]; r0 = 9; exit") == 0


def test_big_endian_machines_differ_in_memory_and_swaps():
    text = "*(u32 *)(r10 - 4) = 0x01020304; r0 = *(u8 *)(r10 - 4); exit"

    assert interpret(assemble(text)) == 4
    assert interpret(assemble(text), byteorder="big") == 1
    assert interpret(assemble("r0 = 0x1234; r0 = be16 r0; exit"), byteorder="big") == 0x1234
    assert interpret(assemble("r0 = 0x1234; r0 = le16 r0; exit"), byteorder="big") == 0x3412


def tail_calling(*programs):
    machine = Machine([spec("jumps", MapType.PROG_ARRAY)])
    table = machine.maps["jumps"]
    assert isinstance(table, ProgArray)
    for index, text in enumerate(programs):
        table.put(index, assemble(text))
    return machine


JUMP = "r1 = r6; r2 = map:jumps ll; r3 = {}; call bpf_tail_call;"


def test_a_tail_call_does_not_come_back():
    machine = tail_calling("r0 = *(u8 *)(r1 + 0); exit")
    ctx = machine.memory.add(bytearray(b"\x2a"), "ctx")

    assert machine.run(assemble(f"r6 = r1; {JUMP.format(0)} r0 = 1; exit"), ctx.address) == 42


def test_a_tail_call_to_an_empty_index_goes_on_behind_it():
    machine = tail_calling()

    assert machine.run(assemble(f"r6 = r1; {JUMP.format(3)} r0 = 1; exit"), 0) == 1


def test_at_most_33_tail_calls_follow_each_other():
    machine = tail_calling(
        f"r6 = r1; r2 = map_value:n ll; r0 = *(u64 *)(r2 + 0); r0 += 1; *(u64 *)(r2 + 0) = r0;"
        f" {JUMP.format(0)} r0 = 7; exit"
    )
    machine.add_map(spec("n", MapType.ARRAY, 1))

    assert machine.run(assemble(f"r6 = r1; {JUMP.format(0)} r0 = 1; exit"), 0) == 7
    assert list(machine.maps["n"].items()) == [(bytes(4), ((33).to_bytes(8, "little"),))]


def test_a_tail_call_in_a_subprogram_returns_to_its_caller():
    machine = tail_calling("r0 = 20; exit")
    program = assemble(f"call sub; r0 += 1; exit; sub: r6 = r1; {JUMP.format(0)} r0 = 1; exit")

    assert machine.run(program, 0) == 21


def test_a_fault_behind_a_tail_call_names_the_other_program():
    machine = tail_calling("r0 = 1; r0 = 2; r0 = r9; exit")

    with pytest.raises(VmFault, match=r"^2: r0 = r9: r9 holds nothing"):
        machine.run(assemble(f"r6 = r1; {JUMP.format(0)} r0 = 1; exit"), 0)


def test_values_of_an_array_have_an_address_with_an_offset():
    machine = Machine([spec("a", MapType.ARRAY, 1, 16)])
    text = "r1 = map_value:a + 8 ll; *(u64 *)(r1 + 0) = 5; r0 = *(u64 *)(r1 + 0); exit"

    assert machine.run(assemble(text)) == 5
    (_, (value,)) = next(machine.maps["a"].items())
    assert value == bytes(8) + (5).to_bytes(8, "little")


def test_a_map_without_a_name_is_found_by_its_index():
    machine = Machine([spec("a", MapType.ARRAY, 1), spec("b", MapType.ARRAY, 1)])

    machine.run(assemble("r1 = map_idx_value[1] ll; *(u64 *)(r1 + 0) = 5; r0 = 0; exit"))

    assert [next(machine.maps[n].items())[1][0][0] for n in "ab"] == [0, 5]


def test_the_memory_argument_is_the_callers():
    memory = bytearray(b"abcd")

    assert interpret(assemble("*(u8 *)(r1 + 1) = 120; r0 = r2; exit"), memory) == 4
    assert memory == b"axcd"
    assert interpret(assemble("r0 = r1; exit")) == 0


def test_helpers_and_kernel_functions_can_be_given():
    twice = Helper(1, lambda _, n: 2 * n)
    program = assemble("r1 = 21; call bpf_sys_close; exit")

    assert interpret(program, helpers={"bpf_sys_close": twice}) == 42
    machine = Machine(kfuncs={"#5": twice})
    assert machine.run(assemble("r1 = 4; call kernel-function#5; exit")) == 8


def test_a_helper_that_refuses_is_a_fault_of_the_call():
    def refuse(_):
        raise Trap("no")

    program = assemble("call bpf_jiffies64; exit")

    with pytest.raises(VmFault, match=r"^0: call bpf_jiffies64: no$"):
        interpret(program, helpers={"bpf_jiffies64": Helper(0, refuse)})


def test_a_trace_sees_every_instruction_with_its_registers():
    seen = []
    program = assemble("r0 = 1; r0 += r1; exit")

    interpret(program, trace=lambda p, i, regs: seen.append((p is program, i, regs[:3])))

    assert seen == [(True, 0, (None, 0, 0)), (True, 1, (1, 0, 0)), (True, 2, (1, 0, 0))]


def test_coverage_knows_what_ran():
    program = assemble("if r1 == 0 goto L; r0 = 1; exit; L: r0 = 2; exit")
    coverage = Coverage()
    machine = Machine(trace=coverage)

    assert coverage.missed(program) == (0, 1, 2, 3, 4)
    machine.run(program, 0)
    assert coverage.missed(program) == (1, 2)
    machine.run(program, 1)
    assert coverage.missed(program) == ()
    assert coverage.ran(program) == {0, 1, 2, 3, 4}
