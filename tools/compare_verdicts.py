"""Hold the model to a kernel: a corpus and a kernel's verdicts in; where they differ out.

    python tools/compare_verdicts.py DIR/1-1-20000 --kernel 6.12 [--jobs 2] [--first N] [--count N]
    python tools/compare_verdicts.py DIR/1-1-20000 --kernel 6.12 --show 1-1-123

`tools/judge_corpus.py` makes such files. Unsound accepts come first, then false rejections, what
the model does not know, and rejections for other reasons: each kind with its number and its
smallest programs (slots in brackets). `--show` prints one program: its instructions and verdicts.
The exit status is 1 where an accept is unsound.
"""

import argparse
import sys
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pybpf import corpus
from pybpf.isa.abi import ProgType
from pybpf.testing.oracles import model_verdict
from pybpf.testing.render import listing
from pybpf.testing.soundness import Tally, compare

_SHOWN = 1000


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("corpus", help="path of a corpus, without .jsonl.xz")
    parser.add_argument("--kernel", default="6.12")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int)
    parser.add_argument("--kinds", type=int, default=30, help="of each list, as many (30)")
    parser.add_argument("--show", metavar="ID", help="print one program instead")
    options = parser.parse_args()
    path = Path(f"{options.corpus}.jsonl.xz")
    if not path.exists():
        path = Path(f"{options.corpus}.jsonl")
    answers = Path(f"{options.corpus}.verdicts-{options.kernel}.jsonl")
    stop = None if options.count is None else options.first + options.count
    programs = islice(corpus.read_file(str(path)), options.first, stop)
    lines = answers.read_text().splitlines()[options.first : stop]
    verdicts = (corpus.parse_verdict(line, n) for n, line in enumerate(lines, start=1))
    if options.show:
        for program, verdict in zip(programs, verdicts, strict=False):
            if program.id == options.show:
                print(f"{ProgType(program.prog_type).name} {program.maps}\n{listing(program)}")
                print(f"kernel {verdict}\nmodel  {model_verdict(program, options.kernel)}")
        return 0
    tally = Tally()
    for one in compare(programs, verdicts, options.kernel, processes=options.jobs):
        tally.add(one)
        if tally.total % _SHOWN == 0:
            print(f"{tally.total}: {len(tally.unsound)} unsound", file=sys.stderr, flush=True)
    print("\n".join(tally.lines(options.kinds)))
    return 1 if tally.unsound else 0


if __name__ == "__main__":
    sys.exit(main())
