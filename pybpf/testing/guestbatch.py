"""Judge and run programs on this kernel, in bulk: a corpus in; lines of verdicts and runs out.

    python -m pybpf.testing.guestbatch FILE [--first N] [--flush N] [--run]

This is the side of ``testing.oracles`` that lies in the guest. It refuses to work elsewhere: among
thousands of random programs there may be one that a verifier lets through and that takes the kernel
down, or that the verifier itself does not survive. So results leave as they are made (``--flush``
says how many may be lost), and ``--first`` skips those that are known.

Maps are shared by the programs that are only judged, which leaves them empty, but for arrays of
programs: those belong to the type of program that is the first to use them. A program that is run
gets maps of its own.
"""

from __future__ import annotations

import argparse
import errno
import mmap
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from itertools import islice
from pathlib import Path

from pybpf import corpus
from pybpf.btf.attach import attach_point, named_ksym
from pybpf.btf.reader import Btf
from pybpf.corpus import CorpusMap, CorpusProgram, RunResult, Verdict
from pybpf.errors import KernelError
from pybpf.isa.abi import MapType, ProgType
from pybpf.kernel import syscall
from pybpf.kernel.fd import Fd
from pybpf.kernel.maps import Map
from pybpf.kernel.programs import Prog
from pybpf.kernel.rejection import rejected_slot, verifier_reason
from pybpf.target.kernel_types import LIVE

_LOG_SIZE = 1 << 20
# Instructions that the log may go through: some 100 bytes each.
_TOLD = 4000
# Of a log, this much of the end holds all that is looked for.
_TAIL = 1 << 13
_PROCESSED = re.compile(r"^processed (\d+) insns", re.MULTILINE)
_SECONDS = 6.0
TOO_LONG = f"the verifier took longer than {_SECONDS:.0f} s"
_SHARED_MAPS = 256
# These take on the type of the programs that use them.
_OWNED = frozenset({MapType.PROG_ARRAY, MapType.DEVMAP, MapType.DEVMAP_HASH, MapType.CPUMAP})
# These hold what user space cannot read back as entries.
_UNREADABLE = frozenset(
    {
        MapType.PROG_ARRAY,
        MapType.PERF_EVENT_ARRAY,
        MapType.CGROUP_ARRAY,
        MapType.ARRAY_OF_MAPS,
        MapType.HASH_OF_MAPS,
        MapType.STACK_TRACE,
        MapType.QUEUE,
        MapType.STACK,
        MapType.RINGBUF,
        MapType.USER_RINGBUF,
        MapType.BLOOM_FILTER,
    }
)


