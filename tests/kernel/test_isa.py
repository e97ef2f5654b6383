"""Our bytes, as the kernel's own disassemblers print them, are the instructions that we meant."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from pybpf.errors import KernelError
from pybpf.isa.abi import ProgType
from pybpf.isa.assembler import assemble
from pybpf.isa.encoding import decode, encode
from pybpf.isa.layout import strip_labels
from pybpf.kernel import programs

pytestmark = pytest.mark.kernel

BPFTOOL = shutil.which("bpftool")

OLDEST = """
    r6 = r1
    r7 = 7
    *(u64 *)(r10 - 8) = r7
    *(u32 *)(r10 - 16) = -5
    *(u8 *)(r10 - 12) = 255
    r2 = 0x1122334455667788 ll
    r3 = -5
    r3 s>>= 3
    w4 = -7
    w4 *= w3
    w4 >>= 5
    r3 = -r3
    w3 = -w3
    r2 = be16 r2
    r2 = le32 r2
    r2 %= 5
    r2 /= r7
    r2 ^= r7
    lock *(u64 *)(r10 - 8) += r7
    r1 = *(u16 *)(r10 - 16)
    call bpf_ktime_get_ns
    if r0 > 10 goto +0
    if w0 s<= -3 goto +0
    if r0 & 4 goto +0
    if r0 == r7 goto +0
    goto +0
"""

NEWER = """
    w8 = atomic_fetch_xor((u32 *)(r10 - 16), w8)
    r8 = atomic_fetch_add((u64 *)(r10 - 8), r8)
    lock *(u32 *)(r10 - 16) |= w8
    r0 = cmpxchg_64(r10 - 8, r0, r8)
    w0 = cmpxchg32_32(r10 - 16, w0, w8)
    r8 = xchg_64(r10 - 8, r8)
"""

NEWEST = """
    r8 = (s16)r8
    w8 = (s8)w8
    r8 = bswap32 r8
    r8 s/= 3
    w8 s%= 3
    r8 = *(s8 *)(r10 - 8)
    gotol +0
"""


@pytest.mark.parametrize(
    "text",
    [OLDEST, "r8 = 1\n*(u64 *)(r10 - 8) = r8\n*(u64 *)(r10 - 16) = r8\nr0 = 0" + NEWER,
     "r8 = 1\n*(u64 *)(r10 - 8) = r8" + NEWEST],
    ids=["3.18 to 5.1", "5.12", "6.6"],
)  # fmt: skip
def test_the_verifier_log_assembles_to_the_same_instructions(text):
    """The last instruction is refused, so that the log shows the way to it."""
    program = assemble(text + "\nr0 = r9\nexit")

    with pytest.raises(KernelError) as caught:
        programs.load(encode(program), ProgType.SOCKET_FILTER)

    log = caught.value.log
    if "R9 !read_ok" not in log:
        pytest.skip(f"this kernel stops before: {log.splitlines()[-2:]}")
    # Level 1 also says which registers are live, in lines that have no colon behind the number.
    lines = dict(re.findall(r"^(\d+): (\([0-9a-f]{2}\) .*)$", log, re.MULTILINE))
    in_order = [lines[slot] for slot in sorted(lines, key=int)]
    assert assemble("\n".join([*in_order, "exit"])) == strip_labels(program)


@pytest.mark.skipif(BPFTOOL is None, reason="bpftool is not installed")
def test_what_bpftool_dumps_assembles_to_the_loaded_bytes():
    # A jump to the next instruction would be optimised away; these jump over one.
    text = OLDEST.replace("    goto +0\n", "    r8 = 3\n").replace("goto +0", "goto +1")
    program = assemble(text + "\nr0 = 0\nexit")

    with programs.load(encode(program), ProgType.SOCKET_FILTER) as loaded:
        xlated = loaded.xlated()
        dumped = subprocess.run(
            [BPFTOOL, "prog", "dump", "xlated", "id", str(loaded.info().id)],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip

    assert encode(decode(xlated)) == xlated
    assert encode(assemble(dumped)) == xlated
