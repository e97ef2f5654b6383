"""The types that generated programs need: nothing in; a BTF blob out, and the numbers in it.

A kernel wants types of maps whose values hold a lock, and of programs that have callbacks. All
generated programs share these: a lock and a value that holds one (type 3), a static function of one
argument, and a global one.

Source: Documentation/bpf/btf.rst.
"""

from __future__ import annotations

import struct

LOCKED_KEY, LOCKED_VALUE = 1, 3
STATIC_FUNCTION, GLOBAL_FUNCTION = 5, 6

_INT, _STRUCT, _FUNC, _PROTO = 1, 4, 12, 13
_STATIC, _GLOBAL = 0, 1
_NAMES = ("int", "bpf_spin_lock", "val", "value", "lock", "n", "f", "g", "a")


def _types() -> bytes:
    texts = b"\0" + b"".join(name.encode() + b"\0" for name in _NAMES)
    name = {text: texts.index(b"\0" + text.encode() + b"\0") + 1 for text in _NAMES}

    def record(kind: int, text: str, count: int, size: int, *rest: int) -> bytes:
        words = (name.get(text, 0), kind << 24 | count, size, *rest)
        return struct.pack(f"<{len(words)}I", *words)

    types = b"".join(
        (
            record(_INT, "int", 0, 4, 1 << 24 | 32),
            record(_STRUCT, "bpf_spin_lock", 1, 4, name["val"], 1, 0),
            record(_STRUCT, "value", 2, 16, name["lock"], 2, 0, name["n"], 1, 64),
            record(_PROTO, "", 1, 1, name["a"], 1),
            record(_FUNC, "f", _STATIC, 4),
            record(_FUNC, "g", _GLOBAL, 4),
        )
    )
    header = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(texts))
    return header + types + texts


BLOB = _types()
