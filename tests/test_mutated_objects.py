"""Damaged objects go through all that needs no kernel: a PybpfError of one kind, or an answer.

``PYBPF_MUTATIONS=20000 pytest tests/test_mutated_objects.py`` tries so many, from the same seeds;
``PYBPF_MUTATIONS_FROM`` is the first, to go on or to try one again.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from pybpf.btf.cdump import dump
from pybpf.btf.listing import lines
from pybpf.btf.reader import Btf
from pybpf.compiler.pipeline import compile_ahead
from pybpf.errors import BtfError, ObjectError
from pybpf.inspect import diff, facts, report
from pybpf.inspect.code import of_program, of_sections
from pybpf.inspect.difftext import text as difference
from pybpf.inspect.graph import calls_dot, flow_dot
from pybpf.inspect.listing import Style, as_data, listing
from pybpf.inspect.names import Names
from pybpf.inspect.page import Shown, page
from pybpf.objfile.corpus import corpus_programs
from pybpf.objfile.elf import read
from pybpf.objfile.object import Object
from pybpf.objfile.pack import SECTION, pack
from pybpf.objfile.relocate import relocated
from pybpf.objfile.unpack import unpack
from pybpf.source import Source
from pybpf.target.snapshot import SnapshotTarget

MUTATIONS = int(os.environ.get("PYBPF_MUTATIONS", "300"))
FIRST = int(os.environ.get("PYBPF_MUTATIONS_FROM", "0"))
ROOT = Path(__file__).parents[1]
SOURCES = ("demo", "biolatency", "execsnoop")
TYPES, LINES = ".BTF", ".BTF.ext"
pytestmark = pytest.mark.timeout(120 + MUTATIONS)
STYLE = Style(source=True, arrows=True, ascii=False, bytes=True)


@pytest.fixture(scope="module")
def whole(c_objects):
    """Return objects of clang, big ones left out, and of scripts, with their parts' places."""
    files = [file.read_bytes() for file in sorted(c_objects.glob("*.o"))]
    target = SnapshotTarget.load(
        ROOT / "tests/data/targets/6.12.tar.gz", environment={"target": "7", "1": "cat"}
    )
    for name in SOURCES:
        source = Source(name, (ROOT / f"examples/{name}.ply").read_text())
        files.append(pack(*compile_ahead(source, target)))
    return [(data, parts(data)) for data in files if len(data) < 100_000]


def parts(data):
    """Return where what can be damaged is, so that each is as often: headers, sections, table."""
    found = [(0, 64)]
    for section in read(data, "x.o").sections:
        at = data.find(section.data) if section.data else 0
        if at > 0 and not section.name.startswith(".debug"):
            found.append((at, at + len(section.data)))
            if section.name in {TYPES, LINES, SECTION}:  # what is read the most of
                found += found[-1:] * 3
    (table,) = struct.unpack_from("<Q" if data[5] == 1 else ">Q", data, 40)
    return [*found, (table, len(data))]


def mutated(whole, draw):
    """Return an object with a few bytes, words or bits of other values, or without its end."""
    data, places = draw.choice(whole)
    blob = bytearray(data)
    order = "little" if data[5] == 1 else "big"
    for _ in range(draw.randint(1, 6)):
        start, end = draw.choice(places)
        width = draw.choice([1, 1, 2, 4, 4, 8])
        at = draw.randrange(start, max(end - width, start + 1))
        if draw.random() < 0.5:
            at -= (at - start) % width
        old = int.from_bytes(blob[at : at + width], order)
        most = (1 << 8 * width) - 1
        value = draw.choice(
            [0, 1, most, most >> 1, old + 1, old - 1, old ^ 1 << draw.randrange(8 * width),
             draw.randrange(64), draw.randrange(most + 1)]
        )  # fmt: skip
        blob[at : at + width] = (value & most).to_bytes(width, order)[: len(blob) - at]
    if not draw.randrange(40):
        blob[5] ^= 3  # the other byte order
    if not draw.randrange(12):
        del blob[draw.randrange(len(blob)) :]
    return bytes(blob)


def use(data):
    """Do all with an object that can be done without a kernel; only ObjectError is raised."""
    with suppress(ObjectError):
        unpack(data, "x.o")
    found = Object.parse(data, "x.o")
    if found.btf is not None:
        for told in (lines, dump):
            with suppress(BtfError):
                for _ in told(found.btf):
                    pass
        for program in found.programs:
            with suppress(ObjectError):
                list(map(str, relocated(found, program, found.btf).report))
    names = Names(found.btf, found.elf)
    for code in of_sections(found, names):
        list(listing(code, STYLE))
        as_data(code)
    codes = [of_program(program, names) for program in found.programs]
    for code in codes:
        list(flow_dot(code))
        list(calls_dot(code))
    told = facts.of_object(found, dict(enumerate(codes)), {})
    list(report.report(told))
    report.as_data(told)
    page(told, [Shown(*one, None) for one in zip(told.programs, codes, strict=True)])
    side = diff.of_object(found, codes)
    assert not list(difference(diff.compare(side, side)))
    if found.byteorder == "little":
        list(corpus_programs(found))


def test_whole_objects(whole):
    for data, _ in whole[::5]:
        use(data)


def test_mutations(whole):
    for seed in range(FIRST, FIRST + MUTATIONS):
        data = mutated(whole, Random(seed))
        try:
            use(data)
        except Exception as error:
            if not isinstance(error, ObjectError) or not str(error).startswith("x.o:"):
                error.add_note(f"PYBPF_MUTATIONS_FROM={seed} PYBPF_MUTATIONS=1 tries it again")
                raise


def test_raw_types(whole):
    """The same for types alone, as of a kernel."""
    blobs = [read(data, "x.o").section(TYPES) for data, _ in whole]
    whole = [(blob.data, [(0, 24), (24, len(blob.data))]) for blob in blobs if blob is not None]
    for seed in range(FIRST, FIRST + MUTATIONS):
        with suppress(BtfError):
            btf = Btf(mutated(whole, Random(seed)))
            for told in (lines, dump):
                with suppress(BtfError):
                    for _ in told(btf):
                        pass
