"""CO-RE: each kind of relocation and each way it may end, compiled by clang; core.cases has them.

A case is a structure as the program has it (``local``), as the kernel has it (``target``, with a
variable for each type, or clang leaves it out), and an expression (``code``); lines after ``=`` are
the report, in whatever order clang has them.

Every case is also put to libbpf, and so are programs about the types of real kernels: it must come
to the same instructions, or refuse what we refuse.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pybpf.btf.ext import CoreKind
from pybpf.dataclass import dataclass
from pybpf.errors import ObjectError
from pybpf.isa.encoding import encode
from pybpf.objfile.object import Object
from pybpf.objfile.relocate import Relocator, relocated
from pybpf.target.kernel_types import LIVE, read

GUEST = "PYBPF_GUEST" in os.environ
GUEST_IS_NO_OTHER = "libbpf relocates for given types alike in any kernel"
PRELUDE = """
#define P(t) ((struct t *)ctx)
#define FIELD(t, f, kind) __builtin_preserve_field_info(P(t)->f, kind)
#define OFF(t, f) FIELD(t, f, 0)
#define OFF2(access) __builtin_preserve_field_info(access, 0)
#define SIZE(t, f) FIELD(t, f, 1)
#define EXISTS(t, f) FIELD(t, f, 2)
#define EXISTS2(t, f) __builtin_preserve_field_info(((t *)ctx)->f, 2)
#define SIGNED(t, f) FIELD(t, f, 3)
#define LSHIFT(t, f) FIELD(t, f, 4)
#define RSHIFT(t, f) FIELD(t, f, 5)
enum { THERE, BYTES, MATCHES };
#define TYPE(t, kind) __builtin_preserve_type_info(*(typeof(t) *)0, kind)
#define ID(t, kind) __builtin_btf_type_id(*(typeof(t) *)0, kind)
#define VALUE(t, v, kind) __builtin_preserve_enum_value(*(typeof(t) *)v, kind)
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
"""
PROGRAM = """
#pragma clang attribute pop
__attribute__((section("raw_tp/sys_enter"))) unsigned long prog(void *ctx) { return CODE; }
char licence[] __attribute__((section("license"))) = "GPL";
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One of core.cases; ``clang`` is the oldest that can compile it."""

    title: str
    local: str
    target: str
    code: str
    report: tuple[str, ...]
    order: str = "el"
    clang: int = 14


def cases():
    """Yield what core.cases holds."""
    text = Path(__file__).with_name("core.cases").read_text()
    for block in text.split("\n\n"):
        title, *lines = block.strip().splitlines()
        rows = [line.split(None, 1) for line in lines]
        report = tuple(value for key, value in rows if key == "=")
        more = {key: value for key, value in rows if key != "="}
        more["clang"] = int(more.get("clang", "14"))
        yield Case(title.removeprefix("# "), report=report, **more)


CASES = {case.title: case for case in cases()}


def version_of(clang: str) -> int:
    done = subprocess.run([clang, "--version"], capture_output=True, text=True, check=True)
    return int(re.search(r"version (\d+)", done.stdout)[1])


@pytest.fixture(scope="session")
def clangs():
    """Return the names of the compilers that there are, by their versions."""
    names = ["clang", *(f"clang-{number}" for number in range(14, 24))]
    found = {version_of(name): name for name in names if shutil.which(name)}
    if not found:
        pytest.skip("clang is not installed")
    return found


@pytest.fixture(scope="session")
def compiled(clangs, tmp_path_factory):
    """Return a function: a case in, the files of its program and of its kernel's types out."""
    folder = tmp_path_factory.mktemp("core")

    def build(case: Case) -> tuple[Path, Path]:
        usable = [version for version in sorted(clangs) if version >= case.clang]
        if not usable:
            pytest.skip(f"it takes clang {case.clang}")
        name = re.sub(r"\W+", "-", case.title)
        texts = {
            "local": f"{PRELUDE}{case.local}{PROGRAM}".replace("CODE", case.code),
            "target": case.target,
        }
        files = []
        for what, text in texts.items():
            files.append(folder / f"{name}.{what}.o")
            argv = [clangs[usable[0]], "-target", f"bpf{case.order}", "-g", "-O2", "-w", "-x", "c"]
            argv += ["-c", "-", "-o", str(files[-1])]
            subprocess.run(argv, input=text, text=True, check=True)
        return files[0], files[1]

    return build


def told(done):
    """Return the report without slots and without the blanks that align it."""
    lines = (re.sub(r" +", " ", line).split(None, 1)[1] for line in map(str, done.report))
    return sorted(line.replace(" :", ":") for line in lines)


