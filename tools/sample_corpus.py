"""Make the sample of a judged corpus that tests hold the model to: a corpus in; a small one out.

    python tools/sample_corpus.py DIR/1-1-20000 --kernels 6.12 7.3 --count 1500

writes `tests/data/verifier/sample.jsonl.xz` and `sample.verdicts-KERNEL.jsonl.xz`: the smallest
programs of each kind of message, and others evenly spread.
"""

import argparse
import lzma
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pybpf import corpus
from pybpf.corpus import CorpusProgram, Verdict
from pybpf.testing.soundness import normalised

_TO = Path(__file__).resolve().parent.parent / "tests" / "data" / "verifier"
_OF_A_KIND = 3
_SLOTS = 80


def chosen(programs: list[CorpusProgram], verdicts: list[list[Verdict]], count: int) -> list[int]:
    """Return the numbers of the programs to keep, in order."""
    judged = [
        number
        for number, program in enumerate(programs)
        if program.slots <= _SLOTS and all(v[number].verdict != "unknown" for v in verdicts)
    ]
    kinds: dict[str, list[int]] = {}
    for number in sorted(judged, key=lambda n: programs[n].slots):
        for of_kernel in verdicts:
            kinds.setdefault(normalised(of_kernel[number].message), []).append(number)
    keep = {n for kind, found in kinds.items() if kind for n in found[:_OF_A_KIND]}
    rest = [number for number in judged if number not in keep]
    step = max(1, len(rest) // max(1, count - len(keep)))
    return sorted(keep | set(rest[::step][: count - len(keep)]))


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("corpus", help="path of a corpus, without .jsonl.xz")
    parser.add_argument("--kernels", nargs="+", default=["6.12", "7.3"])
    parser.add_argument("--count", type=int, default=1500)
    options = parser.parse_args()
    programs = list(corpus.read_file(f"{options.corpus}.jsonl.xz"))
    verdicts = []
    for kernel in options.kernels:
        lines = Path(f"{options.corpus}.verdicts-{kernel}.jsonl").read_text().splitlines()
        verdicts.append([corpus.parse_verdict(line) for line in lines])
    keep = chosen(programs[: min(map(len, verdicts))], verdicts, options.count)
    _TO.mkdir(parents=True, exist_ok=True)
    _write("sample.jsonl.xz", [corpus.format_program(programs[n]) for n in keep])
    for kernel, of_kernel in zip(options.kernels, verdicts, strict=True):
        lines = [corpus.format_verdict(of_kernel[n]) for n in keep]
        _write(f"sample.verdicts-{kernel}.jsonl.xz", lines)
    return 0


def _write(name: str, lines: list[str]) -> None:
    packed = lzma.compress("".join(line + "\n" for line in lines).encode(), preset=9)
    (_TO / name).write_bytes(packed)
    print(f"{name}: {len(lines)} lines, {len(packed)} bytes")


if __name__ == "__main__":
    sys.exit(main())
