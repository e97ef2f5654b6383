"""The bar: on a terminal only, for many functions only, and nothing is left of it."""

import io
import sys
from types import SimpleNamespace

import pytest

from pybpf.cli import progress
from pybpf.cli.progress import Bar

ERASED = "\r\x1b[K"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    # pytest puts its own in place of sys.stderr from one phase of a test to the next.
    terminal = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=terminal))
    monkeypatch.setattr(progress, "_PAUSE", 0)
    return terminal


def bar(done, count, cells):
    return f"\rattaching [{'#' * cells}{' ' * (30 - cells)}] {done} of {count} functions"


@pytest.mark.parametrize(
    ("steps", "shown"),
    [
        ([(0, 99), (50, 99), (99, 99)], ""),
        ([(0, 43210), (43210, 43210)], bar("0", "43,210", 0) + ERASED),
        (
            [(0, 200), (100, 200), (199, 200), (200, 200)],
            bar(0, 200, 0) + bar(100, 200, 15) + bar(199, 200, 29) + ERASED,
        ),
        # Two patterns; one in which all was given up.
        ([(0, 100), (100, 100)] * 2, (bar(0, 100, 0) + ERASED) * 2),
        ([(0, 100), (10, 100)], bar(0, 100, 0) + bar(10, 100, 3) + ERASED),
    ],
)
def test_what_a_terminal_shows(terminal, steps, shown):
    with Bar() as progress:
        for step in steps:
            progress(*step)
    assert terminal.getvalue() == shown


def test_nothing_is_left_where_attaching_fails(terminal):
    def fail():
        with Bar() as progress:
            progress(3, 100)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert terminal.getvalue() == bar(3, 100, 0) + ERASED


def test_it_is_drawn_now_and_then(terminal, monkeypatch):
    monkeypatch.setattr(progress, "_PAUSE", 1000)
    with Bar() as bar:
        for done in range(500):
            bar(done, 500)
    assert terminal.getvalue().count("attaching") == 1


def test_files_have_no_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with Bar() as progress:
        progress(0, 1000)
        progress(10, 1000)
    assert sys.stderr.getvalue() == ""
