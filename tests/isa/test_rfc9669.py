"""The instruction table against the opcodes that RFC 9669 registers, written down on their own."""

from __future__ import annotations

import struct

import pytest

from pybpf.isa.assembler import assemble
from pybpf.isa.disassembler import disassemble
from pybpf.isa.encoding import decode, encode
from pybpf.isa.layout import strip_labels
from pybpf.isa.table import BY_OPCODE, FREE_FIELDS, ROWS, Group

# opcode, src, off, imm (* is any), conformance group, and the text for dst 1, src 2, off 3, imm 7
# and, in a second slot, 9
RFC_9669 = """
04 0  0    * base32   w1 += 7
05 0  *    0 base32   goto +3
06 0  0    * base32   gotol +7
07 0  0    * base64   r1 += 7
0c *  0    0 base32   w1 += w2
0f *  0    0 base64   r1 += r2
14 0  0    * base32   w1 -= 7
15 0  *    * base64   if r1 == 7 goto +3
16 0  *    * base32   if w1 == 7 goto +3
17 0  0    * base64   r1 -= 7
18 0  0    * base64   r1 = 0x900000007 ll
18 1  0    * base64   r1 = map_fd[7] ll
18 2  0    * base64   r1 = map_value[7] + 9 ll
18 3  0    * base64   r1 = btf_id[7] ll
18 4  0    * base64   r1 = subprog[+7] ll
18 5  0    * base64   r1 = map_idx[7] ll
18 6  0    * base64   r1 = map_idx_value[7] + 9 ll
1c *  0    0 base32   w1 -= w2
1d *  *    0 base64   if r1 == r2 goto +3
1e *  *    0 base32   if w1 == w2 goto +3
1f *  0    0 base64   r1 -= r2
20 0  0    * packet   r0 = *(u32 *)skb[7]
24 0  0    * divmul32 w1 *= 7
25 0  *    * base64   if r1 > 7 goto +3
26 0  *    * base32   if w1 > 7 goto +3
27 0  0    * divmul64 r1 *= 7
28 0  0    * packet   r0 = *(u16 *)skb[7]
2c *  0    0 divmul32 w1 *= w2
2d *  *    0 base64   if r1 > r2 goto +3
2e *  *    0 base32   if w1 > w2 goto +3
2f *  0    0 divmul64 r1 *= r2
30 0  0    * packet   r0 = *(u8 *)skb[7]
34 0  0    * divmul32 w1 /= 7
34 0  1    * divmul32 w1 s/= 7
35 0  *    * base64   if r1 >= 7 goto +3
36 0  *    * base32   if w1 >= 7 goto +3
37 0  0    * divmul64 r1 /= 7
37 0  1    * divmul64 r1 s/= 7
3c *  0    0 divmul32 w1 /= w2
3c *  1    0 divmul32 w1 s/= w2
3d *  *    0 base64   if r1 >= r2 goto +3
3e *  *    0 base32   if w1 >= w2 goto +3
3f *  0    0 divmul64 r1 /= r2
3f *  1    0 divmul64 r1 s/= r2
40 *  0    * packet   r0 = *(u32 *)skb[r2 + 7]
44 0  0    * base32   w1 |= 7
45 0  *    * base64   if r1 & 7 goto +3
46 0  *    * base32   if w1 & 7 goto +3
47 0  0    * base64   r1 |= 7
48 *  0    * packet   r0 = *(u16 *)skb[r2 + 7]
4c *  0    0 base32   w1 |= w2
4d *  *    0 base64   if r1 & r2 goto +3
4e *  *    0 base32   if w1 & w2 goto +3
4f *  0    0 base64   r1 |= r2
50 *  0    * packet   r0 = *(u8 *)skb[r2 + 7]
54 0  0    * base32   w1 &= 7
55 0  *    * base64   if r1 != 7 goto +3
56 0  *    * base32   if w1 != 7 goto +3
57 0  0    * base64   r1 &= 7
5c *  0    0 base32   w1 &= w2
5d *  *    0 base64   if r1 != r2 goto +3
5e *  *    0 base32   if w1 != w2 goto +3
5f *  0    0 base64   r1 &= r2
61 *  *    0 base32   r1 = *(u32 *)(r2 + 3)
62 0  *    * base32   *(u32 *)(r1 + 3) = 7
63 *  *    0 base32   *(u32 *)(r1 + 3) = r2
64 0  0    * base32   w1 <<= 7
65 0  *    * base64   if r1 s> 7 goto +3
66 0  *    * base32   if w1 s> 7 goto +3
67 0  0    * base64   r1 <<= 7
69 *  *    0 base32   r1 = *(u16 *)(r2 + 3)
6a 0  *    * base32   *(u16 *)(r1 + 3) = 7
6b *  *    0 base32   *(u16 *)(r1 + 3) = r2
6c *  0    0 base32   w1 <<= w2
6d *  *    0 base64   if r1 s> r2 goto +3
6e *  *    0 base32   if w1 s> w2 goto +3
6f *  0    0 base64   r1 <<= r2
71 *  *    0 base32   r1 = *(u8 *)(r2 + 3)
72 0  *    * base32   *(u8 *)(r1 + 3) = 7
73 *  *    0 base32   *(u8 *)(r1 + 3) = r2
74 0  0    * base32   w1 >>= 7
75 0  *    * base64   if r1 s>= 7 goto +3
76 0  *    * base32   if w1 s>= 7 goto +3
77 0  0    * base64   r1 >>= 7
79 *  *    0 base64   r1 = *(u64 *)(r2 + 3)
7a 0  *    * base64   *(u64 *)(r1 + 3) = 7
7b *  *    0 base64   *(u64 *)(r1 + 3) = r2
7c *  0    0 base32   w1 >>= w2
7d *  *    0 base64   if r1 s>= r2 goto +3
7e *  *    0 base32   if w1 s>= w2 goto +3
7f *  0    0 base64   r1 >>= r2
81 *  *    0 base64   r1 = *(s32 *)(r2 + 3)
84 0  0    0 base32   w1 = -w1
85 0  0    * base32   call bpf_get_prandom_u32
85 1  0    * base32   call pc+7
85 2  0    * base32   call kernel-function#7
87 0  0    0 base64   r1 = -r1
89 *  *    0 base64   r1 = *(s16 *)(r2 + 3)
91 *  *    0 base64   r1 = *(s8 *)(r2 + 3)
94 0  0    * divmul32 w1 %= 7
94 0  1    * divmul32 w1 s%= 7
95 0  0    0 base32   exit
97 0  0    * divmul64 r1 %= 7
97 0  1    * divmul64 r1 s%= 7
9c *  0    0 divmul32 w1 %= w2
9c *  1    0 divmul32 w1 s%= w2
9f *  0    0 divmul64 r1 %= r2
9f *  1    0 divmul64 r1 s%= r2
a4 0  0    * base32   w1 ^= 7
a5 0  *    * base64   if r1 < 7 goto +3
a6 0  *    * base32   if w1 < 7 goto +3
a7 0  0    * base64   r1 ^= 7
ac *  0    0 base32   w1 ^= w2
ad *  *    0 base64   if r1 < r2 goto +3
ae *  *    0 base32   if w1 < w2 goto +3
af *  0    0 base64   r1 ^= r2
b4 0  0    * base32   w1 = 7
b5 0  *    * base64   if r1 <= 7 goto +3
b6 0  *    * base32   if w1 <= 7 goto +3
b7 0  0    * base64   r1 = 7
bc *  0    0 base32   w1 = w2
bc *  8    0 base32   w1 = (s8)w2
bc * 16    0 base32   w1 = (s16)w2
bd *  *    0 base64   if r1 <= r2 goto +3
be *  *    0 base32   if w1 <= w2 goto +3
bf *  0    0 base64   r1 = r2
bf *  8    0 base64   r1 = (s8)r2
bf * 16    0 base64   r1 = (s16)r2
bf * 32    0 base64   r1 = (s32)r2
c3 *  * 0x00 atomic32 lock *(u32 *)(r1 + 3) += w2
c3 *  *  0x1 atomic32 w2 = atomic_fetch_add((u32 *)(r1 + 3), w2)
c3 *  * 0x40 atomic32 lock *(u32 *)(r1 + 3) |= w2
c3 *  * 0x41 atomic32 w2 = atomic_fetch_or((u32 *)(r1 + 3), w2)
c3 *  * 0x50 atomic32 lock *(u32 *)(r1 + 3) &= w2
c3 *  * 0x51 atomic32 w2 = atomic_fetch_and((u32 *)(r1 + 3), w2)
c3 *  * 0xa0 atomic32 lock *(u32 *)(r1 + 3) ^= w2
c3 *  * 0xa1 atomic32 w2 = atomic_fetch_xor((u32 *)(r1 + 3), w2)
c3 *  * 0xe1 atomic32 w2 = xchg32_32(r1 + 3, w2)
c3 *  * 0xf1 atomic32 w0 = cmpxchg32_32(r1 + 3, w0, w2)
c4 0  0    * base32   w1 s>>= 7
c5 0  *    * base64   if r1 s< 7 goto +3
c6 0  *    * base32   if w1 s< 7 goto +3
c7 0  0    * base64   r1 s>>= 7
cc *  0    0 base32   w1 s>>= w2
cd *  *    0 base64   if r1 s< r2 goto +3
ce *  *    0 base32   if w1 s< w2 goto +3
cf *  0    0 base64   r1 s>>= r2
d4 0  0   16 base32   r1 = le16 r1
d4 0  0   32 base32   r1 = le32 r1
d4 0  0   64 base64   r1 = le64 r1
d5 0  *    * base64   if r1 s<= 7 goto +3
d6 0  *    * base32   if w1 s<= 7 goto +3
d7 0  0   16 base32   r1 = bswap16 r1
d7 0  0   32 base32   r1 = bswap32 r1
d7 0  0   64 base64   r1 = bswap64 r1
db *  * 0x00 atomic64 lock *(u64 *)(r1 + 3) += r2
db *  *  0x1 atomic64 r2 = atomic_fetch_add((u64 *)(r1 + 3), r2)
db *  * 0x40 atomic64 lock *(u64 *)(r1 + 3) |= r2
db *  * 0x41 atomic64 r2 = atomic_fetch_or((u64 *)(r1 + 3), r2)
db *  * 0x50 atomic64 lock *(u64 *)(r1 + 3) &= r2
db *  * 0x51 atomic64 r2 = atomic_fetch_and((u64 *)(r1 + 3), r2)
db *  * 0xa0 atomic64 lock *(u64 *)(r1 + 3) ^= r2
db *  * 0xa1 atomic64 r2 = atomic_fetch_xor((u64 *)(r1 + 3), r2)
db *  * 0xe1 atomic64 r2 = xchg_64(r1 + 3, r2)
db *  * 0xf1 atomic64 r0 = cmpxchg_64(r1 + 3, r0, r2)
dc 0  0   16 base32   r1 = be16 r1
dc 0  0   32 base32   r1 = be32 r1
dc 0  0   64 base64   r1 = be64 r1
dd *  *    0 base64   if r1 s<= r2 goto +3
de *  *    0 base32   if w1 s<= w2 goto +3
"""

