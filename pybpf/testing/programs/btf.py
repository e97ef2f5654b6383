"""The types that generated programs need: nothing in; a BTF blob out, and the numbers in it.

A kernel wants types of maps whose values hold a lock, and of programs that have callbacks. All
generated programs share these: a lock and a value that holds one (type 3), a static function of one
argument, and a global one.
"""

from __future__ import annotations

from pybpf.btf.abi import Encoding, Kind, Linkage
from pybpf.btf.builder import Builder
from pybpf.btf.types import Composite, Field, Func, FuncProto, Int

LOCKED_KEY, LOCKED_VALUE = 1, 3
STATIC_FUNCTION, GLOBAL_FUNCTION = 5, 6


def _types() -> bytes:
    builder = Builder()
    for t in (
        Int("int", 4, Encoding.SIGNED, 32),
        Composite(Kind.STRUCT, "bpf_spin_lock", 4, (Field("val", 1, 0),)),
        Composite(Kind.STRUCT, "value", 16, (Field("lock", 2, 0), Field("n", 1, 64))),
        FuncProto(1, (("a", 1),)),
        Func("f", 4, Linkage.STATIC),
        Func("g", 4, Linkage.GLOBAL),
    ):
        builder.add(t)
    return builder.blob()


BLOB = _types()
