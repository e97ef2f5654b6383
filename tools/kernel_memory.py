"""Read tables that the running kernel keeps to itself: /proc/kcore in; kfuncs and prototypes out.

Needs root, CONFIG_PROC_KCORE, the kernel's BTF and no lockdown: a guest. x86-64 only. A person
updates pybpf/verifier/protos_table.py from what `python tools/kernel_memory.py` prints.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pybpf.btf.reader import Btf, Kind

# Bits of a kfunc's flags, from 0 (include/linux/btf.h).
KFUNC_FLAGS = [
    "acquire",
    "release",
    "ret_null",
    "kptr_get",
    "trusted_args",
    "sleepable",
    "destructive",
    "rcu",
    "iter_new",
    "iter_next",
    "iter_destroy",
    "rcu_protected",
    "fastcall",
    "arena_ret",
    "arena_arg1",
    "arena_arg2",
    "implicit_args",
]
HOOKS = {"tc": "sched_cls", "cgroup_skb": "cgroup"}
_POINTER = 1 << 40


class Memory:
    """The memory, the symbols and the types of the running kernel."""

    def __init__(self) -> None:
        self._file = os.open("/proc/kcore", os.O_RDONLY)
        header = os.pread(self._file, 64, 0)
        start, count = struct.unpack_from("<Q", header, 32)[0], struct.unpack_from("<H", header, 56)
        segments = os.pread(self._file, 56 * count[0], start)
        self._segments = [
            (address, size, offset)
            for kind, _, offset, address, _, _, size, _ in struct.iter_unpack("<IIQQQQQQ", segments)
            if kind == 1
        ]
        self.symbols: dict[str, int] = {}
        self.names: dict[int, str] = {}
        for line in Path("/proc/kallsyms").read_text().splitlines():
            address, _, name, *module = line.split()
            if not module:
                self.symbols.setdefault(name, int(address, 16))
                self.names.setdefault(int(address, 16), name)
        self.btf = Btf(Path("/sys/kernel/btf/vmlinux").read_bytes())

    def read(self, address: int, size: int) -> bytes:
        """Return bytes at an address; raises LookupError where there is no memory."""
        for start, length, offset in self._segments:
            if start <= address < start + length:
                data = os.pread(self._file, size, offset + address - start)
                if len(data) == size:
                    return data
        raise LookupError(hex(address))

    def u32(self, address: int) -> int:
        """Return the 32-bit number at an address."""
        return int.from_bytes(self.read(address, 4), "little")

    def u64(self, address: int) -> int:
        """Return the 64-bit number at an address."""
        return int.from_bytes(self.read(address, 8), "little")

    def offset(self, struct_name: str, member: str) -> int | None:
        """Return a member's offset in bytes; None where the structure has no such member."""
        number = self.btf.struct(struct_name)
        found = self.btf.member(number, member) if number else None
        return found.bit_offset // 8 if found else None

    def enumerators(self, *having: str) -> dict[str, int]:
        """Return names and values of the enumerations that have a value of one of some names."""
        values: dict[str, int] = {}
        for number in range(1, len(self.btf)):
            if self.btf.kind(number) is Kind.ENUM:
                found = dict(self.btf.enumerators(number))
                if found.keys() & set(having):
                    values |= found
        return values

    def type_name(self, ids: int) -> str:
        """Return the name of the type whose number lies at an address."""
        return self.btf.name(self.u32(ids))


def registered_kfuncs() -> Mapping[str, Mapping[str, str]]:
    """Return the registered functions: hook -> flags, apart by spaces -> names, the same way.

    Empty for kernels before the registration by hooks (5.18), and where it has another shape.
    """
    memory = Memory()
    sets = memory.offset("btf_kfunc_set_tab", "sets")
    table_at = memory.offset("btf", "kfunc_set_tab")
    hooks = memory.enumerators("BTF_KFUNC_HOOK_XDP")
    if sets is None or table_at is None:
        return {}
    table = memory.u64(memory.u64(memory.symbols["btf_vmlinux"]) + table_at)
    found: dict[str, dict[str, list[str]]] = {}
    for symbol, number in hooks.items():
        hook = symbol.removeprefix("BTF_KFUNC_HOOK_").lower()
        if hook == "max" or not (place := memory.u64(table + sets + 8 * number)):
            continue
        pairs = struct.iter_unpack("<II", memory.read(place + 8, 8 * memory.u32(place)))
        by_flags = found.setdefault(HOOKS.get(hook, hook), {})
        for kfunc, flags in pairs:
            by_flags.setdefault(_flags(flags), []).append(memory.btf.name(kfunc))
    return {
        hook: {flags: " ".join(sorted(set(names))) for flags, names in sorted(by_flags.items())}
        for hook, by_flags in found.items()
    }


