from collections import Counter
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from pybpf.corpus import CorpusProgram, Fixup, format_program, parse_program
from pybpf.isa.assembler import assemble
from pybpf.isa.encoding import decode
from pybpf.target.snapshot import SnapshotTarget
from pybpf.testing.programs import GENERATION, mutants, programs, runnable
from pybpf.testing.programs.compiled import compiled
from pybpf.testing.programs.mutate import drop, insert, mutate
from pybpf.testing.programs.types import FLAVOURS
from pybpf.testing.render import listing
from pybpf.vm.batch import vm_run

TARGETS = Path(__file__).parent.parent / "data" / "targets"
JUMPS = """
    r0 = 0
    if r1 == 0 goto out
    r2 = 5 ll
    r0 = 1
out:
    exit
"""


def program(text):
    return CorpusProgram("a", 1, bytes(assemble(text)))


def test_a_seed_always_gives_the_same_programs():
    assert list(programs(7, 40)) == list(programs(7, 40))
    assert list(programs(7, 10, 30)) == list(islice(programs(7, 40), 30, None))
    assert list(programs(7, 10)) != list(programs(8, 10))


def test_ids_tell_generation_seed_and_number():
    assert [p.id for p in programs(7, 2, 5)] == [f"{GENERATION}-7-5", f"{GENERATION}-7-6"]


def test_all_types_take_turns():
    types = Counter(p.prog_type for p in programs(1, 2 * len(FLAVOURS)))
    assert types == {flavour.prog_type: 2 for flavour in FLAVOURS}


def test_programs_survive_their_lines():
    for each in programs(3, 200):
        assert parse_program(format_program(each)) == each
        assert listing(each).count("\n") < each.slots


def test_most_operations_occur():
    seen = set()
    for each in runnable(2, 1500):
        seen |= {insn.op.name for insn in decode(each.insns).insns}
    assert seen >= {
        "call_local", "lddw_func", "lddw_map_value", "cmpxchg64", "xchg32",
        "atomic_fetch_add64", "sdiv64_imm", "smod32_reg", "movsx8_64", "ldxsb",
        "bswap32", "be16", "jset32_imm", "gotol", "ldabsw",
        "ldindb", "neg32",
    }  # fmt: skip


def test_runnable_programs_run_and_are_the_same_in_both_modes():
    for each in runnable(5, 150):
        assert vm_run(each) == vm_run(each, fast=True)


def test_dropped_slots_leave_jumps_where_they_led():
    shorter = drop(program(JUMPS), 4)
    assert decode(shorter.insns).insns[1].symbol == "L1"
    assert listing(shorter).splitlines()[1].endswith("if r1 == 0 goto 4")


def test_a_lddw_is_dropped_whole():
    for at in (2, 3):
        assert drop(program(JUMPS), at).slots == 4


def test_maps_follow_their_slots():
    one = CorpusProgram("a", 1, bytes.fromhex("bf" + "00" * 7) + bytes(16), fixups=(
        Fixup(1, "map_fd", 0),
    ))  # fmt: skip
    assert insert(one, 0, bytes(8)).fixups == (Fixup(2, "map_fd", 0),)
    assert drop(one, 0).fixups == (Fixup(0, "map_fd", 0),)
    assert drop(one, 1).fixups == ()


def test_names_of_kernel_functions_follow_their_slots():
    code = assemble("r6 = 1; call kernel-function#1; r0 = 0; exit")
    program = CorpusProgram("a", 6, bytes(code), kfuncs=((1, "bpf_rcu_read_lock"),))

    assert drop(program, 0).kfuncs == ((0, "bpf_rcu_read_lock"),)
    assert drop(program, 1).kfuncs == ()
    assert insert(program, 0, program.insns[:8]).kfuncs == ((2, "bpf_rcu_read_lock"),)


@pytest.mark.parametrize("seed", range(3))
def test_mutants_differ_and_can_be_written(seed):
    rng = Random(seed)
    changed = 0
    for each in programs(seed, 200):
        mutant = mutate(rng, each)
        changed += mutant.insns != each.insns
        assert len(mutant.insns) % 8 == 0
        assert parse_program(format_program(mutant)) == mutant
    assert changed > 150


def test_what_a_script_compiles_to_can_be_mutated(tmp_path):
    script = tmp_path / "a.ply"
    script.write_text("tracepoint:sched/sched_switch { @[comm] = count() }\nBEGIN { print(1) }\n")
    lines = tmp_path / "b.jsonl"
    lines.write_text("".join(format_program(each) + "\n" for each in programs(1, 2)))
    target = SnapshotTarget.load(TARGETS / "6.12.tar.gz")

    base = list(compiled([script, lines], target))

    assert [each.id for each in base[:2]] == ["a-0", "a-1"]
    assert [each.maps != () for each in base[:2]] == [True, True]
    assert base[2:] == list(programs(1, 2))
    twice = [list(mutants(base, seed=3, count=8)) for _ in range(2)]
    assert twice[0] == twice[1]
    assert twice[0][1].id == "a-1-3-1"
    assert all(a.insns != b.insns for a, b in zip(base, twice[0], strict=False))
