"""Maps and programs of a compiled script, in this machine's kernel."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pybpf.compiler.pipeline import Options, compile_script
from pybpf.errors import KernelError
from pybpf.kernel import loader, programs
from pybpf.kernel.live import LiveTarget
from pybpf.kernel.loader import Loaded
from pybpf.script import Provider

pytestmark = pytest.mark.kernel

SCRIPT = """BEGIN {
    m[7, "key"] = "value"; n[1] = time; @["a", 2] = count(); @s["k"] = sum(-5);
    @q[0] = quantize(100); print(1);
}"""


def load(text=SCRIPT, **options):
    target = LiveTarget()
    script = compile_script(text, target, Options(**options))
    return Loaded(script)


def run_begin(loaded):
    for probe in loaded.script.probes:
        if probe.provider is Provider.BEGIN:
            loaded.program(probe).test_run()


def map_id(table):
    text = Path(f"/proc/self/fdinfo/{table.fileno()}").read_text()
    return re.search(r"map_id:\s+(\d+)", text)[1]


def dump(table):
    """Return what bpftool makes of a map's entries, one value for each."""
    tool = shutil.which("bpftool")
    if tool is None:
        pytest.skip("bpftool is not installed")
    command = [tool, "-j", "map", "dump", "id", map_id(table)]
    shown = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return [entry["formatted"] for entry in shown]


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("m", {"_0": 7, "_1": "key"}, "value"),
        ("@", {"_0": "a", "_1": 2}, 1),
    ],
)
def test_bpftool_shows_the_keys_and_values_of_hashes(name, key, value):
    text = SCRIPT.replace("BEGIN {", "BEGIN { m[pid, comm] = comm; @[comm, pid] = count();")
    with load(text) as loaded:
        run_begin(loaded)
        (entry,) = [e for e in dump(loaded.maps[name]) if e["key"] == key]
        if "values" in entry:
            assert sum(one["value"] for one in entry["values"]) == value
        else:
            assert entry["value"] == value


def refuse(*_, **__):
    raise KernelError(22, "refused")


@pytest.mark.parametrize("what", ["the BTF", "the maps with BTF"])
def test_a_kernel_that_does_not_take_types_does_without(monkeypatch, what):
    if what == "the BTF":
        monkeypatch.setattr(programs, "load_btf", refuse)
    else:
        real = loader.Map
        monkeypatch.setattr(
            loader, "Map", lambda *args, btf, **_types: refuse() if btf else real(*args)
        )
    with load() as loaded:
        run_begin(loaded)
        assert len(loaded.items("m")) == 1


def test_a_refused_map_leaves_none():
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(KernelError) as error:
        load("BEGIN { n[pid] = 1; m[pid] = 1; }", map_entries=(1 << 31) - 1)
    assert error.value.hints == ("2147483647 entries are too many: see --map-size",)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_programs_are_loaded_once():
    with load("BEGIN { print(1); } END { print(2); }") as loaded:
        first, second = loaded.script.probes
        assert loaded.program(first) is loaded.program(first)
        assert loaded.program(first) is not loaded.program(second)
        assert len(loaded.programs()) == 2


def test_a_script_without_output_has_no_ring():
    with load("BEGIN { m[pid] = 1; }") as loaded:
        assert loaded.ring is None
        assert loaded.lost() == 0
        assert loaded.stack(0) == ()


def test_lost_records_are_counted():
    with load("BEGIN { " + "print(str(0, 400)); " * 16 + "}", buffer_size=4096) as loaded:
        run_begin(loaded)
        assert len(list(loaded.ring.drain())) + loaded.lost() == 16


def test_stacks_are_read_by_their_number():
    with load("BEGIN { s[0] = stack; }") as loaded:
        run_begin(loaded)
        ((_, (value,)),) = loaded.items("s")
        frames = loaded.stack(int.from_bytes(value[:4], "little"))
        assert frames
        assert all(frame >> 63 for frame in frames)
        assert loaded.stack(-14) == loaded.stack(1 << 20) == ()
