"""Programs that compilers made, to be mutated: files of scripts and objects in; programs out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pybpf import corpus
from pybpf.corpus import CorpusProgram
from pybpf.dataclass import replace
from pybpf.target.target import Target


def compiled(files: Iterable[Path], target: Target) -> Iterator[CorpusProgram]:
    """Yield the programs of ply scripts (``.ply``), objects (``.o``) and corpora (the rest).

    Scripts are compiled for ``target``. Ids are names of files and programs. Raises what compiling
    and reading raise.
    """
    for path in files:
        if path.suffix == ".ply":
            yield from _script(path, target)
        elif path.suffix == ".o":
            yield from _object(path)
        else:
            yield from corpus.read_file(str(path))


def _script(path: Path, target: Target) -> Iterator[CorpusProgram]:
    from pybpf.compiler.pipeline import compile_script
    from pybpf.source import Source
    from pybpf.verifier.subject import of_script

    script = compile_script(Source(path.name, path.read_text()), target)
    for number, subject in enumerate(of_script(script)):
        yield replace(subject.program, id=f"{path.stem}-{number}")


def _object(path: Path) -> Iterator[CorpusProgram]:
    from pybpf.objfile.object import Object
    from pybpf.verifier.subject import of_object

    for subject in of_object(Object.parse(path.read_bytes(), path.name)):
        yield replace(subject.program, id=f"{path.stem}-{subject.name}")
