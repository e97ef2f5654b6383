"""What is said of tokens that form no script, in full."""

from __future__ import annotations

import pytest

from pybpf.compiler.parser import parse_text
from pybpf.errors import Diagnostic, ParseError
from pybpf.source import Source, Span


def script(text):
    return parse_text(Source("<script>", text))


ERRORS = [
    (
        " \n# nothing\n",
        """\
<script>:1:1: error: the script is empty
  hint: a script is one clause or more, such as BEGIN { print("hello"); }""",
    ),
    (
        "trace.ply { }",
        """\
<script>:1:1: error: unexpected 'trace', expected a probe specification
    trace.ply { }
    ^^^^^
  hint: a clause begins with BEGIN, END or a probe such as kprobe:vfs_read""",
    ),
    (
        "BEGIN { } }",
        """\
<script>:1:11: error: unexpected '}', expected a probe specification
    BEGIN { } }
              ^
  hint: no '{' is open here
  hint: a clause begins with BEGIN, END or a probe such as kprobe:vfs_read""",
    ),
    (
        "kprobe:a, kprobe:b { }",
        """\
<script>:1:9: error: a clause has one probe specification
    kprobe:a, kprobe:b { }
            ^
  hint: repeat the clause, or use one pattern: kprobe:vfs_@(read|write)""",
    ),
    (
        "interval:10 ms { }",
        """\
<script>:1:13: error: unexpected 'ms', expected '/' or '{'
    interval:10 ms { }
                ^^
  hint: a probe specification holds no blanks: interval:10ms""",
    ),
    (
        "uprobe:/bin/sh:main/ pid / { }",
        """\
<script>:1:1: error: the probe specification ends in '/'
    uprobe:/bin/sh:main/ pid / { }
    ^^^^^^^^^^^^^^^^^^^^
  hint: a blank stands before a predicate: uprobe:/bin/sh:main / … /""",
    ),
    (
        "kprobe:f / pid == 1 { }",
        """\
<script>:1:21: error: unexpected '{', expected an operator or '/'
    kprobe:f / pid == 1 { }
                        ^
  hint: the predicate that begins at 1:10 ends in a '/' before the '{'""",
    ),
    (
        "kprobe:f / pid = 1 / { }",
        """\
<script>:1:16: error: unexpected '=', expected an operator or '/'
    kprobe:f / pid = 1 / { }
                   ^
  hint: '=' assigns and is a statement of its own; '==' compares""",
    ),
    (
        "kprobe:f / / { }",
        """\
<script>:1:12: error: unexpected '/', expected an expression
    kprobe:f / / { }
               ^""",
    ),
    (
        "BEGIN {\n  print(1)\n  print(2);\n}",
        """\
<script>:3:3: error: unexpected 'print', expected ';'
      print(2);
      ^^^^^
  hint: the statement before it does not end in ';'""",
    ),
    (
        "BEGIN exit(0)\n",
        """\
<script>:1:14: error: unexpected end of script, expected ';'
    BEGIN exit(0)
                 ^""",
    ),
    (
        "BEGIN {\n  if (1) {\n  print(1);\n}\nkprobe:f { }",
        """\
<script>:5:1: error: unexpected probe specification 'kprobe:f', expected a statement or '}'
    kprobe:f { }
    ^^^^^^^^
  hint: the '{' at 1:7 is not closed""",
    ),
    (
        "BEGIN { print((1);",
        """\
<script>:1:18: error: unexpected ';', expected ',' or ')'
    BEGIN { print((1);
                     ^
  hint: the '(' at 1:14 is not closed""",
    ),
    (
        "BEGIN { x[1 = 2; }",
        """\
<script>:1:13: error: unexpected '=', expected ',' or ']'
    BEGIN { x[1 = 2; }
                ^
  hint: '=' assigns and is a statement of its own; '==' compares""",
    ),
    (
        "BEGIN { x[1; }",
        """\
<script>:1:12: error: unexpected ';', expected ',' or ']'
    BEGIN { x[1; }
               ^
  hint: the '[' at 1:10 is not closed""",
    ),
    (
        "BEGIN { if (pid = 1) x; }",
        """\
<script>:1:17: error: unexpected '=', expected an operator or ')'
    BEGIN { if (pid = 1) x; }
                    ^
  hint: '=' assigns and is a statement of its own; '==' compares""",
    ),
    (
        "BEGIN { if 1 { } }",
        """\
<script>:1:12: error: unexpected number '1', expected '('
    BEGIN { if 1 { } }
               ^""",
    ),
    (
        "BEGIN { a; else b; }",
        """\
<script>:1:12: error: unexpected 'else', expected a statement
    BEGIN { a; else b; }
               ^^^^
  hint: an 'else' follows directly the one statement or block of its 'if'""",
    ),
    (
        "BEGIN { @[] = count(); }",
        """\
<script>:1:11: error: unexpected ']', expected a key
    BEGIN { @[] = count(); }
              ^
  hint: write @[key], or @ alone""",
    ),
    (
        "BEGIN { x[1][2] = 3; }",
        """\
<script>:1:13: error: unexpected '[', expected an operator
    BEGIN { x[1][2] = 3; }
                ^
  hint: keys are separated by commas: m[a, b]""",
    ),
    (
        "BEGIN { str(1)[0]; }",
        """\
<script>:1:15: error: unexpected '[', expected an operator
    BEGIN { str(1)[0]; }
                  ^
  hint: maps and arrays have elements: m[key], data->args[1]""",
    ),
    (
        "BEGIN { data->args[0, 1]; }",
        """\
<script>:1:19: error: an element has one number: data->args[1]
    BEGIN { data->args[0, 1]; }
                      ^^^^^^""",
    ),
    (
        "BEGIN { data->args[]; }",
        """\
<script>:1:19: error: an element has one number: data->args[1]
    BEGIN { data->args[]; }
                      ^^""",
    ),
    (
        "BEGIN { data->args[0; }",
        """\
<script>:1:21: error: unexpected ';', expected ',' or ']'
    BEGIN { data->args[0; }
                        ^
  hint: the '[' at 1:19 is not closed""",
    ),
    (
        "BEGIN { f(1)(2); }",
        """\
<script>:1:13: error: unexpected '(', expected an operator
    BEGIN { f(1)(2); }
                ^
  hint: only a name can be called""",
    ),
    (
        "BEGIN { print(1, ); }",
        """\
<script>:1:18: error: unexpected ')', expected an expression
    BEGIN { print(1, ); }
                     ^""",
    ),
    (
        'BEGIN { print(1 "a"); }',
        """\
<script>:1:17: error: unexpected string "a", expected ',' or ')'
    BEGIN { print(1 "a"); }
                    ^^^
  hint: the '(' at 1:14 is not closed""",
    ),
    (
        "BEGIN { data->1; }",
        """\
<script>:1:15: error: unexpected number '1', expected the name of a field
    BEGIN { data->1; }
                  ^""",
    ),
    (
        "BEGIN { delete (x[1]); }",
        """\
<script>:1:16: error: unexpected '(', expected a map
    BEGIN { delete (x[1]); }
                   ^
  hint: write delete m[key];""",
    ),
    (
        "BEGIN { pid + 1 = 2; }",
        """\
<script>:1:9: error: cannot assign to this expression
    BEGIN { pid + 1 = 2; }
            ^^^^^^^
  hint: only a map can change: m[key] = …, delete m[key]""",
    ),
    (
        "BEGIN { delete clear(x); }",
        """\
<script>:1:16: error: cannot delete this expression
    BEGIN { delete clear(x); }
                   ^^^^^^^^
  hint: only a map can change: m[key] = …, delete m[key]""",
    ),
    (
        "BEGIN { $x = 2; }",
        """\
<script>:1:9: error: cannot assign to this expression
    BEGIN { $x = 2; }
            ^^
  hint: '$x' is given from outside; keep what changes in a map: m[kpid] = …""",
    ),
    (
        "BEGIN { a[1] = b[1] = 2; }",
        """\
<script>:1:21: error: unexpected '=', expected ';'
    BEGIN { a[1] = b[1] = 2; }
                        ^
  hint: '=' assigns and is a statement of its own; '==' compares""",
    ),
    (
        "BEGIN { f(&x); }",
        """\
<script>:1:11: error: unexpected '&', expected an expression
    BEGIN { f(&x); }
              ^
  hint: '&' takes two operands: there are no addresses to take""",
    ),
    (
        "BEGIN { x[1] =+ 2; }",
        """\
<script>:1:15: error: unexpected '+', expected an expression
    BEGIN { x[1] =+ 2; }
                  ^
  hint: '+' takes two operands""",
    ),
    (
        "BEGIN { @n += 2; }",
        """\
<script>:1:12: error: there is no '+=' in the language
    BEGIN { @n += 2; }
               ^^
  hint: write m[key] = m[key] + …""",
    ),
    (
        "BEGIN { x[1] <<= 2; }",
        """\
<script>:1:14: error: there is no '<<=' in the language
    BEGIN { x[1] <<= 2; }
                 ^^^
  hint: write m[key] = m[key] << …""",
    ),
    (
        "BEGIN { @n++; }",
        """\
<script>:1:11: error: there is no '++' in the language
    BEGIN { @n++; }
              ^^
  hint: write m[key] = m[key] + 1; to count events, @[key] = count()""",
    ),
    (
        "BEGIN { ++@n; }",
        """\
<script>:1:9: error: there is no '++' in the language
    BEGIN { ++@n; }
            ^^
  hint: write m[key] = m[key] + 1; to count events, @[key] = count()""",
    ),
    (
        "BEGIN { f(x--); }",
        """\
<script>:1:12: error: there is no '--' in the language
    BEGIN { f(x--); }
               ^^
  hint: write m[key] = m[key] - 1""",
    ),
    (
        "BEGIN { for (i = 0; i < 2; i++) { } }",
        """\
<script>:1:9: error: there is no 'for' in the language
    BEGIN { for (i = 0; i < 2; i++) { } }
            ^^^
  hint: a probe runs straight through at each event; 'if' and 'else' are its only branches""",
    ),
    (
        "BEGIN { x[1] = (u64)y; }",
        """\
<script>:1:16: error: there are no casts in the language
    BEGIN { x[1] = (u64)y; }
                   ^^^^^^
  hint: values keep the type of their field, argument or map""",
    ),
    (
        "BEGIN { ((struct sock *)arg0)->x; }",
        """\
<script>:1:10: error: there are no casts in the language
    BEGIN { ((struct sock *)arg0)->x; }
             ^^^^^^^^^^^^
  hint: values keep the type of their field, argument or map""",
    ),
    (
        "BEGIN { let $x = 1; }",
        """\
<script>:1:9: error: there are no declarations in the language
    BEGIN { let $x = 1; }
            ^^^^^^
  hint: assign to a map, which needs none: x[kpid] = …""",
    ),
]


@pytest.mark.parametrize(("text", "message"), ERRORS, ids=[text for text, _ in ERRORS])
def test_errors(text, message):
    with pytest.raises(ParseError) as caught:
        script(text)

    assert str(caught.value) == message


def test_foreign_words_are_names_where_the_grammar_takes_them():
    text = "BEGIN { while(1); do[1] = int; } BEGIN { x x; }"

    with pytest.raises(ParseError, match="unexpected 'x', expected ';'"):
        script(text)


@pytest.mark.parametrize(
    ("before", "marked", "line"),
    [
        ("ab ", "xyz", "   ^^^"),
        ("ü€ ", "xyz", "   ^^^"),
        ("日本 ", "xyz", "     ^^^"),
        ("e\u0301 ", "xyz", "  ^^^"),
        ("\t日 ", "x", "\t   ^"),
        ("a", "日本", " ^^^^"),
        ("a\x1b", "\u0301", "  ^"),
    ],
)
def test_carets_stand_below_what_a_terminal_shows(before, marked, line):
    source = Source("x.ply", f"{before}{marked} end")
    span = Span(source, len(before), len(before) + len(marked))
    assert Diagnostic("wrong", span).render().splitlines()[2] == f"    {line}"
