import platform

import pytest

from pybpf.target.arch import ARCHES
from pybpf.types import ULONG, strip

# Offsets as <asm/ptrace.h> of each architecture lays them out.
OFFSETS = [
    ("x86_64", "r15", 0),
    ("x86_64", "rbp", 32),
    ("x86_64", "rax", 80),
    ("x86_64", "rcx", 88),
    ("x86_64", "rdi", 112),
    ("x86_64", "orig_rax", 120),
    ("x86_64", "rip", 128),
    ("x86_64", "eflags", 144),
    ("x86_64", "rsp", 152),
    ("x86_64", "ss", 160),
    ("aarch64", "x0", 0),
    ("aarch64", "x30", 240),
    ("aarch64", "sp", 248),
    ("aarch64", "pc", 256),
    ("aarch64", "pstate", 264),
    ("riscv64", "pc", 0),
    ("riscv64", "sp", 16),
    ("riscv64", "a0", 80),
    ("riscv64", "t6", 248),
    ("s390x", "psw_addr", 16),
    ("s390x", "r2", 40),
    ("s390x", "r15", 144),
]
SIZES = {"x86_64": 168, "aarch64": 272, "riscv64": 256, "s390x": 152}


@pytest.mark.parametrize(("arch", "register", "offset"), OFFSETS)
def test_register(arch, register, offset):
    found = ARCHES[arch].regs.field(register)
    assert (found.offset, strip(found.type)) == (offset, ULONG)


@pytest.mark.parametrize("name", ARCHES)
def test_convention_names_registers(name):
    arch = ARCHES[name]
    assert arch.name == name
    assert arch.regs.size == SIZES[name]
    for register in (*arch.arguments, arch.retval, arch.ip, arch.sp):
        assert arch.regs.field(register) is not None


def test_the_fourth_argument_of_a_function_is_not_that_of_a_system_call():
    assert ARCHES["x86_64"].arguments == ("rdi", "rsi", "rdx", "rcx", "r8", "r9")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="compares with this machine's headers")
def test_agrees_with_the_c_compiler(tmp_path):
    import shutil
    import subprocess

    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    regs = ARCHES["x86_64"].regs
    lines = [f'_Static_assert(offsetof(R, {f.name}) == {f.offset}, "");' for f in regs.fields]
    lines.append(f'_Static_assert(sizeof(R) == {regs.size}, "");')
    source = tmp_path / "regs.c"
    start = "#include <stddef.h>\n#include <asm/ptrace.h>\ntypedef struct pt_regs R;\n"
    source.write_text(start + "\n".join(lines))
    subprocess.run([compiler, "-fsyntax-only", source], check=True)