@pytest.mark.parametrize("title", CASES)
def test_cases(compiled, title):
    case = CASES[title]
    local, target = compiled(case)
    found = Object.open(local)

    done = Relocator(found, read(str(target))).examined(found.programs[0])

    assert told(done) == sorted(case.report)
    assert done.program.relocations == ()
    if done.refused:
        with pytest.raises(ObjectError, match=re.escape(f"{local}: section raw_tp/sys_enter")):
            relocated(found, found.programs[0], read(str(target)))
    else:
        assert relocated(found, found.programs[0], read(str(target))) == done


def test_all_kinds_are_there():
    words = {line.split()[0] for case in CASES.values() for line in case.report}

    assert len(words) == len(CoreKind) == 13


# --- libbpf ---------------------------------------------------------------------------------------


SOURCE = Path(__file__).parents[1] / "objects/relocated.c"
KERNELS = ("live", "6.1", "6.12", "7.3")


@pytest.fixture(scope="session")
def libbpf(tmp_path_factory):
    """Return a function: an object and a file of types in, programs as libbpf relocates them out.

    They are bytes by their names, None where libbpf refuses the object.
    """
    if os.geteuid() != 0:
        pytest.skip("libbpf makes maps before it relocates, as root only")
    program = tmp_path_factory.mktemp("libbpf") / "relocated"
    argv = ["cc", "-Wall", "-o", str(program), str(SOURCE), "-lbpf"]
    try:
        subprocess.run(argv, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no C compiler")
    except subprocess.CalledProcessError as error:
        if "bpf/libbpf.h" in error.stderr or "-lbpf" in error.stderr:
            pytest.skip("libbpf-dev is not installed")
        raise

    def relocate(file: Path, types: Path) -> dict[str, bytes] | None:
        argv = [str(program), str(file), str(types)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode in {0, 1}, done.stderr
        if done.returncode:
            assert "CO-RE relocation" in done.stderr
            return None
        rows = [line.split() for line in done.stdout.splitlines()]
        return {name: bytes.fromhex(code) for name, code in rows}

    return relocate


def ours(file: Path, types: Path) -> dict[str, bytes] | None:
    """Return the programs as we relocate them, None where we refuse the object."""
    found = Object.open(file)
    relocator = Relocator(found, read(str(types)))
    try:
        programs = [relocator.relocated(program) for program in found.programs if program.autoload]
    except ObjectError:
        return None
    return {done.program.name: code(done.program) for done in programs}


def code(program) -> bytes:
    """Return the bytes of a program's instructions."""
    return encode(program.program, "little")


def without_maps(file: Path, programs: dict[str, bytes] | None):
    """Return programs without the operands that depend on the descriptors of maps."""
    if programs is None:
        return None
    cleared = {}
    for name, plain in programs.items():
        data = bytearray(plain)
        for reference in Object.open(file).program(name).references:
            data[reference.slot * 8 + 1 : reference.slot * 8 + 16] = bytes(15)
        cleared[name] = bytes(data)
    return cleared


@pytest.mark.kernel
@pytest.mark.skipif(GUEST, reason=GUEST_IS_NO_OTHER)
@pytest.mark.parametrize("title", [case.title for case in CASES.values() if case.order == "el"])
def test_cases_as_libbpf_sees_them(compiled, libbpf, title):
    local, target = compiled(CASES[title])

    assert ours(local, target) == libbpf(local, target)


@pytest.fixture(scope="session")
def types_of(tool, guest, tmp_path_factory):
    """Return a function: a kernel in, a file with its types out."""

    def types(kernel: str) -> Path:
        if kernel == "live":
            if not Path(LIVE).exists():
                pytest.skip("this kernel has no types")
            return Path(LIVE)
        if GUEST:
            pytest.skip(GUEST_IS_NO_OTHER)
        try:
            image = guest._find_image(kernel).read_bytes()
        except guest.GuestError as error:
            pytest.skip(str(error))
        unpack = tool("kernel_btf")
        try:
            data = unpack.kernel_btf(image)
        except unpack.ImageError as error:
            pytest.skip(str(error))
        file = tmp_path_factory.mktemp("types") / kernel
        file.write_bytes(data)
        return file

    return types


@pytest.mark.kernel
@pytest.mark.parametrize("kernel", KERNELS)
def test_types_of_kernels_as_libbpf_sees_them(clangs, libbpf, types_of, kernel, tmp_path):
    types = types_of(kernel)
    sources = sorted((SOURCE.parent / "src").glob("core_*.c"))
    for version, clang in clangs.items():
        for source in sources:
            file = tmp_path / f"{source.stem}.{version}.o"
            argv = [clang, "-target", "bpf", "-g", "-O2", "-w", "-c", str(source), "-o", str(file)]
            subprocess.run(argv, check=True)

            mine = ours(file, types)

            assert mine
            assert without_maps(file, mine) == without_maps(file, libbpf(file, types))
