"""Describe the extension module ``pybpf._bpf_syscall``: declarations in, C source out.

setuptools takes ``ffi`` from here (``cffi_modules`` in setup.py). Meson runs this file as a script,
which writes the generated C code to the file named on the command line, and compiles it itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).parent
SOURCES = ("bpf_syscall.c", "child.c", "rings.c")
DECLARATIONS = "bpf_syscall.cdef.h"
FLAGS = ("-std=gnu11", "-Wall", "-Wextra", "-g0")  # Python itself is built with -g

ffi = FFI()
ffi.cdef((HERE / DECLARATIONS).read_text())
ffi.set_source(
    "pybpf._bpf_syscall",
    f'#include <stddef.h>\n#include <stdint.h>\n#include "{DECLARATIONS}"\n',
    # Relative to the root of the project, where setuptools runs: sdists want such paths.
    sources=[f"src/{name}" for name in SOURCES],
    depends=[f"src/{DECLARATIONS}"],
    include_dirs=["src"],
    extra_compile_args=list(FLAGS),
)

if __name__ == "__main__":
    ffi.emit_c_code(sys.argv[1])
