"""Let guest kernels judge a corpus of random programs: its seed and size in; files of verdicts out.

    python tools/judge_corpus.py --seed 1 --count 20000 --kernels 6.12 7.3 --to DIR

writes the corpus `DIR/1-1-20000.jsonl.xz` (generation, seed, count) and for each kernel
`DIR/1-1-20000.verdicts-6.12.jsonl`, one line for each program. What is there already is kept, so an
interrupted run goes on where it stopped. `--again` asks once more about programs that were refused
without a word. `--corpus FILE` judges programs from elsewhere instead.
"""

import argparse
import lzma
import sys
import time
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pybpf import corpus
from pybpf.target.snapshot import SnapshotTarget
from pybpf.testing.oracles import judge
from pybpf.testing.programs import GENERATION, mutants, programs
from pybpf.testing.programs.compiled import compiled

_SHOWN = 1000
_TARGET = Path(__file__).parent.parent / "tests" / "data" / "targets" / "6.12.tar.gz"


def make(seed: int, count: int, folder: Path, base: list[Path], target: Path) -> Path:
    """Write the programs of a corpus, unless they are there; return the file.

    Those are generated, or mutants of what is in the files of ``base``.
    """
    kind = "-mutants" if base else ""
    path = folder / f"{GENERATION}{kind}-{seed}-{count}.jsonl.xz"
    if not path.exists():
        if base:
            old = list(compiled(base, SnapshotTarget.load(target, environment={"target": "7"})))
            made = mutants(old, seed, count)
        else:
            made = programs(seed, count)
        fresh = path.with_suffix(".new")
        with lzma.open(fresh, "wt", preset=1) as file:
            for program in made:
                file.write(corpus.format_program(program) + "\n")
        fresh.rename(path)
    return path


def answers(path: Path, kernel: str) -> Path:
    """Return the file of what a kernel says of a corpus."""
    return path.with_name(f"{path.name.partition('.')[0]}.verdicts-{kernel}.jsonl")


def append_verdicts(path: Path, kernel: str) -> None:
    """Append what a kernel says of the programs that it has not judged yet."""
    out = answers(path, kernel)
    done = len(out.read_text().splitlines()) if out.exists() else 0
    rest = list(islice(corpus.read_file(str(path)), done, None))
    began, accepted = time.monotonic(), 0
    with out.open("a", buffering=1) as file:
        for number, judged in enumerate(judge(rest, kernel), start=1):
            file.write(corpus.format_verdict(judged.verdict) + "\n")
            accepted += judged.verdict.verdict == "accept"
            if number % _SHOWN == 0 or number == len(rest):
                rate = number / (time.monotonic() - began)
                share = accepted / number
                print(f"{kernel}: {number} judged, {rate:.0f} a second, {share:.0%} accepted")


def judge_again(path: Path, kernel: str) -> None:
    """Judge anew what the kernel refused without a word."""
    out = answers(path, kernel)
    verdicts = [corpus.parse_verdict(line) for line in out.read_text().splitlines()]
    asked = [
        (number, program)
        for number, (program, verdict) in enumerate(zip(corpus.read_file(str(path)), verdicts))  # noqa: B905
        if verdict.verdict == "reject" and not verdict.message
    ]
    for (number, _), judged in zip(asked, judge([p for _, p in asked], kernel), strict=True):
        verdicts[number] = judged.verdict
    fresh = out.with_suffix(".new")
    fresh.write_text("".join(corpus.format_verdict(verdict) + "\n" for verdict in verdicts))
    fresh.rename(out)
    print(f"{kernel}: {len(asked)} judged again")


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--corpus", type=Path, help="a file of programs to judge instead")
    parser.add_argument(
        "--mutants-of", nargs="+", type=Path, metavar="FILE", default=[],
        help="judge mutants of the programs in scripts (.ply), objects (.o) and corpora",
    )  # fmt: skip
    parser.add_argument("--target", type=Path, help="the snapshot that scripts are compiled for")
    parser.add_argument("--kernels", nargs="+", default=["6.12", "7.3"])
    parser.add_argument("--again", action="store_true", help="only those refused without a word")
    parser.add_argument("--to", type=Path, default=Path(), metavar="DIR")
    options = parser.parse_args()
    path = options.corpus or make(
        options.seed,
        options.count,
        options.to,
        options.mutants_of,
        options.target or _TARGET,
    )
    for kernel in options.kernels:
        if options.again:
            judge_again(path, kernel)
        else:
            append_verdicts(path, kernel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
