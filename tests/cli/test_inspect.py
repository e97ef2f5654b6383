"""`pybpf inspect`: what is in objects, raw instructions and loaded programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pybpf.isa.abi import MapType, ProgType
from pybpf.isa.assembler import assemble

NEITHER = "neither an object nor instructions: the last slot"


ROOT = Path(__file__).parents[2]


@pytest.fixture
def facts(pybpf, c_objects):
    """Return a function: the name of an object, and options, in; its facts out."""

    def look(name, *options):
        said = pybpf("inspect", "--json", c_objects / f"{name}.o", *options)
        assert (said.status, said.err) == (0, "")
        return json.loads(said.out)

    return look


def test_every_object_of_both_byte_orders(pybpf, c_objects):
    files = sorted(c_objects.glob("*.o"))
    assert len(files) >= 120
    for file in files:
        said = pybpf("inspect", file)
        assert (said.status, said.err) == (0, ""), file.name
        assert said.out.startswith(f"{file}: eBPF object, ")
        assert max(map(len, said.out.splitlines()[1:])) <= 120


def test_maps(facts):
    maps = {one["name"]: one for one in facts("maps_btf.el")["maps"]}
    assert maps["hash"] == {
        "name": "hash", "type": "hash", "key_size": 4, "value_size": 32, "max_entries": 10,
        "flags": 1, "key": "u32", "value": "struct value", "origin": ".maps", "pinned": False,
        "inner": "",
    }  # fmt: skip
    assert {one["inner"] for one in facts("maps_inner.eb")["maps"]} == {"", "array", "hash"}


@pytest.mark.parametrize("order", ["el", "eb"])
def test_a_program(facts, order):
    (deep,) = facts(f"subprogs_deep.{order}")["programs"]
    assert [f["name"] for f in deep["functions"]] == [
        "deep", "level4", "level3", "level2", "level1", "level0",
    ]  # fmt: skip
    assert deep["functions"][0]["prototype"] == "int deep(struct __sk_buff *skb)"
    assert deep["functions"][0]["stack"] == 8
    assert deep["slots"] == sum(f["slots"] for f in deep["functions"])
    assert (deep["type"], deep["section"], deep["loops"]) == ("socket_filter", "socket", 0)
    assert deep["first"]["text"] == "4.16"


def test_what_programs_use(facts):
    (use,) = facts("kfuncs.el")["programs"]
    assert use["kfuncs"] == {"bpf_not_there": 1, "bpf_task_from_pid": 1, "bpf_task_release": 1}
    assert use["first"]["text"] == "after 6.1, by 6.6"  # the weak one does not count
    (fields,) = facts("core_fields.eb")["programs"]
    assert fields["core"]["task_struct.comm[1]"] == 1
    assert fields["helpers"]["bpf_probe_read_kernel"] >= 3
    loops = {one["name"]: one for one in facts("loops.el")["programs"]}
    assert loops["over_packet"]["loops"] == 1


def test_relocations_and_types_are_counted(facts):
    found = facts("core_fields.el")
    section = next(s for s in found["sections"] if s["name"] == "raw_tp/sched_switch")
    assert section["type"] == "code"
    assert section["relocations"]["R_BPF_64_64"] >= 1
    assert found["types"]["struct"] >= 2
    assert found["externs"] == []
    assert {e["kind"] for e in facts("ksyms.el")["externs"]} >= {"ksym"}


def test_verdicts(facts, pybpf, c_objects):
    verdicts = [p["verdict"] for p in facts("loops.el", "--kernel", "6.12")["programs"]]
    assert [(v["kernel"], v["verdict"]) for v in verdicts] == [("6.12", "accept")] * 2
    assert verdicts[0]["processed"] > 20
    assert verdicts[0]["stack"] == [32]
    (refused,) = facts("refused.el", "--kernel", "6.12")["programs"]
    assert refused["verdict"]["message"].startswith("R0 pointer arithmetic on map_value_or_null")
    said = pybpf("inspect", "--kernel", "6.12", c_objects / "refused.el.o")
    assert "\n  verifier  reject on 6.12, " in said.out
    assert "\n            R0 pointer arithmetic on map_value_or_null" in said.out


def test_a_big_endian_object_is_not_judged(pybpf, c_objects):
    said = pybpf("inspect", "--kernel", "6.12", c_objects / "loops.eb.o")
    assert (said.status, said.out) == (1, "")
    assert said.err.endswith("the object is for a big-endian machine\n")


def test_one_program_of_many(facts, pybpf, c_objects):
    assert len(facts("many_programs.el")["programs"]) > 2
    name = facts("many_programs.el")["programs"][1]["name"]
    assert [p["name"] for p in facts("many_programs.el", "--prog", name)["programs"]] == [name]
    said = pybpf("inspect", c_objects / "many_programs.el.o", "--prog", "nobody")
    assert said.status == 1
    assert said.err.startswith("error: no program is called 'nobody'")


def test_raw_instructions(pybpf, stdin):
    stdin(bytes(assemble("r0 = 7 ll\ncall f\nexit\nf: *(u64 *)(r10 - 16) = r1\nexit")))
    said = pybpf("inspect", "-")
    assert said.out == (
        "<stdin>: raw eBPF instructions, little-endian, 48 bytes\n"
        "\n"
        "program <stdin>\n"
        "  size      6 slots in 2 functions, 2 blocks, no loops\n"
        "  functions <stdin> 4 (0 B stack), sub1 2 (16 B stack)\n"
        "  mix       exit 2, call 1, lddw 1, store 1\n"
        "  kernel    4.16: call of a function of its own\n"
    )


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "error: <stdin> is empty\n"),
        (
            b"\x95" + bytes(10),
            f"error: <stdin>: offset 0x8: {NEITHER} has only 3 of 8 bytes\n",
        ),
        (b"hello, world\n", None),
        (b"\x7fELF", None),
        (b"\x7fELF" + bytes(100), None),
    ],
)
@pytest.mark.parametrize("command", ["inspect", "dis"])
def test_what_is_neither(pybpf, stdin, command, data, error):
    stdin(data)
    said = pybpf(command, "-")
    assert (said.status, said.out) == (1, "")
    assert said.err.startswith("error: ")
    assert error is None or said.err == error


def test_graphs(pybpf, c_objects):
    said = pybpf("inspect", "--dot", "calls", c_objects / "subprogs_deep.el.o")
    assert said.out.startswith('digraph "deep" {\n')
    said = pybpf("inspect", "--dot", "flow", "--prog", "over_packet", c_objects / "loops.el.o")
    assert "style=dashed" in said.out
    assert said.out.count("digraph") == 1


def test_a_page(pybpf, c_objects, tmp_path):
    out = tmp_path / "out.html"
    for name in ("loops.eb", "loops.el"):  # the second is judged, for the running kernel
        said = pybpf("inspect", "--html", out, c_objects / f"{name}.o")
        assert (said.status, said.out, said.err) == (0, "", "")
        assert ('"verdict":"accept"' in out.read_text()) == (name == "loops.el")
    said = pybpf("inspect", "--html", tmp_path / "no" / "out", c_objects / "loops.el.o")
    assert (said.status, said.err) == (
        1, f"error: cannot write {tmp_path}/no/out: No such file or directory\n",
    )  # fmt: skip
    said = pybpf("inspect", "--html", out, "--json", c_objects / "loops.el.o")
    assert (said.status, said.err) == (1, "error: --html, --json and --dot do not go together\n")


def test_a_page_of_raw_instructions(pybpf, stdin, tmp_path):
    stdin(bytes(assemble("exit")))
    assert pybpf("inspect", "--html", tmp_path / "out.html", "-").status == 0
    assert '[0,"exit","","",-1,-1]' in (tmp_path / "out.html").read_text()


def test_an_object_without_programs(pybpf, tmp_path):
    """What is compiled of nothing has sections, and nothing that runs."""
    if shutil.which("clang") is None:
        pytest.skip("clang is not installed")
    source = tmp_path / "empty.c"
    source.write_text("")
    target = tmp_path / "empty.o"
    subprocess.run(["clang", "-target", "bpf", "-c", source, "-o", target], check=True)
    said = pybpf("inspect", target)
    assert said.status == 0
    assert "no licence, no programs" in said.out
    said = pybpf("dis", target)
    assert (said.status, said.out, said.err) == (0, "", f"{target} has no instructions\n")
    assert pybpf("inspect", "--dot", "flow", target).out == ""
    assert pybpf("inspect", "--html", tmp_path / "out.html", target).status == 0


def test_without_the_extension_and_without_root(c_objects):
    """An import of what talks to the kernel is an error."""
    code = (
        "import sys\nsys.modules['pybpf.kernel'] = None\nsys.modules['pybpf._bpf_syscall'] = None\n"
        "from pybpf.cli import main\nsys.exit(max(map(main, ["
        "['inspect', sys.argv[1]], ['dis', '-S', sys.argv[1]], ['inspect', '--json', sys.argv[1]],"
        "['inspect', '--dot', 'flow', sys.argv[1]]])))"
    )
    subprocess.run(
        [sys.executable, "-c", code, c_objects / "tc.el.o"], check=True, capture_output=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip


@pytest.mark.kernel
def test_a_loaded_program(pybpf):
    from pybpf.kernel.maps import Map
    from pybpf.kernel.programs import load

    with Map(MapType.ARRAY, "numbers", 4, 8, 3) as held:
        code = bytes(assemble(f"r1 = map_fd[{held.fileno()}] ll\ncall 5\nr0 = 1\nexit"))
        with load(code, ProgType.XDP, "looked_at") as prog:
            found = json.loads(pybpf("inspect", "--json", f"prog:{prog.info().id}").out)
            said = pybpf("inspect", f"prog:{prog.info().id}")
    assert found["kind"] == "loaded program"
    (one,) = found["maps"]
    assert (one["name"], one["type"], one["max_entries"]) == ("numbers", "array", 3)
    (program,) = found["programs"]
    assert (program["name"], program["type"]) == ("looked_at", "xdp")
    assert program["maps"] == {"numbers": 1}
    assert "bytes of machine code\n" in said.out
    said = pybpf("inspect", "--kernel", "6.1", "prog:1")
    assert said.status == 1