FIELDS = [
    (int(opcode, 16), src, off, imm, group, text)
    for opcode, src, off, imm, group, text in (
        line.split(maxsplit=5) for line in RFC_9669.strip().splitlines()
    )
]


def _slots(opcode, src, off, imm, text):
    """Return the bytes of a row with its own operands, and a slot to jump to whatever it does."""
    any_dst = text.split()[0] not in {"goto", "gotol", "call", "exit"} and "skb" not in text
    fields = (
        1 if any_dst else 0,
        2 if src == "*" else int(src),
        3 if off == "*" else int(off),
        7 if imm == "*" else int(imm, 0),
    )
    dst, source, offset, immediate = fields
    data = struct.pack("<BBhi", opcode, source << 4 | dst, offset, immediate)
    if opcode == 0x18:
        data += struct.pack("<ii", 0, 9 if "9" in text else 0)
    return data, data + bytes.fromhex("9500000000000000") * 9


@pytest.mark.parametrize(
    ("opcode", "src", "off", "imm", "group", "text"), FIELDS, ids=[row[-1] for row in FIELDS]
)
def test_registered_opcode(opcode, src, off, imm, group, text):
    data, padded = _slots(opcode, src, off, imm, text)

    program = decode(padded)

    assert strip_labels(program).insns[0].op.opcode == opcode
    assert disassemble(strip_labels(program)).splitlines()[0] == f"    {text}"
    assert encode(program) == padded
    assert encode(assemble(text + "\nexit" * 9))[: len(data)] == data
    assert program.insns[0].op.group == group


