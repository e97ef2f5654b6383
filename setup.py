from __future__ import annotations

import sys
import sysconfig

from setuptools import setup

# One wheel for CPython 3.11 and later; a free-threaded CPython has no stable ABI to build for.
STABLE_ABI = not sysconfig.get_config_var("Py_GIL_DISABLED")
# Elsewhere there is no bpf(2): what works offline needs no extension.
LINUX = sys.platform == "linux"

setup(
    packages=[
        "pybpf",
        "pybpf.assembly",
        "pybpf.btf",
        "pybpf.cli",
        "pybpf.cli.events",
        "pybpf.compiler",
        "pybpf.compiler.builtins",
        "pybpf.compiler.eprobes",
        "pybpf.compiler.lowering",
        "pybpf.compiler.providers",
        "pybpf.events",
        "pybpf.events.eprobes",
        "pybpf.events.ftrace",
        "pybpf.inspect",
        "pybpf.isa",
        "pybpf.kernel",
        "pybpf.kernel.ftrace",
        "pybpf.objects",
        "pybpf.objfile",
        "pybpf.output",
        "pybpf.target",
        "pybpf.testing",
        "pybpf.testing.programs",
        "pybpf.tracefs",
        "pybpf.tracefs.dynevents",
        "pybpf.tracefs.filters",
        "pybpf.tracefs.sql",
        "pybpf.tracefs.triggers",
        "pybpf.verifier",
        "pybpf.vm",
        "pybpf.vm.emulated",
        "pybpf.vm.fast",
        "pybpf.vm.net",
    ],
    # pybpf/compiler is a symbolic link; naming the real folder ships its files once.
    package_dir={"pybpf": "pybpf", "pybpf.compiler": "compiler"},
    package_data={
        "pybpf": ["_bpf_syscall.pyi", "py.typed"],
        "pybpf.inspect": ["*.html"],
        "pybpf.target": ["profiles/*.xz"],
        "pybpf.tracefs.dynevents": ["data/*.xz"],
    },
    cffi_modules=["src/ffi_build.py:ffi"] if LINUX else None,
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LINUX and STABLE_ABI else {},
)
