"""Programs of a few lines of text, and what kernels say of them: a file in; corpus programs out.

A case begins with ``== NAME [TYPE]``, then come instructions, then what kernels say: lines
``-- KERNELS: accept`` or ``-- KERNELS: the last line of the verifier's log``. Expectations are
recorded: ``python -m pybpf.testing.cases KERNEL FILE`` lets a guest judge all cases.

Maps are named by letters (MAPS); labels ``cb…`` and ``sub…`` begin static functions, ``glob…``
global ones (``glob_mem`` takes a u64 *, ``glob_ctx`` the context of XDP, ``glob_void`` returns
nothing); ``call @NAME`` calls a function of the kernel. ``{NAME}`` stands for lines that many
programs begin with (PARTS).
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pybpf.corpus import CorpusMap, CorpusProgram, Fixup, FixupKind, Verdict
from pybpf.isa.abi import MapFlag, MapType, ProgFlag, ProgType
from pybpf.isa.assembler import assemble
from pybpf.isa.encoding import encode
from pybpf.isa.layout import slot_offsets
from pybpf.testing.programs.code import func_info

KERNELS = ("6.1", "6.12", "7.3")


def _blob() -> tuple[bytes, dict[str, int]]:
    """Return types: values with a lock, a timer and a work queue, and functions."""
    texts = bytearray(b"\0")
    types: list[bytes] = []
    number: dict[str, int] = {}

    def text(word: str) -> int:
        if not word:
            return 0
        texts.extend(word.encode() + b"\0")
        return len(texts) - len(word) - 1

    def add(kind: int, word: str, count: int, size: int, *rest: int) -> int:
        rows = (text(word), kind << 24 | count, size, *rest)
        types.append(struct.pack(f"<{len(rows)}I", *rows))
        number[f"{kind}:{word}" if kind == 12 else word] = len(types)
        return len(types)

    def member(word: str, kind: int, bits: int) -> tuple[int, int, int]:
        return text(word), kind, bits

    u32 = add(1, "int", 0, 4, 1 << 24 | 32)
    u64 = add(1, "long", 0, 8, 64)
    pair = add(3, "", 0, 0, u64, u32, 2)
    lock = add(4, "bpf_spin_lock", 1, 4, *member("val", u32, 0))
    timer = add(4, "bpf_timer", 1, 16, *member("opaque", pair, 0))
    queue = add(4, "bpf_wq", 1, 16, *member("opaque", pair, 0))
    add(4, "locked", 2, 16, *member("n", u64, 0), *member("l", lock, 64))
    add(4, "timed", 2, 24, *member("n", u64, 0), *member("t", timer, 64))
    add(4, "queued", 2, 24, *member("n", u64, 0), *member("w", queue, 64))
    proto = add(13, "", 1, u32, text("a"), u64)
    add(12, "static", 0, proto)
    add(12, "global", 1, proto)
    for word, target in (("mem", u64), ("ctx", add(4, "xdp_md", 1, 24, *member("d", u32, 0)))):
        pointer = add(2, "", 0, target)
        add(12, word, 1, add(13, "", 1, u32, text("a"), pointer))
    add(12, "void", 1, add(13, "", 1, 0, text("a"), u64))
    body = b"".join(types)
    head = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(body), len(body), len(texts))
    return head + body + bytes(texts), number


BTF, _TYPES = _blob()
_A = CorpusMap(MapType.ARRAY, 4, 16, 4)
MAPS = {
    "h": CorpusMap(MapType.HASH, 4, 16, 8),
    "a": _A,
    "a1": CorpusMap(MapType.ARRAY, 4, 16, 1),
    "p": CorpusMap(MapType.PERCPU_ARRAY, 4, 16, 4),
    "ph": CorpusMap(MapType.PERCPU_HASH, 4, 16, 4),
    "pa": CorpusMap(MapType.PROG_ARRAY, 4, 4, 4),
    "pe": CorpusMap(MapType.PERF_EVENT_ARRAY, 4, 4, 4),
    "rb": CorpusMap(MapType.RINGBUF, 0, 0, 4096),
    "ur": CorpusMap(MapType.USER_RINGBUF, 0, 0, 4096),
    "st": CorpusMap(MapType.STACK_TRACE, 4, 80, 4),
    "sm": CorpusMap(MapType.SOCKMAP, 4, 4, 4),
    "am": CorpusMap(MapType.ARRAY_OF_MAPS, 4, 4, 4, inner_map=_A),
    "q": CorpusMap(MapType.QUEUE, 0, 16, 4),
    "bf": CorpusMap(MapType.BLOOM_FILTER, 0, 16, 4),
    "ro": CorpusMap(MapType.ARRAY, 4, 16, 1, MapFlag.RDONLY_PROG),
    "fz": CorpusMap(
        MapType.ARRAY,
        4,
        64,
        1,
        MapFlag.RDONLY_PROG,
        entries=(
            (bytes(4), b"%d %s %llx\0%y\0%p%pI4%pB\0%5d%%%c\0caf\xc3\xa9\0%s%d\0".ljust(64, b"x")),
        ),
        frozen=True,
    ),
    "cs": CorpusMap(MapType.CGROUP_STORAGE, 16, 16, 0),
    "dm": CorpusMap(MapType.DEVMAP, 4, 4, 4),
    "lk": CorpusMap(MapType.ARRAY, 4, 16, 4, btf_key=1, btf_value=_TYPES["locked"]),
    "l1": CorpusMap(MapType.ARRAY, 4, 16, 1, btf_key=1, btf_value=_TYPES["locked"]),
    "wq": CorpusMap(MapType.ARRAY, 4, 24, 4, btf_key=1, btf_value=_TYPES["queued"]),
    "tm": CorpusMap(MapType.ARRAY, 4, 24, 4, btf_key=1, btf_value=_TYPES["timed"]),
}
PARTS = {
    "key": "*(u32 *)(r10 - 4) = 0\nr2 = r10\nr2 += -4",
    "unk": "call bpf_get_prandom_u32\nr6 = r0",
    "end": "r0 = 0\nexit",
    "zero16": "*(u64 *)(r10 - 16) = 0\n*(u64 *)(r10 - 8) = 0",
}
_KINDS: dict[str, FixupKind] = {"lddw_map_fd": "map_fd", "lddw_map_value": "map_value"}


@dataclass(frozen=True)
class Case:
    """A program, and the last line that each kernel says ("accept": it loads the program)."""

    name: str
    prog_type: str
    text: str
    says: dict[str, str] = field(default_factory=dict)

    def program(self) -> CorpusProgram:
        """Return the program as kernels and the model take it."""
        text = re.sub(r"\{(\w+)\}", lambda found: PARTS[found[1]], self.text)
        wanted = re.findall(r"call @(\w+)", text)
        code = assemble(re.sub(r"call @\w+", "call kernel-function#1", text))
        slots = list(slot_offsets(code))
        used: dict[str, int] = {}
        fixups, calls = [], []
        for slot, insn in zip(slots, code.insns, strict=False):
            if insn.symbol is not None and insn.op.name in _KINDS:
                number = used.setdefault(insn.symbol, len(used))
                fixups.append(Fixup(slot, _KINDS[insn.op.name], number))
            elif insn.op.name == "call_kfunc":
                calls.append(slot)
        functions = {0: "static"}
        for label, index in code.labels.items():
            if label.startswith(("cb", "sub", "glob")):
                word = re.fullmatch(r"glob_(mem|ctx|void)\d*", label)
                kind = "global" if label.startswith("glob") else "static"
                functions[slots[index]] = word[1] if word else kind
        info = b""
        if len(functions) > 1:
            kinds = (_TYPES[f"12:{kind}"] for _, kind in sorted(functions.items()))
            info = func_info(sorted(functions), kinds)
        maps = tuple(MAPS[name] for name in used)
        typed = info or any(spec.btf_value for spec in maps)
        return CorpusProgram(
            self.name, ProgType[self.prog_type], encode(code, "little"), maps=maps,
            fixups=tuple(fixups), btf=BTF if typed else b"", func_info=info,
            prog_flags=ProgFlag.SLEEPABLE if self.prog_type == "SYSCALL" else 0,
            expected_attach_type=_ATTACH.get(self.prog_type, 0),
            kfuncs=tuple(zip(calls, wanted, strict=True)),
        )  # fmt: skip


_ATTACH = {"CGROUP_SOCK_ADDR": 8, "SK_LOOKUP": 36}


def read_cases(path: Path) -> Iterator[Case]:
    """Yield the cases of a file."""
    for block in path.read_text().split("\n== ")[1:]:
        head, *lines = block.splitlines()
        name, _, kind = head.partition(" [")
        says = {}
        for line in lines:
            if line.startswith("-- "):
                kernels, _, words = line[3:].partition(": ")
                says.update(dict.fromkeys(kernels.split(), words))
        text = "\n".join(line for line in lines if line and not line.startswith(("--", "#")))
        yield Case(name.strip(), kind.rstrip("]") or "XDP", text, says)


def words(verdict: Verdict) -> str:
    """Return what a case's line says of a verdict."""
    if verdict.verdict == "reject":
        return verdict.message or f"errno {verdict.errno}"
    return verdict.verdict


def record(kernel: str, path: Path) -> None:
    """Let a guest judge the cases of a file, and write what it says into it."""
    from pybpf.testing.oracles import kernel_verdict

    cases = list(read_cases(path))
    verdicts = kernel_verdict([case.program() for case in cases], kernel)
    for case, verdict in zip(cases, verdicts, strict=True):
        case.says[kernel] = words(verdict)
    write(path, cases)


def write(path: Path, cases: list[Case]) -> None:
    """Write cases, with kernels that say the same on one line."""
    head = path.read_text().split("\n== ")[0]
    parts = [head]
    for case in cases:
        lines = [f"{case.name} [{case.prog_type}]", case.text]
        by_words: dict[str, list[str]] = {}
        for kernel in sorted(case.says, key=lambda one: [int(n) for n in one.split(".")]):
            by_words.setdefault(case.says[kernel], []).append(kernel)
        lines += [f"-- {' '.join(kernels)}: {says}" for says, kernels in by_words.items()]
        parts.append("\n".join(lines) + "\n")
    path.write_text("\n== ".join(parts))


if __name__ == "__main__":
    record(sys.argv[1], Path(sys.argv[2]))
