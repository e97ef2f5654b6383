"""What is verified, made ready: raw bytes in; slots, subprograms and maps by slot out.

A ``CorpusProgram`` is what a caller hands in, ``Checked`` what the structural checks (structure.py)
make of it. All indices count slots of eight bytes, as the kernel's messages do.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pybpf.corpus import CorpusMap, CorpusProgram
from pybpf.dataclass import dataclass, field

if TYPE_CHECKING:
    from pybpf.btf.reader import Btf
    from pybpf.verifier.progbtf import Function
    from pybpf.verifier.records import Fields
    from pybpf.verifier.state import Reg


@dataclass(frozen=True, slots=True, eq=False)
class MapInfo:
    """A map that a program names, as bpf(2) would have made it. Sizes in bytes.

    ``inner``: the template of a map in map. ``contents``: the first value's bytes of a frozen
    array, which loads may be known from (None: not known). ``fields``: special members of a value,
    by offset. Compared as objects: two maps are two, however alike.
    """

    type: int
    key_size: int
    value_size: int
    max_entries: int
    flags: int = 0
    inner: MapInfo | None = None
    name: str = ""
    contents: bytes | None = None
    frozen: bool = False
    btf_value: int = 0
    fields: Fields = field(default_factory=dict)


def map_info(spec: CorpusMap, fields_of: Callable[[CorpusMap], Fields]) -> MapInfo:
    """Return a corpus's map as the verifier sees it.

    ``fields_of`` tells the special members of a map's values.
    """
    inner = map_info(spec.inner_map, fields_of) if spec.inner_map else None
    contents = None
    if spec.frozen and spec.max_entries == 1:
        contents = spec.entries[0][1] if spec.entries else bytes(spec.value_size)
    return MapInfo(
        spec.type, spec.key_size, spec.value_size, spec.max_entries, spec.map_flags, inner,
        contents=contents, frozen=spec.frozen, btf_value=spec.btf_value, fields=fields_of(spec),
    )  # fmt: skip


class Raw:
    """An instruction's slot as it is: opcode, registers, off, imm (both signed)."""

    __slots__ = ("code", "dst", "imm", "off", "src")

    def __init__(self, code: int, dst: int, src: int, off: int, imm: int) -> None:
        self.code = code
        self.dst = dst
        self.src = src
        self.off = off
        self.imm = imm


def slots_of(insns: bytes) -> list[Raw]:
    """Return the slots that whole eights of bytes hold (a rest is left out)."""
    whole = insns[: len(insns) // 8 * 8]
    return [
        Raw(code, regs & 15, regs >> 4, off, imm)
        for code, regs, off, imm in struct.iter_unpack("<BBhi", whole)
    ]


class Subprogram:
    """A run of slots that is called: ``start`` … ``end`` - 1; ``depth`` of stack in bytes.

    ``is_async``: it was registered for a timer.
    ``calls`` and ``takes``: slots that call another, or take its address, with its number.
    """

    __slots__ = (
        "calls",
        "depth",
        "end",
        "has_ld_abs",
        "has_tail_call",
        "index",
        "is_async",
        "start",
        "takes",
    )  # fmt: skip

    def __init__(self, index: int, start: int, end: int) -> None:
        self.index = index
        self.start = start
        self.end = end
        self.depth = 0
        self.is_async = False
        self.has_tail_call = self.has_ld_abs = False
        self.calls: list[tuple[int, int]] = []
        self.takes: list[tuple[int, int]] = []


class Checked:
    """A program whose structure holds, and what is looked up per slot.

    ``subprogram_of``: index into ``subprograms`` by slot; ``subprogram_at``: by first slot.
    ``map_at``: by the first slot of a lddw that names one. ``successors``: slots control may go to
    next (calls: the one after). ``pruning``: slots where states are compared; ``forced``: where one
    must be kept; ``joins``: slots that are jumped to. ``live``: by slot, bits of registers whose
    values may still be read; ``dead``: the other registers. ``order``: slots, last reached first.
    ``functions``: by subprogram, what the program's types say. ``changes_packet``: subprograms
    that call helpers which move packets. ``iter_next``: slots of calls that advance an iterator.
    ``kfuncs``: the names of the kernel functions that are called, by slot. ``types``: the program's
    own, None where it has none; ``objects``: special members of structures, by number of these.
    ``catching``: the subprogram that exceptions end in, 0 none; ``throwing``: those that may throw.
    ``arena``: the arena that the program's pointers lead to. ``ksyms``: what a lddw of a variable
    or a symbol of the kernel leaves in its register, by slot.
    """

    __slots__ = (
        "arena", "catching", "changes_packet", "dead", "forced", "functions", "iter_next",
        "joins", "kfuncs", "ksyms", "live",
        "map_at", "maps_used", "objects", "order", "pruning", "slots", "subject", "subprogram_at",
        "subprogram_of", "subprograms", "successors", "throwing", "types",
    )  # fmt: skip

    def __init__(self, subject: CorpusProgram, slots: Sequence[Raw]) -> None:
        self.subject = subject
        self.slots = list(slots)
        self.subprograms: list[Subprogram] = []
        self.subprogram_of: list[int] = []
        self.subprogram_at: dict[int, int] = {}
        self.map_at: dict[int, MapInfo] = {}
        self.successors: list[tuple[int, ...]] = []
        self.pruning: set[int] = set()
        self.forced: set[int] = set()
        self.joins: set[int] = set()
        self.live: list[int] = []
        self.dead: list[tuple[int, ...]] = []
        self.maps_used: list[MapInfo] = []
        self.kfuncs = dict(subject.kfuncs)
        self.ksyms: dict[int, Reg] = {}
        self.changes_packet: set[int] = set()
        self.functions: dict[int, Function] = {}
        self.iter_next: set[int] = set()
        self.order: list[int] = []
        self.types: Btf | None = None
        self.catching = 0
        self.throwing: set[int] = set()
        self.arena: MapInfo | None = None
        self.objects: Mapping[int, Fields] = {}
