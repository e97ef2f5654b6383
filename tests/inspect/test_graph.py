"""Graphs of control flow and of calls: what is a loop, and that Graphviz would take the text."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from pybpf.inspect.code import Code, Part, of_bytes
from pybpf.inspect.graph import calls, calls_dot, flow_dot, loops
from pybpf.isa.assembler import assemble
from pybpf.isa.encoding import encode


def code(text):
    return of_bytes(encode(assemble(text)), "little", "main")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("exit", 0),
        ("if r0 == 0 goto x\nr0 = 1\nx: exit", 0),
        ("goto b\na: exit\nb: goto a", 0),  # backwards, and yet no loop
        ("x: goto x", 1),
        ("x: r0 = 1\nif r0 == 0 goto x\nif r0 == 1 goto x\nexit", 2),
        ("call f\nexit\nf: if r0 == 0 goto f\nexit", 1),
        ("call f\nexit\nf: call f\nexit", 0),  # recursion is no loop of blocks
    ],
)
def test_loops(text, count):
    assert len(loops(code(text))) == count


def test_a_long_chain_of_blocks_is_no_recursion():
    assert not loops(code("if r0 == 0 goto +0\n" * 20_000 + "exit"))


def test_calls_are_counted():
    found = code("call f\ncall f\nr1 = subprog:g ll\nexit\nf: call g\nexit\ng: exit")
    assert calls(found) == ((0, 1, 2), (0, 2, 1), (1, 2, 1))


# statement: node or edge with options | attribute | cluster; enough of Graphviz's grammar
_TEXT = r'"(?:[^"\\]|\\.)*"'
_OPTIONS = rf"(?: \[\w+=(?:{_TEXT}|\w+)(?:, \w+=(?:{_TEXT}|\w+))*\])?"
_LINE = re.compile(
    rf"digraph {_TEXT} {{|    subgraph cluster\d+ {{| *label={_TEXT};| *}}|"
    rf" *\w+(?: -> \w+)?{_OPTIONS};"
)


def check(lines):
    for line in lines:
        assert _LINE.fullmatch(line), line
    dot = shutil.which("dot")
    if dot is not None:
        subprocess.run([dot, "-Tsvg"], input="\n".join(lines), text=True, check=True,
                       capture_output=True)  # fmt: skip


def test_flow():
    lines = list(flow_dot(code("call f\nx: if r0 == 0 goto x\nexit\nf: exit")))
    check(lines)
    assert '    b1 -> b1 [label="yes", style=dashed];' in lines
    assert '        b0 [label="0: call sub1"];' in lines
    assert '        label="sub1";' in lines
    check(list(calls_dot(code("call f\ncall f\nexit\nf: exit"))))


def test_long_blocks_are_cut():
    lines = list(flow_dot(code("r0 = 0\n" * 1000 + "exit")))
    check(lines)
    assert "… 961 more" in lines[4]


def test_names_cannot_get_out_of_their_quotes():
    evil = 'a"];\n} \x1b[2J \\'
    found = Code(evil, evil, assemble("exit"), (Part(evil, 0),), texts={0: evil})
    check(list(flow_dot(found)))
    check(list(calls_dot(found)))
    assert all(line.isprintable() for line in [*flow_dot(found), *calls_dot(found)])
