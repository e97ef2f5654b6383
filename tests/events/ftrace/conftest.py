"""What was captured: pages and the text of a buffer, and records of event probes."""

import json
import lzma
import tarfile
from pathlib import Path

import pytest

from pybpf.events.ftrace.reader import RecordFormats
from pybpf.tracefs.format import parse_format

DATA = Path(__file__).parents[2] / "data"


class Capture:
    """A buffer of kernel 6.18: its pages by CPU, its formats, and the text of ``trace``."""

    def __init__(self):
        with tarfile.open(DATA / "ftrace/capture-6.18.tar.gz") as archive:
            files = {m.name: archive.extractfile(m).read() for m in archive.getmembers()}
        self.cpus = [files["cpu0"], files["cpu1"]]
        self.trace = files["trace.txt"]
        blocks = files["formats"].decode().split("FILE ")[1:]
        self.formats = RecordFormats(
            parse_format(text, head.removesuffix("/format"))
            for head, _, text in (block.partition("\n") for block in blocks)
        )


@pytest.fixture(scope="session")
def capture():
    return Capture()


def read_golden(kernel):
    """Return what was recorded by event probes of a kernel, with the parents' records."""
    text = lzma.decompress((DATA / f"dynevents/records-{kernel}.jsonl.xz").read_bytes())
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="session")
def golden():
    return {kernel: read_golden(kernel) for kernel in ("6.1", "6.12", "7.3")}


def read_formats(kernel):
    """Return all formats of a kernel."""
    text = lzma.decompress((DATA / f"dynevents/formats-{kernel}.txt.xz").read_bytes()).decode()
    return [parse_format(block.partition("\n")[2]) for block in text.split("FILE ")[1:]]


@pytest.fixture(scope="session")
def formats():
    return {kernel: read_formats(kernel) for kernel in ("6.1", "6.12", "7.3")}
