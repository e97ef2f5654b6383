"""Compile the C programs of tests/objects: a folder in, objects of both byte orders in it.

    python tools/objects.py FOLDER [--clang clang-22]
    python tools/objects.py --each FOLDER

`--each` does so once with each compiler that tests ask for, clang and the newest, in a folder of
its name: tests take them from there where $PYBPF_OBJECTS names FOLDER, as they do in guests, whose
emulated processors would need minutes for what takes seconds outside.

NAME.c becomes NAME.el.o and NAME.eb.o. A first line ``/* flags: … */`` adds to the compiler's
flags; ``/* clang 15: … */`` asks for that release of clang or a later one, which may be installed
beside the chosen one as clang-16. What a clang cannot compile is left out, and its name printed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "tests/objects/src"
FLAGS = ("-g", "-O2", "-Wall", "-Wno-unused-variable")
_NEWEST = 30


@cache
def release(clang: str) -> int:
    """Return the major release of a compiler."""
    told = subprocess.run([clang, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"version (\d+)", told)
    return int(found[1]) if found else 0


def newest() -> str | None:
    """Return the newest clang that has its version in its name, as Debian installs them."""
    found = {path.name for part in os.get_exec_path() for path in Path(part).glob("clang-[0-9]*")}
    versions = [int(name[6:]) for name in found if name[6:].isdecimal()]
    return f"clang-{max(versions)}" if versions else None


def suitable(clang: str, least: int) -> str | None:
    """Return the compiler, or another one that is of release ``least`` or later; None: none is."""
    if release(clang) >= least:
        return clang
    others = (shutil.which(f"clang-{number}") for number in range(least, _NEWEST))
    return next((other for other in others if other), None)


def compile_one(clang: str, source: Path, order: str, folder: Path) -> bool:
    """Compile a file for a byte order (``el`` or ``eb``); say whether that worked."""
    first = source.read_text().splitlines()[0]
    asked = re.fullmatch(r"/\* (?:clang (\d+): )?(?:flags: (.*) )?.*\*/", first)
    chosen = suitable(clang, int(asked[1] or 0) if asked else 0)
    if chosen is None:
        return False
    output = folder / f"{source.stem}.{order}.o"
    flags = [*FLAGS, *(asked[2].split() if asked and asked[2] else ())]
    command = [chosen, "-target", f"bpf{order}", *flags, "-c", source.name, "-o", str(output)]
    return not subprocess.run(
        command, cwd=source.parent, capture_output=True, check=False
    ).returncode


def build(folder: Path, clang: str = "clang") -> list[str]:
    """Compile all programs into ``folder``; return the names of those that could not be."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs = [(source, order) for source in sorted(SOURCES.glob("*.c")) for order in ("el", "eb")]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        done = list(pool.map(lambda job: compile_one(clang, *job, folder), jobs))
    return [
        f"{source.stem}.{order}" for (source, order), ok in zip(jobs, done, strict=True) if not ok
    ]


def main() -> int:
    """Compile, print what failed; the status is 1 where nothing was compiled."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--clang", default="clang")
    which.add_argument("--each", action="store_true", help="in a folder for each that tests use")
    options = parser.parse_args()
    folders = {options.folder: options.clang}
    if options.each:
        folders = {options.folder / each: each for each in ("clang", newest()) if each}
    failed = [f"{clang}: {name}" for at, clang in folders.items() for name in build(at, clang)]
    print("\n".join(f"cannot be compiled by {each}" for each in failed) or "all compiled")
    return 0 if any(any(folder.glob("*.o")) for folder in folders) else 1


if __name__ == "__main__":
    sys.exit(main())
