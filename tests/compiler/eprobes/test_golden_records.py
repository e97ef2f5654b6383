"""Eprobes as programs make of recorded hits what kernels made of them, for all that is known."""

import json
import lzma
from pathlib import Path

import pytest

from pybpf.events.eprobes.evaluate import Evaluator
from pybpf.events.eprobes.memory import FAULT, UNKNOWN, Known
from pybpf.events.ftrace.record import Decoder
from pybpf.tracefs.dynevents.profiles import profile
from pybpf.tracefs.format import parse_format

DATA = Path(__file__).parents[2] / "data/dynevents"

# Older kernels take an array for its first word, which a program does as the newest.
ARRAYS = {"6.1": {"r7", "q14", "q1"}, "6.12": {"r7", "q14", "q1"}}


def golden(kernel):
    text = lzma.decompress((DATA / f"records-{kernel}.jsonl.xz").read_bytes())
    return [json.loads(line) for line in text.splitlines()]


def is_unknown(value):
    return any(map(is_unknown, value)) if isinstance(value, tuple) else value is UNKNOWN


@pytest.mark.parametrize("kernel", ["6.1", "6.12", "7.3"])
def test_recorded_hits(kernel, one_event, hits):
    compared = 0
    for row in golden(kernel):
        parent = parse_format(row["parent_format"])
        types = profile(kernel).types if "->" in row["definition"] else None
        evaluate = Evaluator(row["definition"], parent, kernel, types=types)
        target = row["definition"].split()[1].replace(".", "/", 1)
        symbols = dict.fromkeys(("linux_banner", "init_task", "jiffies", "saved_command_line"), 1)
        run = hits(
            [row["definition"]],
            one_event(target, parent, types=types, symbols=symbols),
            string_size=512,
        )
        decode = Decoder(parse_format(row["format"]))
        for record in row["records"]:
            raw, expected = bytes.fromhex(record["parent_raw"]), bytes.fromhex(record["raw"])
            comm = record["text"][:16].strip().encode()
            comm = b"swapper/0" if comm == b"<idle>" else comm
            known = evaluate(raw, Known(comm=comm))
            values = decode(0, 0, expected, 0, len(expected)).fields()
            found = run.fields(raw, comm=comm, tid=values["common_pid"])
            assert found is not None
            for name, value in known.values.items():
                if is_unknown(value) or evaluate.event in ARRAYS.get(kernel, ()):
                    continue
                where = (row["definition"], name)
                if value is FAULT:
                    assert name in found[1], where
                else:
                    assert found[0][name] == values[name], where
                    assert name not in found[1], where
                    compared += 1
    assert compared > 250