class Kernel:
    """This kernel, with the maps and types that were made on it."""

    def __init__(self) -> None:
        self._log = bytearray(_LOG_SIZE)
        self._maps: dict[tuple[CorpusMap, int, bytes], Map] = {}
        self._btf: dict[bytes, Fd] = {}
        self._kernel_types: Btf | None = None
        signal.signal(signal.SIGALRM, lambda *_: None)

    def close(self) -> None:
        """Give up what programs share."""
        for made in (*self._maps.values(), *self._btf.values()):
            made.close()
        self._maps.clear()
        self._btf.clear()

    def judge(self, program: CorpusProgram) -> Verdict:
        """Load a program, and give it up again."""
        with ExitStack() as held:
            try:
                btf = self._types(program.btf)
                maps = self._shared(program, btf, held)
                verdict, fd = self._load(program, [m.fileno() for m in maps], btf)
            except KernelError as error:
                return _refused(program, error)
            if fd >= 0:
                os.close(fd)
            return verdict

    def run(self, program: CorpusProgram) -> tuple[Verdict, RunResult | None]:
        """Load a program and, where the verifier accepts it, run it once on fresh maps."""
        with ExitStack() as held:
            try:
                btf = self._types(program.btf)
                maps = [held.enter_context(_map(spec, btf)) for spec in program.maps]
                for spec, made in zip(program.maps, maps, strict=True):
                    _fill(spec, made)
                verdict, fd = self._load(program, [m.fileno() for m in maps], btf)
            except KernelError as error:
                return _refused(program, error), None
            if fd < 0:
                return verdict, None
            prog = held.enter_context(Prog(Fd(fd), "", ProgType(program.prog_type)))
            try:
                done = prog.test_run(program.ctx or b"", program.data or b"")
            except KernelError as error:
                return verdict, RunResult(program.id, errno=error.errno or 0)
            contents = tuple(_contents(made) for made in maps)
            return verdict, RunResult(program.id, done.retval, done.data, contents)

    def _types(self, blob: bytes) -> Fd | None:
        if not blob:
            return None
        if blob not in self._btf:
            self._btf[blob] = syscall.btf_load(blob)
        return self._btf[blob]

    def _shared(self, program: CorpusProgram, btf: Fd | None, held: ExitStack) -> list[Map]:
        if len(self._maps) > _SHARED_MAPS:
            for made in self._maps.values():
                made.close()
            self._maps.clear()
        found = []
        for number, spec in enumerate(program.maps):
            if spec.type in _OWNED or spec.frozen:
                found.append(held.enter_context(_map(spec, btf)))
                _fill(spec, found[-1])
                continue
            # Two equal maps of a program must be two maps.
            types = program.btf if spec.btf_value else b""
            key = spec, program.maps[:number].count(spec), types
            if key not in self._maps:
                self._maps[key] = _map(spec, btf)
            found.append(self._maps[key])
        return found

    def _load(
        self, program: CorpusProgram, maps: Sequence[int], btf: Fd | None
    ) -> tuple[Verdict, int]:
        code = program.linked(maps)
        attach_type, attach_to = program.expected_attach_type, 0
        if program.kfuncs or program.ksyms or program.attach_to:
            types = self._kernel()
            code = _with_names(code, program, types)
            attach_type, attach_to = attach_point(types, program)

        def attempt(level: int) -> int:
            self._log[0] = 0
            # A signal makes a verifier give up with EAGAIN; some programs take it minutes.
            signal.setitimer(signal.ITIMER_REAL, _SECONDS)
            try:
                return syscall.try_load(
                    code,
                    program.prog_type,
                    licence=program.licence,
                    expected_attach_type=attach_type,
                    attach_btf_id=attach_to,
                    flags=program.prog_flags,
                    btf=btf,
                    func_info=program.func_info,
                    log=self._log,
                    log_level=level,
                )
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)

        # The way to the fault is told only where it is short: writing it takes the most time.
        fd = attempt(syscall.LOG_STATS)
        if fd < 0 and self._processed() < _TOLD:
            fd = attempt(syscall.LOG_INSNS)
        processed = self._processed()
        if fd >= 0:
            return Verdict(program.id, "accept", processed=processed), fd
        if fd == -errno.EAGAIN:
            return Verdict(program.id, "unknown", message=TOO_LONG, errno=errno.EAGAIN), fd
        log = self._text()
        reason = verifier_reason(log)
        return (
            Verdict(
                program.id,
                "reject",
                rejected_slot(log),
                reason[0] if reason else "",
                processed,
                -fd,
            ),
            fd,
        )

    def _kernel(self) -> Btf:
        if self._kernel_types is None:
            self._kernel_types = Btf(Path(LIVE).read_bytes())
        return self._kernel_types

    def _text(self) -> str:
        """Return the end of the log."""
        end = self._log.index(0)
        return self._log[max(0, end - _TAIL) : end].decode(errors="replace")

    def _processed(self) -> int:
        seen = _PROCESSED.search(self._text())
        return int(seen[1]) if seen else 0


