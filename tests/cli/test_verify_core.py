"""`pybpf verify` (and `load`) of objects whose instructions depend on a kernel's types (CO-RE)."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from pybpf.target.kernel_types import LIVE

LOCAL = """
struct s { int a; int b; } __attribute__((preserve_access_index));
__attribute__((section("raw_tp/sys_enter"))) int prog(void *ctx)
{
	struct s *s = ctx;

	return __builtin_preserve_field_info(s->b, 0);
}
char licence[] __attribute__((section("license"))) = "GPL";
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory, clang):
    """Return a function that compiles a text and returns the file."""
    folder = tmp_path_factory.mktemp("core")

    def build(name, text):
        (folder / f"{name}.c").write_text(text)
        argv = [clang, "-target", "bpf", "-g", "-O2", "-c", f"{name}.c"]
        subprocess.run(argv, cwd=folder, check=True)
        return folder / f"{name}.o"

    return build


@pytest.fixture(scope="module")
def clang():
    import shutil

    if shutil.which("clang") is None:
        pytest.skip("clang is not installed")
    return "clang"


def test_what_the_kernel_lacks_is_told(pybpf, compiled):
    local, kernel = compiled("local", LOCAL), compiled("kernel", "struct s { int a; } v;")

    said = pybpf("verify", "--kernel", "6.12", "--btf", kernel, local)

    assert said.status == 1
    place = local.with_suffix(".c")
    assert (
        said.out
        == f"""\
reject   prog
{place}:7:2: error: invalid func unknown#195896080
    \treturn __builtin_preserve_field_info(s->b, 0);
    \t^
  instruction 0: call 195896080
  CO-RE byte_off struct s.b (0:1 @ 4): the kernel's struct s has no such field
  why: a CO-RE relocation asks for what the kernel's types do not have, and the program comes there
  fix: ask first whether it exists (bpf_core_field_exists, …), and use it only where it does
"""
    )


def test_the_note_is_in_the_json(pybpf, compiled):
    local, kernel = compiled("local", LOCAL), compiled("kernel", "struct t { int a; } v;")

    said = pybpf("verify", "--kernel", "6.12", "--btf", kernel, "--json", local)

    (program,) = json.loads(said.out)["programs"]
    assert program["kind"] == "core-relocation"
    assert program["note"] == "CO-RE byte_off struct s.b (0:1 @ 4): the kernel has no struct s"


def test_without_types_an_object_is_judged_as_it_is(pybpf, compiled):
    said = pybpf("verify", "--kernel", "6.12", compiled("local", LOCAL))

    assert said.out == "accept   prog  2 instructions processed\n"


def test_the_running_kernels_types_are_asked_when_it_is(pybpf, compiled):
    if not Path(LIVE).exists():
        pytest.skip("this kernel has no types")
    said = pybpf("verify", compiled("none", LOCAL.replace("struct s ", "struct pybpf_none ")))

    assert (
        "CO-RE byte_off struct pybpf_none.b (0:1 @ 4): the kernel has no struct pybpf" in said.out
    )


def test_an_object_that_no_loader_takes(pybpf, compiled):
    two = "struct s { int a; int b; } v; struct s___2 { int b; } w;"
    local, kernel = compiled("local", LOCAL), compiled("kernel", two)

    said = pybpf("verify", "--btf", kernel, local)

    assert said.status == 1
    assert said.err == (
        f"error: {local}: section raw_tp/sys_enter: instruction 0 of prog: CO-RE byte_off struct "
        "s.b (0:1 @ 4): ambiguous: it may be at struct s.b (0:1 @ 4) or struct s___2.b (0:0 @ 0)\n"
    )


def test_types_for_the_other_byte_order(pybpf, compiled, clang):
    local = compiled("local", LOCAL)
    file = local.with_name("big.o")
    argv = [clang, "-target", "bpfeb", "-g", "-xc", "-c", "-", "-o", file]
    subprocess.run(argv, input="struct s { int b; } v;", text=True, check=True)

    said = pybpf("verify", "--btf", file, local)

    assert said.err == f"error: {local}: the object is little-endian, the kernel big-endian\n"


ABOUT = "--btf tells a script nothing: it goes with an object, --type or --batch"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--btf", "/nosuch", "{file}"), "cannot read /nosuch: No such file or directory"),
        (("--btf", "{file}", "{file}"), "{file}: it has no section .BTF"),
        (("--btf", "{file}", "BEGIN {{ }}"), ABOUT),
    ],
)  # fmt: skip
def test_what_is_no_file_of_types(pybpf, c_objects, arguments, reason):
    file = c_objects / "no_btf.el.o"
    said = pybpf("verify", *(argument.format(file=file) for argument in arguments))

    assert said.err.splitlines()[0] == f"error: {reason.format(file=file)}"


@pytest.mark.kernel
@pytest.mark.skipif(os.geteuid() != 0, reason="loads a program, as root only")
def test_load_takes_the_same_files(pybpf, compiled):
    local, kernel = compiled("local", LOCAL), compiled("kernel", "struct s { long a; int b; } v;")

    said = pybpf("load", "-v", "--btf", kernel, local)

    assert said.status == 0
    assert "struct s.b (0:1 @ 4): 4 -> 8\n" in said.out + said.err
    said = pybpf("load", "--btf", local.with_suffix(".c"), local)
    assert said.status == 1
    assert said.err.startswith(f"error: {local.with_suffix('.c')}: offset 0x0: no BTF: ")
