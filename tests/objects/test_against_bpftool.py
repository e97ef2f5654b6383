"""Each C program is loaded, or refused, as `bpftool prog loadall` does it on this kernel."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pybpf.errors import KernelError, PybpfError

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(os.geteuid() != 0, reason="bpftool loads programs as root only"),
    pytest.mark.skipif(shutil.which("bpftool") is None, reason="bpftool is not installed"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed"),
]

NAMES = sorted(path.stem for path in (Path(__file__).parent / "src").glob("*.c"))
# libbpf 1.0 and later refuse the maps of section "maps".
LEGACY = {"maps_legacy", "maps_iproute2", "no_btf"}
# bpftool pins every program, and cannot pin one that nobody asked for.
UNPINNED = {"tracepoint"}
# bpftool cannot pin a map twice, as it would have to here.
PINNED = {"kept"}
# libbpf takes a forward declaration and the structure for different types.
FORWARD = {"kfuncs"}
OTHERS = LEGACY | UNPINNED | PINNED | FORWARD


@pytest.fixture(scope="session")
def c_objects(each_clang):
    """Return the objects of two clangs, one after the other."""
    return each_clang


@pytest.fixture
def bpftool(c_objects, tmp_path):
    """Return a function: what bpftool prints of an object, and of its programs and maps."""

    def bpftool(name):
        script = f"""
            mount -t bpf bpf {tmp_path}
            ! mount -t bpf bpf /sys/fs/bpf 2>/dev/null || :
            mkdir {tmp_path}/maps
            bpftool prog loadall {c_objects}/{name}.el.o {tmp_path}/all pinmaps {tmp_path}/maps
            for pin in {tmp_path}/all/*; do [ ! -e $pin ] || bpftool -j prog show pinned $pin; done
            echo; echo MAPS
            for pin in {tmp_path}/maps/*; do [ ! -e $pin ] || bpftool -j map show pinned $pin; done
        """
        return subprocess.run(
            ["unshare", "-m", "sh", "-ec", script], capture_output=True, text=True,
            errors="replace", timeout=60, check=False,
        )  # fmt: skip

    return bpftool


@pytest.mark.parametrize("name", [n for n in NAMES if n not in OTHERS])
def test_programs_and_maps_are_those_of_bpftool(opened, bpftool, name):
    theirs = bpftool(name)
    if "failed to guess program type" in theirs.stderr:
        pytest.skip("this bpftool does not know the type of program")
    held = opened(name)
    refusal = re.search(r"load failed: |failed to load|not resolved", theirs.stderr)
    if refusal:
        with pytest.raises(PybpfError) as caught:
            held.load()
        if isinstance(caught.value, KernelError):
            assert f": {caught.value.strerror}" in theirs.stderr
        return
    held.load()
    programs, _, maps = theirs.stdout.partition("MAPS")
    expected = {(row["name"][:15], row["tag"], row["type"]) for row in rows(programs)}
    own = {
        (p.name[:15], p.kernel.info().tag.hex(), p.prog_type.name.lower())
        for p in held.programs.values()
        if p.loaded
    }
    assert own == expected
    expected = {
        (row["type"], row["bytes_key"], row["bytes_value"], row["max_entries"])
        for row in rows(maps)
    }
    own = {
        (m.kernel.map_type.name.lower(), m.kernel.key_size, m.kernel.value_size, m.max_entries)
        for m in held.maps.values()
    }
    own |= {("struct_ops", 4, len(each.what.data), 1) for each in held._operations.values()}
    assert own == expected


def rows(text):
    """Return the objects of JSON in a text, one after the other."""
    decoder, found, text = json.JSONDecoder(), [], text.strip()
    while text:
        row, end = decoder.raw_decode(text)
        found.append(row)
        text = text[end:].strip()
    return found


@pytest.mark.parametrize("name", sorted(LEGACY | UNPINNED | FORWARD))
def test_what_bpftool_does_not_take_is_loaded_too(opened, bpftool, name):
    if name not in UNPINNED:
        assert bpftool(name).returncode != 0
    held = opened(name).load()
    assert any(program.loaded for program in held.programs.values())
