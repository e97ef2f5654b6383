"""Internet checksums: bytes and sums in, sums of 32 bits or checksums of 16 out.

A sum is what the kernel calls __wsum: 32 bits whose halves may still have to be added. It depends
on the byte order of the machine, here always little-endian. Source: include/net/checksum.h.
"""

from __future__ import annotations

_M16, _M32 = 0xFFFF, 0xFFFFFFFF


def add(a: int, b: int) -> int:
    """Add two sums, the carry coming round."""
    total = a + b
    return (total & _M32) + (total >> 32)


def subtract(a: int, b: int) -> int:
    """Subtract a sum."""
    return add(a, ~b & _M32)


def partial(data: bytes, seed: int = 0) -> int:
    """Return the sum of bytes, as the 64-bit loops of x86-64 and arm64 leave it."""
    padded = data + bytes(-len(data) % 8)
    total = seed
    for at in range(0, len(padded), 8):
        total += int.from_bytes(padded[at : at + 8], "little")
        total = (total & ((1 << 64) - 1)) + (total >> 64)
    total = (total & _M32) + (total >> 32)
    return (total & _M32) + (total >> 32)


def fold(total: int) -> int:
    """Return the checksum that a sum stands for: its halves added, and inverted."""
    return ~narrow(total) & _M16


def narrow(total: int) -> int:
    """Return a sum with its halves added, which is a sum, too."""
    total = (total & _M16) + (total >> 16)
    return (total & _M16) + (total >> 16)


def replace(checksum: int, old: int, new: int) -> int:
    """Return a checksum after a word that it covers has changed."""
    return fold(add(subtract(~checksum & _M32, old), new))


def replace_by_difference(checksum: int, difference: int) -> int:
    """Return a checksum after what it covers has changed by a sum."""
    return fold(add(difference, ~checksum & _M32))