def _with_names(code: bytes, program: CorpusProgram, types: Btf) -> bytes:
    """Return instructions that have the numbers and addresses of this kernel for its names.

    Raises KernelError where it has none such, and that is not weak, as loaders do.
    """
    data = bytearray(code)
    for slot, name in program.kfuncs:
        number = types.function_number(name) or 0
        data[slot * 8 + 4 : slot * 8 + 8] = number.to_bytes(4, "little")
    for one in program.ksyms:
        at = one.insn * 8
        if one.typed:
            number = named_ksym(types, one.name) or 0
            source, value = (3, number) if number or not one.weak else (0, 0)
        else:
            source, value = 0, _address(one.name)
            if not value and not one.weak:
                raise KernelError(errno.ENOENT, f"the kernel has no symbol {one.name}")
        data[at + 1] = data[at + 1] & 0x0F | source << 4
        data[at + 4 : at + 8] = (value & 0xFFFFFFFF).to_bytes(4, "little")
        data[at + 12 : at + 16] = (value >> 32).to_bytes(4, "little")
    return bytes(data)


@cache
def _addresses() -> dict[str, int]:
    with Path("/proc/kallsyms").open() as lines:
        rows = (line.split() for line in lines)
        return {row[2]: int(row[0], 16) for row in rows}


def _address(name: str) -> int:
    """Return the address of a symbol of this kernel, 0 where there is none."""
    return _addresses().get(name, 0)


def _refused(program: CorpusProgram, error: KernelError) -> Verdict:
    """Return the verdict of a program whose types or maps the kernel does not take."""
    return Verdict(program.id, "reject", message=str(error.action), errno=error.errno or 0)


def _map(spec: CorpusMap, btf: Fd | None) -> Map:
    """Create a map; raises KernelError."""
    try:
        map_type = MapType(spec.type)
    except ValueError:
        raise KernelError(errno.EINVAL, f"cannot create a map of type {spec.type}") from None
    inner = _map(spec.inner_map, btf) if spec.inner_map else None
    try:
        made = Map(
            map_type,
            "m",
            spec.key_size,
            spec.value_size,
            spec.max_entries,
            spec.map_flags,
            btf=btf if spec.btf_value or spec.btf_key else None,
            types=(spec.btf_key, spec.btf_value),
            inner=inner,
        )
    finally:
        if inner:
            inner.close()
    if map_type is MapType.ARENA:
        # Loaders map it, and the kernel remembers the address: no program is loaded before.
        mmap.mmap(made.fileno(), spec.max_entries * mmap.PAGESIZE).close()
    return made


def _fill(spec: CorpusMap, made: Map) -> None:
    """Put a map's first entries into it; raises KernelError."""
    for key, value in spec.entries:
        made.update(key, value)
    if spec.frozen:
        made.freeze()


def _contents(made: Map) -> tuple[corpus.Entry, ...]:
    """Return the entries of a map in the order of their keys; per CPU, the first CPU's value."""
    if made.map_type in _UNREADABLE:
        return ()
    return tuple(sorted((key, values[0]) for key, values in made.items()))


def lines(kernel: Kernel, programs: Iterator[CorpusProgram], *, run: bool) -> Iterator[str]:
    """Yield for each program the line of its verdict and, where it was run, that of its run."""
    for program in programs:
        if not run:
            yield corpus.format_verdict(kernel.judge(program)) + "\n"
            continue
        verdict, result = kernel.run(program)
        line = corpus.format_verdict(verdict) + "\n"
        yield line + corpus.format_run(result) + "\n" if result else line


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--first", type=int, default=0, help="skip as many programs")
    parser.add_argument("--flush", type=int, default=64, help="programs between two writes")
    parser.add_argument("--run", action="store_true", help="run what is accepted")
    options = parser.parse_args()
    if "PYBPF_GUEST" not in os.environ:
        sys.stderr.write("this is no guest, and such programs can crash a kernel\n")
        return 1
    programs = islice(corpus.read_file(options.file), options.first, None)
    results = lines(Kernel(), programs, run=options.run)
    while batch := "".join(islice(results, options.flush)):
        sys.stdout.write(batch)
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
