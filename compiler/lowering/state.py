"""What lowering carries along: the function under construction and facts about the script."""

from __future__ import annotations

from pybpf.compiler import ir, tast
from pybpf.compiler.builder import Builder
from pybpf.compiler.builtins.values import LOWERED
from pybpf.dataclass import dataclass, field
from pybpf.isa.insn import ByteOrder
from pybpf.target.features import PROBE_READ_KERNEL, RINGBUF
from pybpf.types import Ptr, Space, Type, strip

WORD = 8


@dataclass(slots=True)
class Faults:
    """The reads that failed so far, as bits in words of 64; ``bit`` is what the next one sets."""

    bit: int | None = None
    words: dict[int, ir.VReg] = field(default_factory=dict)

    def note(self, b: Builder, result: ir.VReg) -> None:
        """Take note of what a read returned, which is negative where it failed."""
        if self.bit is None:
            return
        word, bit = divmod(self.bit, 64)
        failed = b.bin(ir.BinOp.RSH, result, 63)
        if bit:
            failed = b.bin(ir.BinOp.LSH, failed, bit)
        if word in self.words:
            failed = b.bin(ir.BinOp.OR, self.words[word], failed)
        self.words[word] = failed


@dataclass(frozen=True, slots=True)
class Lowering:
    """The state of one probe's lowering."""

    builder: Builder
    script: tast.TypedScript
    features: frozenset[str]
    byteorder: ByteOrder
    writes: dict[str, int] = field(default_factory=dict)
    """How many operations of the code so far change each map."""
    faults: Faults = field(default_factory=Faults)

    @property
    def ring(self) -> bool:
        """Whether records go through a BPF ring buffer."""
        return RINGBUF in self.features

    def failures(self, name: str) -> int:
        """Return the counter of refused updates of a map."""
        return failure_index(self.script, name)

    @property
    def one(self) -> int:
        """Return which word of the LOST map is a 1: the one behind the counters."""
        return 1 + len(self.script.maps)

    def changes(self, name: str) -> None:
        """Take note that what follows may find other values in a map."""
        self.writes[name] = self.writes.get(name, 0) + 1

    def is_pointer(self, t: Type) -> bool:
        """Whether the type is a pointer."""
        return isinstance(strip(t), Ptr)

    def read_helper(self, space: Space | None, *, text: bool) -> str:
        """Return the helper that reads from an address space."""
        kind = "_str" if text else ""
        if PROBE_READ_KERNEL not in self.features:
            return f"bpf_probe_read{kind}"
        side = "user" if space is Space.USER else "kernel"
        return f"bpf_probe_read_{side}{kind}"

    def clear(self, base: ir.Base, offset: int, size: int) -> None:
        """Store ``size`` zero bytes at ``base + offset``, in the widest aligned stores."""
        for at, width in pieces(offset, size):
            self.builder.store(base, at, width, 0)


def is_steady(keys: tuple[tast.Expr, ...]) -> bool:
    """Whether it is plain that keys are the same whenever one event asks for them."""
    return all(_is_steady(key) for key in keys)


def _is_steady(expr: tast.Expr) -> bool:
    match expr:
        case tast.Const() | tast.Text() | tast.CtxField():
            return True
        case tast.Context(name=name):
            return LOWERED[name].steady
        case tast.Convert(operand=tast.Context() | tast.CtxField() as operand):
            return _is_steady(operand)
        case _:
            return False


def failure_index(script: tast.TypedScript, name: str) -> int:
    """Return the index of a map's counter of refused updates; 0 counts lost records."""
    return 1 + [decl.name for decl in script.maps].index(name)


def pieces(offset: int, size: int, align: int = WORD) -> list[tuple[int, int]]:
    """Cut the bytes from ``offset`` on into (offset, width) of aligned accesses."""
    out: list[tuple[int, int]] = []
    end = offset + size
    while offset < end:
        width = align
        while offset % width or offset + width > end:
            width //= 2
        out.append((offset, width))
        offset += width
    return out
