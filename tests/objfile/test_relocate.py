"""CO-RE: each kind of relocation and each way it may end, compiled by clang; core.cases has them.

A case is a structure as the program has it (``local``), as the kernel has it (``target``, with a
variable for each type, or clang leaves it out), and an expression (``code``); lines after ``=`` are
the report, in whatever order clang has them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pybpf.dataclass import dataclass
from pybpf.errors import ObjectError
from pybpf.objfile.object import Object
from pybpf.objfile.relocate import Relocator, relocated, report_lines
from pybpf.target.kernel_types import read

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
    lines = (re.sub(r" +", " ", line).split(None, 1)[1] for line in report_lines(done))
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
