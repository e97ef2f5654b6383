"""The names of the kernel's interface have the values that its headers give them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pybpf.isa.uapi import CONSTANTS

HEADERS = ("bpf.h", "pkt_cls.h", "if_ether.h", "in.h", "in6.h", "if_packet.h", "netfilter.h")


def test_values_are_those_of_the_headers(tmp_path):
    clang = shutil.which("clang")
    if clang is None:
        pytest.skip("clang is not installed")
    texts = [Path("/usr/include/linux", name) for name in HEADERS]
    if not all(path.exists() for path in texts):
        pytest.skip("the kernel's headers are not installed")
    words = set(re.findall(r"\w+", " ".join(path.read_text() for path in texts)))
    known = sorted(CONSTANTS.keys() & words)
    lines = [f"#include <linux/{name}>" for name in ("types.h", *HEADERS)]
    lines += ["#include <sys/socket.h>"]
    lines += [
        f'_Static_assert((__u64)({name}) == {CONSTANTS[name] % (1 << 64)}ull, "{name}");'
        for name in known
    ]
    source = tmp_path / "uapi.c"
    source.write_text("\n".join(lines))

    done = subprocess.run(
        [clang, "-w", "-fsyntax-only", source], capture_output=True, text=True, check=False
    )

    assert len(known) > 250
    assert (done.returncode, done.stderr) == (0, "")
