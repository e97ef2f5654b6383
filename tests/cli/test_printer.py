"""Rows on the terminal: which stream, which encoding."""

import io
import sys

import pytest

from pybpf.cli.printer import Printer
from pybpf.printf import parse_format
from pybpf.rows import Block, Buckets, Cell, ExitRow, LostRow, MapRow, PrintfRow, PrintRow
from pybpf.script import EventKind, EventSchema, FieldArg, Text
from pybpf.types import U64, Array, Int, struct_of

CHAR = Int(1, signed=True, name="char")
WORD = PrintRow((Cell("häh".encode() + b"\0\0\0\0", Array(CHAR, 8)),))
HISTOGRAM = MapRow("@", (), U64, (((), Buckets((1, 0, 2))),))


@pytest.fixture
def output(monkeypatch):
    """Return a function: an encoding in, a byte stream out, to which standard output goes."""

    def use(encoding):
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding, write_through=False))
        return raw

    return use


def printed(output, encoding, *rows, json=False):
    raw = output(encoding)
    printer = Printer(None, json=json, unbuffered=False)
    for row in rows:
        printer(row)
    sys.stdout.flush()
    return raw.getvalue().decode(encoding)


def test_text_is_as_wide_as_the_encoding_can_say(output):
    assert "häh" in printed(output, "utf-8", WORD)
    assert "h\\xe4h" in printed(output, "ascii", WORD)
    assert "häh" in printed(output, "latin-1", WORD)


def test_histograms_are_drawn_with_what_there_is(output):
    assert "█" in printed(output, "utf-8", HISTOGRAM)
    assert printed(output, "ascii", HISTOGRAM).isascii()


def test_json_is_ascii(output):
    assert printed(output, "utf-8", WORD, json=True) == (
        '{"event":"print","values":["h\\u00e4h"]}\n'
    )


def test_losses_go_to_standard_error_after_what_precedes_them(output, capsys):
    raw = output("utf-8")
    printer = Printer(None, json=False, unbuffered=False)
    printer(PrintfRow((Text(b"before\n"),), ()))
    assert raw.getvalue() == b""
    printer(LostRow(3))
    assert raw.getvalue() == b"before\n"
    assert capsys.readouterr().err == "warning: 3 records lost; a bigger --buffer may help\n"


def test_losses_are_rows_in_json(output, capsys):
    assert printed(output, "utf-8", LostRow(3), json=True) == '{"event":"lost","records":3}\n'
    assert capsys.readouterr().err == ""


def test_an_exit_is_a_row_in_json_only(output):
    assert printed(output, "utf-8", ExitRow(3)) == ""
    assert printed(output, "utf-8", ExitRow(3), json=True) == '{"event":"exit","code":3}\n'


def test_unbuffered_rows_are_there_at_once(output):
    raw = output("utf-8")
    Printer(None, json=False, unbuffered=True)(PrintfRow((Text(b"x"),), ()))
    assert raw.getvalue() == b"x"


def test_a_block_is_printed_at_once(output):
    payload = struct_of("", [("0", U64)], start=4, align=8)
    schema = EventSchema(0, EventKind.PRINT, payload, (FieldArg("0"),))
    for json, encoding, expected in [
        (False, "utf-8", "1\n2\n"),
        (True, "ascii", '{"event":"print","values":[1]}\n{"event":"print","values":[2]}\n'),
    ]:
        raw = output(encoding)
        printer = Printer(None, json=json, unbuffered=True, events=(schema,))
        printer(Block((0, 0), {0: ([1, 2],)}))
        assert raw.getvalue().decode() == expected


def test_a_block_is_as_wide_as_the_encoding_can_say(output):
    payload = struct_of("", [("0", Array(CHAR, 4))], start=4, align=8)
    schema = EventSchema(0, EventKind.PRINTF, payload, (FieldArg("0"),), parse_format(b"%s\n"))
    raw = output("ascii")
    printer = Printer(None, json=False, unbuffered=True, events=(schema,))
    printer(Block((0,), {0: (["hä\0".encode()],)}))
    assert raw.getvalue() == b"h\\xe4\n"
