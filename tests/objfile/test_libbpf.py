"""What libbpf finds in objects, as ``bpftool -d prog loadall`` tells it, is what we find."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from pybpf.objfile.code import Use
from pybpf.objfile.maps import Origin
from pybpf.objfile.object import Object

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif("PYBPF_GUEST" in os.environ, reason="libbpf finds the same in any kernel"),
    pytest.mark.skipif(os.geteuid() != 0, reason="bpftool loads programs as root only"),
    pytest.mark.skipif(shutil.which("bpftool") is None, reason="bpftool is not installed"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed"),
]

NAMES = sorted(p.stem for p in (Path(__file__).parents[1] / "objects/src").glob("*.c"))
# libbpf 1.0 and later refuse the maps of section "maps", and so say nothing more.
LEGACY = {"maps_legacy", "maps_iproute2", "no_btf"}


@pytest.fixture(scope="module")
def told(each_clang, tmp_path_factory):
    """Return a function: an object's name in, what libbpf says of it out; pins are not kept."""
    folder = tmp_path_factory.mktemp("bpffs")

    @cache
    def told_of(name: str) -> str:
        file = each_clang / f"{name}.el.o"
        if not file.exists():
            pytest.skip("this clang cannot compile it")
        load = f"bpftool -d prog loadall {file} {folder}/x"
        # Maps that are pinned by their names are gone with the mount.
        own = "{ mount -t bpf bpf /sys/fs/bpf || :; }"
        script = f"{own} && mount -t bpf bpf {folder} && mkdir {folder}/x && {load}"
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, errors="replace",
            timeout=60, check=False,
        )  # fmt: skip
        return done.stdout + done.stderr

    return told_of


def findall(pattern: str, text: str) -> list[tuple[str, ...]]:
    return re.findall(f"^libbpf: {pattern}", text, re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LEGACY])
def test_programs_and_their_places(each_clang, told, name):
    text = told(name)
    found = Object.open(each_clang / f"{name}.el.o")
    theirs = findall(
        r"sec '(.*)': found program '(.*)' at insn offset (\d+) .*size (\d+) insns", text
    )
    assert theirs
    own = {(p.section, p.name) for p in found.programs}
    whole = {(section, function) for section, function, _, _ in theirs if section != ".text"}
    assert own == (whole or {(section, function) for section, function, _, _ in theirs})
    for section, function, _, size in theirs:
        if (program := found.program(function)) and program.section == section:
            rest = [f.slot for f in program.functions[1:]] or [program_slots(program)]
            assert min(rest) == int(size), function


def program_slots(program):
    from pybpf.isa.layout import slot_offsets

    return slot_offsets(program.program)[-1]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LEGACY])
def test_maps(each_clang, told, name):
    text = told(name)
    found = Object.open(each_clang / f"{name}.el.o")
    theirs: dict[str, dict[str, int]] = {}
    for map_name, key, value in findall(r"map '(.*)': found (\w+) = (\w+)", text):
        theirs.setdefault(map_name, {})[key] = int(value, 0)
    for map_name, key, size in findall(r"map '(.*)': found (key|value) \[\d+\], sz = (\d+)", text):
        theirs.setdefault(map_name, {})[f"{key}_size"] = int(size)
    own = {}
    for each in found.maps:
        own[each.name] = each
        if each.inner:
            own[each.inner.name] = each.inner
    for map_name, values in theirs.items():
        ours = own[map_name]
        fields = {
            "type": ours.map_type, "max_entries": ours.max_entries, "map_flags": ours.flags,
            "key_size": ours.key_size, "value_size": ours.value_size, "map_extra": ours.extra,
            "pinning": int(ours.pinned_by_name), "numa_node": ours.numa_node,
        }  # fmt: skip
        for key, value in values.items():
            assert fields[key] == value, (map_name, key)
    data = findall(r"map '(.*)' \(global data\): at sec_idx \d+, offset 0, flags (\w+)", text)
    ours = [m for m in found.maps if m.origin not in {Origin.BTF, Origin.LEGACY}]
    assert [name for name, _ in data] == [full_name(m) for m in ours]
    assert [int(flags, 16) & ~0x400 for _, flags in data] == [m.flags & ~0x400 for m in ours]
    slots = findall(
        r".maps relo #\d+: (?:map|prog) '(.*)' slot \[(\d+)\] points to \w+ '(.*)'", text
    )
    ours_in = [(m.name, str(i), n) for m in found.maps for i, n in m.values]
    assert sorted(slots) == sorted(ours_in)


def full_name(found) -> str:
    """Return the name as libbpf's log has it, which may be longer than the kernel's."""
    return found.kernel_name if found.name == found.origin.value else found.name


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LEGACY])
def test_what_instructions_refer_to(each_clang, told, name):
    text = told(name)
    found = Object.open(each_clang / f"{name}.el.o")
    names = {full_name(m): m.name for m in found.maps}
    theirs = {
        (program, int(slot), names[map_name])
        for program, map_name, slot in findall(
            r"prog '(.*)': found (?:data )?map \d+ \((.*), sec -?\d+, off \d+\) for insn #?(\d+)",
            text,
        )
    }
    ours = {
        (p.name, r.slot, r.name)
        for p in found.programs
        for r in p.references
        if r.use in {Use.MAP, Use.DATA} and r.name != ".kconfig"
    }
    of_main = {
        p.name: (p.functions[1].slot if len(p.functions) > 1 else 1 << 30) for p in found.programs
    }
    ours = {(program, slot, n) for program, slot, n in ours if slot < of_main[program]}
    assert ours == {row for row in theirs if row[0] in of_main}


@pytest.mark.parametrize(
    "name",
    [n for n in NAMES if n.startswith("subprogs") or n in {"callbacks", "timer", "many_programs"}],
)
def test_where_subprograms_end_up(each_clang, told, name):
    text = told(name)
    found = Object.open(each_clang / f"{name}.el.o")
    pattern = (
        r"prog '(.*)': insn #(\d+) relocated, imm (-?\d+) "
        r"points to subprog '(.*)' \(now at (\d+) offset\)"
    )
    rows = findall(pattern, text)
    assert rows
    seen = set()
    for program, _, _, function, slot in rows:
        if (ours := found.program(program)) is not None:
            assert (function, int(slot)) in {(f.name, f.slot) for f in ours.functions}
            seen.add(program)
    assert seen == {p.name for p in found.programs}