def _flags(bits: int) -> str:
    names = (
        KFUNC_FLAGS[bit] if bit < len(KFUNC_FLAGS) else f"bit_{bit}"
        for bit in range(32)
        if bits >> bit & 1
    )
    return " ".join(names)


@dataclass(frozen=True, slots=True)
class _Types:
    """The numbers of one kernel's argument and result types, and of their flags."""

    args: Mapping[int, str]
    results: Mapping[int, str]
    flags: Mapping[int, str]

    @classmethod
    def of(cls, values: Mapping[str, int]) -> _Types:
        flags = ("PTR_", "MEM_", "OBJ_", "DYNPTR_TYPE_", "NON_OWN")
        return cls(
            {v: k.removeprefix("ARG_") for k, v in values.items() if k[:4] == "ARG_" and v < 64},
            {v: k.removeprefix("RET_") for k, v in values.items() if k[:4] == "RET_" and v < 64},
            {v: k for k, v in values.items() if k.startswith(flags) and v >= 256},
        )

    def text(self, kinds: Mapping[int, str], value: int) -> str:
        """Return a type with its flags as ``PTR_TO_MEM|MEM_RDONLY``."""
        flags = [self.flags.get(1 << b, f"bit {b}") for b in range(8, 32) if value >> b & 1]
        return "|".join([kinds.get(value & 0xFF, str(value & 0xFF)), *flags])


def prototypes() -> Iterator[tuple[str, str]]:
    """Yield the names of the kernel's prototypes of helpers, and what they are."""
    memory = Memory()
    types = _Types.of(memory.enumerators("ARG_CONST_MAP_PTR", "RET_INTEGER", "PTR_MAYBE_NULL"))
    proto = memory.btf.struct("bpf_func_proto")
    size = memory.btf.size(proto) if proto else None
    places = {
        name: memory.offset("bpf_func_proto", name)
        for name in ("arg1_type", "ret_type", "arg1_btf_id", "ret_btf_id")
    }
    marks = {
        name: memory.offset("bpf_func_proto", name)
        for name in ("gpl_only", "pkt_access", "might_sleep", "allow_fastcall", "allowed")
    }
    for symbol, address in sorted(memory.symbols.items()):
        if not re.fullmatch(r"\w+_proto(_\w+)?", symbol) or size is None:
            continue
        try:
            data = memory.read(address, size)
            if memory.u64(address) not in memory.names:
                continue
            yield symbol, _prototype(memory, types, data, places, marks)
        except LookupError:
            continue


def _prototype(
    memory: Memory,
    types: _Types,
    data: bytes,
    places: Mapping[str, int | None],
    marks: Mapping[str, int | None],
) -> str:
    def number(place: int, layout: str) -> int:
        value: int = struct.unpack_from(layout, data, place)[0]
        return value

    def struct_of(place: int) -> str:
        value = number(place, "<Q")
        return f"<{memory.type_name(value) if value > _POINTER else value}>" if value else ""

    arg_at, btf_at = places["arg1_type"] or 0, places["arg1_btf_id"] or 0
    args = [
        types.text(types.args, number(arg_at + 4 * i, "<I")) + struct_of(btf_at + 8 * i)
        for i in range(5)
    ]
    while args and args[-1] == "DONTCARE":
        args.pop()
    result = types.text(types.results, number(places["ret_type"] or 0, "<I"))
    result += struct_of(places["ret_btf_id"] or 0)
    flags = [f"!{name}" for name, place in marks.items() if place is not None and data[place]]
    return " ".join([*args, "->", result, *flags])


if __name__ == "__main__":
    for name, text in prototypes():
        print(f"{name:42} {text}")
