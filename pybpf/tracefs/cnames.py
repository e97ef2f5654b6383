"""Names of C integer types as kernel declarations spell them: words in, an Int out (LP64)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pybpf.types import Int

_KEYWORDS = frozenset({"char", "short", "int", "long", "signed", "unsigned"})

# Size in bytes and signedness, then the names; from include/linux/types.h, include/uapi/linux/
# types.h, include/uapi/asm-generic/posix_types.h and, for the last of them, the headers of the
# system calls that take them.
_TYPEDEFS = (
    (1, True, "s8 __s8 int8_t"),
    (1, False, "u8 __u8 uint8_t u_char bool _Bool"),
    (2, True, "s16 __s16 int16_t"),
    (2, False, "u16 __u16 uint16_t u_short __le16 __be16 __sum16 umode_t"),
    (4, True, "s32 __s32 int32_t pid_t clockid_t timer_t key_t mqd_t key_serial_t rwf_t"),
    (4, False, "u32 __u32 uint32_t u_int __le32 __be32 __wsum gfp_t fmode_t dev_t uid_t gid_t"),
    (4, False, "qid_t access_mask_t"),
    (8, True, "s64 __s64 int64_t ssize_t off_t loff_t time64_t ktime_t ptrdiff_t"),
    (8, False, "u64 __u64 uint64_t u_long __le64 __be64 size_t uintptr_t sector_t blkcnt_t"),
    (8, False, "ino_t dma_addr_t phys_addr_t resource_size_t aio_context_t"),
)  # fmt: skip

INTEGERS: Mapping[str, Int] = MappingProxyType(
    {name: Int(size, signed, name) for size, signed, names in _TYPEDEFS for name in names.split()}
)
"""The integer typedefs of the kernel that events and system calls are declared with."""


def integer(words: Sequence[str]) -> Int | None:
    """Return the type that a declaration's ``words`` name, or None if they name no known integer.

    The keywords may stand in any order, as in C: ``long unsigned int`` is ``unsigned long``.
    An enum is an unsigned int, as gcc and clang make it while no member is negative.
    """
    if len(words) == 1 and (known := INTEGERS.get(words[0])) is not None:
        return known
    name = " ".join(words)
    if words and words[0] == "enum":
        return Int(4, signed=False, name=name)
    if not words or not _KEYWORDS.issuperset(words):
        return None
    signed = "unsigned" not in words
    if "char" in words:
        return Int(1, signed, name)
    if "short" in words:
        return Int(2, signed, name)
    return Int(8 if "long" in words else 4, signed, name)
