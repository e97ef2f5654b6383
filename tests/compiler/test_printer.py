"""Script text from trees, and the dumps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from pybpf.compiler.ast import Block, If, Name, Number, Probe, Return, Script
from pybpf.compiler.lexer import lex
from pybpf.compiler.parser import parse_text
from pybpf.compiler.printer import dump_ast, dump_tokens, print_script
from pybpf.source import Source, Span
from pybpf.testing.scripts import asts

NOWHERE = Span(Source("<test>", ""), 0, 0)


def script(text):
    return parse_text(Source("<script>", text))


@given(asts())
@settings(max_examples=150, deadline=None)
def test_printed_trees_parse_to_themselves(tree):
    assert script(print_script(tree)) == tree


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("kprobe:f", "kprobe:f {}\n"),
        ("BEGIN { exit(0b11u + 017 + 00 + 'a'); }", "BEGIN {\n    exit(0x3u + 0xf + 0 + 97);\n}\n"),
        ("kprobe:f/pid>0x10/{}", "kprobe:f / pid > 0x10 / {}\n"),
        ("BEGIN exit(0);", "BEGIN exit(0);\n"),
        ("BEGIN{}END{}", "BEGIN {}\n\nEND {}\n"),
        (
            "BEGIN{@[comm,1]=count();delete x[1];return;{}}",
            "BEGIN {\n    @[comm, 1] = count();\n    delete x[1];\n    return;\n    {}\n}\n",
        ),
        (
            "BEGIN if (a) { b; } else if (c) d; else { e; }",
            "BEGIN if (a) {\n    b;\n} else if (c) d;\nelse {\n    e;\n}\n",
        ),
        ("BEGIN (((a+b)))*(c*d)-(e-f);", "BEGIN (a + b) * (c * d) - (e - f);\n"),
        ("BEGIN -(-a)+ *(b);", "BEGIN --a + *b;\n"),
        ("BEGIN ((*a).b->c).d;", "BEGIN (*a).b->c.d;\n"),
        ("BEGIN (5).x;", "BEGIN (5).x;\n"),
        ("BEGIN 1UL + '\\n';", "BEGIN 1ul + 10;\n"),
        (r'BEGIN "a\t\"\\" "\x01\xff\351é";', 'BEGIN "a\\t\\"\\\\\\x01\\xff\\xe9é";\n'),
        ("BEGIN a / (b / c) / d;", "BEGIN a / (b / c) / d;\n"),
    ],
)
def test_prints(text, printed):
    assert print_script(script(text)) == printed


def test_braces_keep_an_else_and_a_predicate_where_they_belong():
    leave = Return(NOWHERE)
    inner = If(Name("a", NOWHERE), leave, None, NOWHERE)
    outer = If(Name("b", NOWHERE), inner, leave, NOWHERE)
    probe = Probe("BEGIN", Number(1, NOWHERE), outer, NOWHERE, NOWHERE)

    printed = print_script(Script((probe,), NOWHERE))

    assert script(printed).probes[0].body == Block(
        (If(Name("b", NOWHERE), Block((inner,), NOWHERE), leave, NOWHERE),), NOWHERE
    )


@pytest.mark.parametrize(
    "text",
    [
        "BEGIN 1" + " + 2 * x" * 5000 + ";\n",
        "BEGIN " + "(" * 5000 + "1" + " + 2) * 3" * 5000 + ";\n",
        "BEGIN " + "1 + (" * 200 + "1 + 1" + ")" * 200 + ";\n",
        "BEGIN " + "f(" * 200 + ")" * 200 + ";\n",
        "BEGIN x" + "->y" * 200 + ";\n",
    ],
    ids=["flat", "left", "right", "calls", "members"],
)
def test_prints_long_chains_and_deep_trees(text):
    assert print_script(script(text)) == text


def test_prints_deep_statements():
    text = "BEGIN {" + "if (1) {" * 200 + "}" * 200 + "}"

    assert print_script(script(text)).count("if (1) {") == 200


def test_dumps_deep_trees():
    assert dump_ast(script("BEGIN " + "!" * 200 + "1" + " + 1" * 1000 + ";")).count("\n") == 2203


def test_dumps_tokens():
    dump = dump_tokens(lex(Source("<script>", 'k:f / $x == 0x10u / {\n  @["a\nb"] = 1; }')))

    assert dump == (
        "1:1     probe specification   k:f\n"
        "1:5     operator              /\n"
        "1:7     parameter             $x\n"
        "1:10    operator              ==\n"
        "1:13    number                0x10u  = 16\n"
        "1:19    operator              /\n"
        "1:21    operator              {\n"
        "2:3     aggregation           @\n"
        "2:4     operator              [\n"
        "2:5     string                \"a\\nb\"  = b'a\\nb'\n"
        "3:3     operator              ]\n"
        "3:5     operator              =\n"
        "3:7     number                1  = 1\n"
        "3:8     operator              ;\n"
        "3:10    operator              }\n"
        "3:11    end of script\n"
    )


def test_dumps_trees():
    text = """\
tracepoint:a/b / data->n > -1u / {
    if (x["k"] == 1) @[comm, 2] = sum(*p);
    else { delete x[1]; return; }
    print(pid());
}
END
"""

    assert dump_ast(script(text)) == (
        "probe tracepoint:a/b  <1:1>\n"
        "  predicate: binary >  <1:18>\n"
        "    member ->n  <1:18>\n"
        "      name data  <1:18>\n"
        "    unary -  <1:28>\n"
        "      number 1u  <1:29>\n"
        "  block  <1:34>\n"
        "    if  <2:5>\n"
        "      binary ==  <2:9>\n"
        "        index x  <2:9>\n"
        '          string "k"  <2:11>\n'
        "        number 1  <2:19>\n"
        "      then: assign  <2:22>\n"
        "        index @  <2:22>\n"
        "          name comm  <2:24>\n"
        "          number 2  <2:30>\n"
        "        call sum  <2:35>\n"
        "          unary *  <2:39>\n"
        "            name p  <2:40>\n"
        "      else: block  <3:10>\n"
        "        delete  <3:12>\n"
        "          index x  <3:19>\n"
        "            number 1  <3:21>\n"
        "        return  <3:25>\n"
        "    expression  <4:5>\n"
        "      call print  <4:5>\n"
        "        call pid  <4:11>\n"
        "probe END  <6:1>\n"
        "  block  <6:4>\n"
    )
