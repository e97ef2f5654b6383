import json
import shutil
import subprocess

import pytest

from pybpf.btf.writer import build
from pybpf.errors import KernelError
from pybpf.isa.abi import MapType, ProgType
from pybpf.isa.assembler import assemble
from pybpf.isa.insn import LineInfo, Program
from pybpf.types import CHAR, INT, U64, Array, Int, Ptr, Typedef, struct_of

pytestmark = pytest.mark.kernel

KEY = struct_of("", [("0", Int(4, signed=False, name="pid_t")), ("1", Array(CHAR, 16))])
ODD = struct_of(
    "odd",
    [
        ("zone", Int(4, signed=False, name="enum zone_type")),
        ("flag", Int(1, signed=False, name="bool")),
        ("page", Ptr(Typedef("struct page", INT))),
        ("text", Typedef("str", Array(CHAR, 0))),
    ],
)
TEXT = "r1 = 0x1122334455667788 ll\nr0 = 0\ncall sub\nexit\nsub: r0 = 7\nexit"


@pytest.fixture
def bpftool():
    found = shutil.which("bpftool", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if found is None:
        pytest.skip("bpftool is not installed")

    def run(*arguments):
        command = [found, "--json", *map(str, arguments)]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

    return run


def program(text, prog_type, *lines):
    made = assemble(text)
    infos = tuple(LineInfo(i, "dir/p.ply", 10 + i, 3, f"\tline {i};") for i in lines)
    return Program(made.insns, made.labels, "begin", prog_type, lines=infos)


def load(made, name=""):
    from pybpf.kernel import programs

    built = build(made, name, maps={"@": (KEY, U64), "odd": (ODD, ODD)})
    with programs.load_btf(built.btf) as btf:
        debug = programs.DebugInfo(btf, built.func_info, built.line_info)
        return programs.load(bytes(made), made.prog_type, name, debug=debug)


@pytest.mark.parametrize(
    "prog_type",
    [ProgType.TRACEPOINT, ProgType.KPROBE, ProgType.PERF_EVENT, ProgType.RAW_TRACEPOINT],
)
@pytest.mark.parametrize("lines", [(), (0, 1, 4), (1,)], ids=str)
def test_the_kernel_takes_it(prog_type, lines):
    load(program(TEXT, prog_type, *lines), "kprobe:vfs_*").close()


def test_the_verifier_quotes_the_script():
    with pytest.raises(KernelError) as error:
        load(program("r1 = 1\nr0 = r2\nexit", ProgType.TRACEPOINT, 0, 1))
    assert "; line 1;" in error.value.log
    assert "the kernel's log says: line 1;" in " ".join(error.value.hints)


def test_bpftool_shows_the_script(bpftool):
    with load(program(TEXT, ProgType.TRACEPOINT, 0, 2, 4), "interval:1s") as prog:
        dumped = bpftool("prog", "dump", "xlated", "id", prog.info().id, "linum")
    functions = [insn["proto"] for insn in dumped if "proto" in insn]
    assert [f.split("(")[0].split()[-1] for f in functions] == ["interval_1s", "sub"]
    sources = [
        (insn["src"], insn["line_num"], insn["line_col"]) for insn in dumped if "src" in insn
    ]
    assert sources == [("line 0;", 10, 3), ("line 2;", 12, 3), ("line 4;", 14, 3)]


@pytest.mark.parametrize("map_type", [MapType.HASH, MapType.PERCPU_HASH])
def test_bpftool_shows_keys_by_their_types(bpftool, map_type):
    from pybpf.kernel import programs
    from pybpf.kernel.fd import Fd
    from pybpf.kernel.syscall import ffi, lib, object_info

    built = build(program(TEXT, ProgType.TRACEPOINT), maps={"@": (KEY, U64)})
    with programs.load_btf(built.btf) as btf:
        made = lib.bpf_map_create(
            map_type, b"at", 20, 8, 4, 0, 0, btf.fileno(), *built.maps["@"], 0
        )
    assert made >= 0
    with Fd(made) as fd:
        key = (5).to_bytes(4, "little") + b"dd".ljust(16, b"\0")
        assert lib.bpf_map_update(made, key, ffi.new("char[]", 4096), 0) == 0
        info = ffi.new("struct bpf_map_info *")
        object_info(fd, info)
        (entry,) = bpftool("map", "dump", "id", info.id)
    assert entry["formatted"]["key"] == {"_0": 5, "_1": "dd"}
