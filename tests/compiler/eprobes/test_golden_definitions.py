"""What kernels accepted as an eprobe compiles, for the events and types of these kernels."""

import json
import lzma
from pathlib import Path

import pytest

from pybpf.compiler.eprobes.script import compile_eprobes
from pybpf.errors import DynEventError, TargetError
from pybpf.target.symbols import SymbolTable
from pybpf.tracefs.dynevents.profiles import profile
from pybpf.tracefs.dynevents.world import read_formats

DATA = Path(__file__).parents[2] / "data/dynevents"
TEXT = 0xFFFFFFFF81000000

# Newer kernels refuse these two, and a third (129 arguments), of which old ones drop the last.
OLD = {"6.1": ["$comm can not be dereferenced"] * 2 + ["Too many arguments are specified"]}


@pytest.fixture(scope="module")
def make(one_event):
    """Return a target that has the events of a kernel, the types of the newest, and any symbol."""

    class Kernel(one_event):
        def __init__(self, kernel):
            super().__init__("", None, types=profile("7.3").types)
            text = lzma.decompress((DATA / f"formats-{kernel}.txt.xz").read_bytes()).decode()
            self.formats = read_formats(text)
            self.symbols = SymbolTable([(TEXT, "schedule"), (TEXT + 4096, "next")])

        def event_names(self):
            return tuple(self.formats)

        def event_format(self, name):
            if name not in self.formats:
                raise TargetError(f"unknown tracepoint '{name}'")
            return self.formats[name]

        def symbol_address(self, name):
            assert name
            return TEXT

    return Kernel


def accepted(kernel):
    rows = lzma.decompress((DATA / f"{kernel}.jsonl.xz").read_bytes()).splitlines()
    for row in map(json.loads, rows):
        text = row["definition"]
        if row["accepted"] and text.startswith("e") and not row["setup"] and "\n" not in text:
            yield text


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["6.1", "6.12", "7.3"])
def test_accepted_definitions_compile(kernel, make):
    target = make(kernel)
    compiled, refused = 0, []
    for text in accepted(kernel):
        try:
            compile_eprobes([text], target)
            compiled += 1
        except DynEventError as error:
            refused.append(error.diagnostics[0].message)
    assert refused == OLD.get(kernel, [])
    assert compiled > 200