def test_every_other_row_is_registered():
    registered = {(opcode, src, off, imm) for opcode, src, off, imm, _, _ in FIELDS}
    ours = set()
    for row in ROWS:
        free = FREE_FIELDS[row.form]
        if row.name == "call_kfunc":
            free -= {"off"}  # the index into fd_array is Linux's own
        src, off, imm = (
            "*" if name in free else str(getattr(row, name) or 0) for name in ("src", "off", "imm")
        )
        if row.group not in {Group.LINUX, Group.CALLX}:
            ours.add((row.opcode, src, off, imm))

    assert ours == {
        (opcode, src, off, imm if imm == "*" else str(int(imm, 0)))
        for opcode, src, off, imm in registered
    }


def test_no_two_rows_are_ambiguous():
    """Rows of one opcode differ in a field that both of them fix."""
    for rows in BY_OPCODE.values():
        for number, one in enumerate(rows):
            for other in rows[number + 1 :]:
                differing = [
                    name
                    for name in ("src", "off", "imm")
                    if name not in FREE_FIELDS[one.form] | FREE_FIELDS[other.form]
                    and (getattr(one, name) or 0) != (getattr(other, name) or 0)
                ]
                assert differing, (one, other)


def test_names_are_unique():
    assert len({row.name for row in ROWS}) == len(ROWS) == 181


def test_only_free_fields_and_fixed_fields():
    """A row fixes no field that holds an operand."""
    for row in ROWS:
        for name in FREE_FIELDS[row.form] & {"src", "off", "imm"}:
            assert getattr(row, name) is None, (row, name)
