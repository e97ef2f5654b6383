"""Which tree a script is, where its nodes stand, and what is said of text that is no script."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybpf.compiler.ast import (
    Assign,
    Binary,
    Block,
    Call,
    Delete,
    Element,
    ExprStmt,
    If,
    Index,
    Member,
    Name,
    Number,
    Return,
    String,
    Unary,
    operands,
)
from pybpf.compiler.lexer import lex
from pybpf.compiler.parser import MAX_DEPTH, parse, parse_text
from pybpf.compiler.printer import print_script
from pybpf.errors import LexError, ParseError
from pybpf.source import Source
from pybpf.testing.scripts import asts, soups


def script(text):
    return parse_text(Source("<script>", text))


def clause(text):
    (probe,) = script(text).probes
    return probe


def expr(text):
    """The expression that a text is."""
    (stmt,) = clause(f"BEGIN {{ {text}; }}").body.body
    return stmt.expr


def shape(node):
    """A tree in few characters: every operator has its parentheses."""
    match node:
        case Number(value=value, suffix=suffix):
            return f"{value}{suffix}"
        case String(value=value):
            return repr(value)[1:]
        case Name(name=name):
            return name
        case Call(name=name, args=args):
            return f"{name.name}({' '.join(map(shape, args))})"
        case Index(name=name, keys=keys):
            return f"{name.name}[{' '.join(map(shape, keys))}]"
        case Member(object=inner, name=name, arrow=arrow):
            return f"({shape(inner)} {'->' if arrow else '.'}{name.name})"
        case Element(object=inner, index=index):
            return f"({shape(inner)} .[{shape(index)}])"
        case Unary(op=op, operand=inner):
            return f"({op} {shape(inner)})"
        case Binary(op=op, left=left, right=right):
            return f"({shape(left)} {op} {shape(right)})"
        case Block(body=body):
            return f"{{{' '.join(map(shape, body))}}}"
        case If(condition=condition, then=then, otherwise=None):
            return f"if {shape(condition)} {shape(then)}"
        case If(condition=condition, then=then, otherwise=otherwise):
            return f"if {shape(condition)} {shape(then)} else {shape(otherwise)}"
        case Return():
            return "return"
        case Delete(target=target):
            return f"delete {shape(target)}"
        case Assign(target=target, value=value):
            return f"{shape(target)} = {shape(value)}"
        case ExprStmt(expr=inner):
            return f"{shape(inner)};"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", "1"),
        ("1ul", "1ul"),
        ("'c'", "99"),
        ('"a"', "'a'"),
        ('"a" "b"\n"c"', "'abc'"),
        ("pid", "pid"),
        ("pid()", "pid()"),
        ("$target", "$target"),
        ("@", "@[]"),
        ("@x", "@x[]"),
        ("@[1, 2]", "@[1 2]"),
        ("x[pid, comm]", "x[pid comm]"),
        ("print(1, x[2], f(3))", "print(1 x[2] f(3))"),
        ("a.b->c.d", "(((a .b) ->c) .d)"),
        ("(*a).b", "((* a) .b)"),
        ("*a.b", "(* (a .b))"),
        ("data->if.END", "((data ->if) .END)"),
        ("f(x)->y", "(f(x) ->y)"),
        ("x[1].y", "(x[1] .y)"),
        ("data->x[1]", "((data ->x) .[1])"),
        ("m[1].x[y + 2][3].z", "((((m[1] .x) .[(y + 2)]) .[3]) .z)"),
        ("(p)[x[1]]", "(p .[x[1]])"),
        ("*(m[1])[2]", "(* (m[1] .[2]))"),
        ("-~!*x", "(- (~ (! (* x))))"),
        ("1--1", "(1 - (- 1))"),
        ("-1-1", "((- 1) - 1)"),
        ("a-b-c", "((a - b) - c)"),
        ("a-(b-c)", "(a - (b - c))"),
        ("((((a))))", "a"),
        ("a+b*c", "(a + (b * c))"),
        ("(a+b)*c", "((a + b) * c)"),
        ("-(a+b).c", "(- ((a + b) .c))"),
        ("a*b/c%d", "(((a * b) / c) % d)"),
        ("5&4==4", "(5 & (4 == 4))"),
        ("1<2==1", "((1 < 2) == 1)"),
        ("a<b<=c>d>=e", "((((a < b) <= c) > d) >= e)"),
        ("a<<b+c>>d", "((a << (b + c)) >> d)"),
        ("a||b^^c&&d|e^f", "(a || (b ^^ (c && (d | (e ^ f)))))"),
        ("a^b&c!=d<e<<f-g%h", "(a ^ (b & (c != (d < (e << (f - (g % h)))))))"),
        ("a%b-c<<d<e==f&g^h", "(((((((a % b) - c) << d) < e) == f) & g) ^ h)"),
        ("a^b|c&&d^^e||f", "(((((a ^ b) | c) && d) ^^ e) || f)"),
    ],
)
def test_expressions(text, expected):
    assert shape(expr(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", "{}"),
        ("{ ; ;; }", "{}"),
        ("{ 1; {} {;} }", "{1; {} {}}"),
        ("{ exit(0) }", "{exit(0);}"),
        ("{ @ = count() }", "{@[] = count()}"),
        ("{ x = 1; }", "{x[] = 1}"),
        ("{ x[1] = x[1] + 1; }", "{x[1] = (x[1] + 1)}"),
        ("{ @q[comm] = quantize(arg0); }", "{@q[comm] = quantize(arg0)}"),
        ("{ delete x[1]; delete @; delete y }", "{delete x[1] delete @[] delete y[]}"),
        ("{ return; return }", "{return return}"),
        ("{ if (a) b; }", "{if a b;}"),
        ("{ if (a) b; else c; }", "{if a b; else c;}"),
        ("{ if (a) {} else {} }", "{if a {} else {}}"),
        ("{ if (a) ; else ; }", "{if a {} else {}}"),
        ("{ if (a) if (b) c; else d; }", "{if a if b c; else d;}"),
        ("{ if (a) { if (b) c; } else d; }", "{if a {if b c;} else d;}"),
        ("{ if (a) b; else if (c) d; else e; }", "{if a b; else if c d; else e;}"),
        ("{ if (a) exit(0) }", "{if a exit(0);}"),
        ("print(1);", "print(1);"),
        ("x[1] = 2;", "x[1] = 2"),
        ("if (1) { exit(0); }", "if 1 {exit(0);}"),
        (";", "{}"),
        ("", "{}"),
    ],
)
def test_statements(text, expected):
    assert shape(clause(f"BEGIN {text}").body) == expected


@pytest.mark.parametrize(
    ("text", "spec", "predicate", "body"),
    [
        ("kprobe:f", "kprobe:f", None, "{}"),
        ("BEGIN", "BEGIN", None, "{}"),
        ("k:vfs_@(read|write){1;}", "k:vfs_@(read|write)", None, "{1;}"),
        ("BEGIN / 1 /", "BEGIN", "1", "{}"),
        ("BEGIN / 1 / ;", "BEGIN", "1", "{}"),
        ("BEGIN/1/{}", "BEGIN", "1", "{}"),
        ("BEGIN / 4/2 / { 1; }", "BEGIN", "(4 / 2)", "{1;}"),
        ("BEGIN / 4/2 / # c\n /* c */ { 1; }", "BEGIN", "(4 / 2)", "{1;}"),
        ("BEGIN / f(8/4/2) / { 8/4; }", "BEGIN", "f(((8 / 4) / 2))", "{(8 / 4);}"),
        ("kprobe:f/pid/{}", "kprobe:f", "pid", "{}"),
        ("tracepoint:a/b/pid/{}", "tracepoint:a/b", "pid", "{}"),
        ("tracepoint:a/b\n/ pid == $1 /\n{}", "tracepoint:a/b", "(pid == $1)", "{}"),
        ("#!/usr/bin/env -S pybpf run\nEND { }", "END", None, "{}"),
    ],
)  # fmt: skip
def test_clauses(text, spec, predicate, body):
    probe = clause(text)

    assert probe.spec == spec
    assert (None if probe.predicate is None else shape(probe.predicate)) == predicate
    assert shape(probe.body) == body


@pytest.mark.parametrize(
    ("text", "specs"),
    [
        ("kprobe:a kprobe:b {} END", ["kprobe:a", "kprobe:b", "END"]),
        ("BEGIN / 1 / kprobe:a / 1 / END {}", ["BEGIN", "kprobe:a", "END"]),
        ("BEGIN print(1); BEGIN exit(0);", ["BEGIN", "BEGIN"]),
        ("i:1{}i:2{}", ["i:1", "i:2"]),
    ],
)
def test_scripts(text, specs):
    assert [probe.spec for probe in script(text).probes] == specs


def test_the_example_of_the_manual():
    text = """
        kprobe:__netif_receive_skb_core
        {
            rx[arg0] = time;
        }
        kprobe:ip_rcv / rx[arg0] /
        {
            @["diff"] = quantize(time - rx[arg0]);
        }"""

    first, second = script(text).probes

    assert shape(first.body) == "{rx[arg0] = time}"
    assert shape(second.predicate) == "rx[arg0]"
    assert shape(second.body) == "{@['diff'] = quantize((time - rx[arg0]))}"


def test_spans():
    text = "kprobe:f / a+b / {\n if (x) y = (1 + 2)*3 ; else { delete @[k] }\n return\n}\nEND"
    tree = script(text)
    probe, last = tree.probes
    condition, leave = probe.body.body
    assign, block = condition.then, condition.otherwise
    delete = block.body[0]

    assert tree.span.text == text
    assert probe.span.text == text[: -len("\nEND")]
    assert probe.spec_span.text == "kprobe:f"
    assert probe.predicate.span.text == "a+b"
    assert condition.span.text == "if (x) y = (1 + 2)*3 ; else { delete @[k] }"
    assert assign.span.text == "y = (1 + 2)*3 ;"
    assert assign.target.span.text == assign.target.name.span.text == "y"
    assert assign.value.span.text == "(1 + 2)*3"
    assert assign.value.op_span.text == "*"
    assert assign.value.left.span.text == "(1 + 2)"
    assert block.span.text == "{ delete @[k] }"
    assert delete.span.text == "delete @[k]"
    assert delete.target.span.text == "@[k]"
    assert delete.target.name.span.text == "@"
    assert leave.span.text == "return"
    assert (last.span.text, last.body.span.text) == ("END", "")


def exprs_in(node):
    """All expressions in a statement or a clause."""
    match node:
        case Block(body=body):
            return [inner for stmt in body for inner in exprs_in(stmt)]
        case If(condition=condition, then=then, otherwise=otherwise):
            return [*exprs_in(condition), *exprs_in(then), *exprs_in(otherwise)]
        case Assign(value=value):
            return exprs_in(value)
        case ExprStmt(expr=inner):
            return exprs_in(inner)
        case Delete() | Return() | None:
            return []
        case _:
            return [node, *[found for inner in operands(node) for found in exprs_in(inner)]]


@given(asts())
@settings(max_examples=40, deadline=None)
def test_the_span_of_an_expression_is_that_expression(tree):
    for probe in script(print_script(tree)).probes:
        for node in exprs_in(probe.predicate) + exprs_in(probe.body):
            assert expr(node.span.text) == node
            if isinstance(node, Binary):
                assert node.op_span.text == node.op


def test_parentheses_and_chains_have_any_length():
    assert shape(expr("(" * 20_000 + "1" + ")" * 20_000)) == "1"

    chained = expr("1" + " + 2 * 3" * 5000)
    assert len(operands(chained)) == 5001


def nested(depth):
    """Scripts of ``depth`` levels, in several ways."""
    half = depth // 2
    return [
        "BEGIN { " + "f(" * depth + ")" * depth + "; }",
        "BEGIN { " + "x[" * depth + "1" + "]" * depth + "; }",
        "BEGIN { " + "!" * depth + "1; }",
        "BEGIN { " + "1 + (" * depth + "1" + ")" * depth + "; }",
        "BEGIN { " + "(" * half + "1" + " + 1).x" * half + "; }",
        "BEGIN { x" + ".y" * depth + "; }",
        "BEGIN " + "{" * (depth + 1) + "}" * (depth + 1),
        "BEGIN { " + "if (1) {" * depth + "}" * depth + " }",
        "BEGIN { " + "if (1) " * depth + "; }",
        "BEGIN { " + "if (1) {} else " * depth + "; }",
        "BEGIN { " + "if (1) {" * half + "!" * half + "1" + "}" * half + "}",
    ]  # fmt: skip


@pytest.mark.parametrize("text", nested(200), ids=range(len(nested(1))))
def test_what_nests_moderately_parses(text):
    script(text)


@pytest.mark.parametrize("depth", [MAX_DEPTH * 2 + 1, 2000])
@pytest.mark.parametrize("form", range(len(nested(1))))
def test_what_nests_too_deeply_is_an_error(form, depth):
    with pytest.raises(ParseError, match=f"error: nested too deeply: more than {MAX_DEPTH} levels"):
        script(nested(depth)[form])


@given(asts(), st.data())
@settings(max_examples=100, deadline=None)
def test_a_script_with_a_token_too_few_or_too_many_parses_or_is_an_error(tree, data):
    tokens = list(lex(Source("<script>", print_script(tree))))
    at = data.draw(st.integers(0, len(tokens) - 2))
    if data.draw(st.booleans()):
        del tokens[at]
    else:
        tokens.insert(at, data.draw(st.sampled_from(tokens[:-1])))

    with contextlib.suppress(ParseError):
        parse(tokens)


@given(st.text() | soups())
@settings(max_examples=300, deadline=None)
def test_any_text_parses_or_is_an_error(text):
    try:
        tree = script(text)
    except (LexError, ParseError):
        return

    assert script(print_script(tree)) == tree
