"""What C ply 2.4 takes for its language, and what is right: words, probes, names, grammar.

A test, or the id of a case, is called after the defect.
"""

import pytest

from pybpf.compiler.dump import dump
from pybpf.source import Source
from pybpf.target.snapshot import SnapshotTarget

live = pytest.mark.kernel


def case(name, script, text):
    return pytest.param(script, text, id=name)


def faulty(name, statements, at, message, *hints):
    """Return a case: an error at a column of these statements in a BEGIN."""
    lines = [f"<script>:1:{at + 9}: error: {message}", *(f"  hint: {hint}" for hint in hints)]
    return pytest.param(f"BEGIN {{ {statements} }}", "\n".join(lines), id=name)


def begin(name, statements, text):
    return pytest.param(f"BEGIN {{ {statements} }}", text, id=name)


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "text"),
    [
        begin("underscores in numbers", "print(1_000_000, 0xc1ab_dead, 0b1_0);",
              "1000000, 3249266349, 2\n"),
        begin("underscore is a name", "_ = 3; _9 = 4; print(_ + _9); delete _; delete _9;", "7\n"),
        begin("octal", "print(017, 0, 00);", "15, 0, 0\n"),
        faulty("08 was 0", "print(08);", 6, "'8' is no octal digit, in number '08'",
               "a number that begins with 0 is octal"),
        faulty("09 was 0", "print(09);", 6, "'9' is no octal digit, in number '09'",
               "a number that begins with 0 is octal"),
        faulty("0x was 0 and x", "print(0x);", 6, "number '0x' has no digits behind '0x'"),
        begin("0B11 was an error", "print(0B11, 0b11);", "3, 3\n"),
        faulty("0b2", "print(0b2);", 6, "'2' is no binary digit, in number '0b2'"),
        begin("suffixes were errors", "print(1u, 2l, 3UL, 4ull, -1 < 0u);", "1, 2, 3, 4, 0\n"),
        faulty("1.5", "print(1.5);", 6, "'1.5' is not an integer",
               "a probe computes with integers only"),
        begin("2147483648 was unsigned int", "print(2147483648, -2147483648, -2147483649);",
              "2147483648, -2147483648, -2147483649\n"),
        begin("minus 2147483648 is negative", "print(-2147483648 < 0, 2147483648 > -1);",
              "1, 1\n"),
        faulty("beyond 64 bits aborted", "print(99999999999999999999);", 6,
               "number '99999999999999999999' does not fit in 64 bits",
               "the largest number is 18446744073709551615 (0xffffffffffffffff)"),
        begin("characters were unknown", "print('c', '\\n', '\\'');", "99, 10, 39\n"),
        faulty("unknown escapes aborted", 'print("\\q");', 7, "unknown escape '\\q'",
               "a backslash is written '\\\\'; the escapes are "
               "\\n \\r \\t \\a \\b \\f \\v \\\\ \\\" \\' \\0 \\ooo \\xHH"),
        begin("hexadecimal escapes aborted", 'printf("\\x41\\102\\a\\n");', "AB\a\n"),
        begin("a NUL in a string aborted", 'print("a\\0b", 1);', "a      , 1\n"),
        begin("quotes ended the string", 'printf("say \\"%s\\"\\n", "x");', 'say "x"\n'),
        begin("neighbouring strings", 'print("1234" "56");', "123456 \n"),
        begin("strings of 8 bytes were dumped", 'print("12345678", 1);', "12345678       , 1\n"),
        begin("strings of 8 bytes ran on", 'printf("%s|%s\\n", "abcdefgh", "x");', "abcdefgh|x\n"),
        case("comment at the end of the file", "BEGIN { print(1); } # end", "1\n"),
        case("comment of two slashes", "BEGIN { print(1); // one\n} // end", "1\n"),
        case("unterminated comment", "BEGIN { print(1); } /* end",
             "<script>:1:21: error: unterminated comment\n  hint: close it with '*/'"),
        case("unknown characters ended the script", "BEGIN { exit(0); } ` junk",
             "<script>:1:20: error: unexpected character '`'"),
        case("question marks ended the script", "BEGIN { exit(0); } ? junk",
             "<script>:1:20: error: unexpected character '?'\n"
             "  hint: there is no '?:'; use if (…) … else …"),
        case("letters beyond ASCII ended the script", "BEGIN { exit(0); } é",
             "<script>:1:20: error: unexpected character 'é' (U+00E9)"),
        begin("strings that never end", 'print("x);',
              "<script>:1:15: error: unterminated string\n  hint: close it with '\"'"),
    ],
)  # fmt: skip
def test_words(vm, script, text):
    assert vm(script) == text


@pytest.mark.parametrize(
    ("script", "text"),
    [
        case("brace behind an interval", "interval:50ms{ exit(0); }", ""),
        case("predicate behind an interval", "interval:50ms/pid>0/{ exit(0); }", ""),
        case("brace behind a pattern", "tracepoint:sched/sched_*{ @[1] = count(); }", ""),
        case("kprobe without a place", "kprobe:{ exit(0); }",
             "<script>:1:1: error: kprobe wants a function\n  hint: such as kprobe:vfs_read"),
        case("two probes at once", "kprobe:vfs_read,vfs_write { }",
             "<script>:1:16: error: a clause has one probe specification\n"
             "  hint: repeat the clause, or use one pattern: kprobe:vfs_@(read|write)"),
        case("interval with a blank", "interval:10 ms { exit(0); }",
             "<script>:1:13: error: unexpected 'ms', expected '/' or '{'\n"
             "  hint: a probe specification holds no blanks: interval:10ms"),
        *(
            case(f"interval of {span or 'nothing'}", f"interval:{span} {{ exit(0); }}",
                 f"<script>:1:1: error: '{span}' is no interval\n"
                 "  hint: a whole number and a unit: m, s, ms, us or ns, as in interval:500ms")
            for span in ("", "1h", "1.5s", "abc", "-1")
        ),
        case("interval of 0 never fired", "interval:0 { exit(0); }",
             "<script>:1:1: error: an interval of 0 never passes\n  hint: the shortest is 1ns"),
        case("profile of 0 never fired", "profile:0hz { exit(0); }",
             "<script>:1:1: error: a profile runs 1 to 1000 times a second, not 0"),
        case("profile of nonsense", "profile:100xyz { exit(0); }",
             "<script>:1:1: error: '100xyz' is no frequency\n"
             "  hint: as in profile:99hz, or profile:0:99hz for CPU 0"),
        case("profile cut short", "p:100hz { exit(0); }", ""),
        case("profile of a CPU too many", "profile:2:50hz { exit(0); }",
             "<script>:1:1: error: there is no CPU 2; they go from 0 to 1"),
        case("unknown provider", "foo:bar { exit(0); }",
             "<script>:1:1: error: unknown provider 'foo'\n"
             "  hint: there are kprobe, kretprobe, tracepoint, eprobe, BEGIN, END, interval, "
             "profile"),
        case("unknown tracepoint", "tracepoint:nosuch/ev { exit(0); }",
             "<script>:1:1: error: unknown tracepoint 'nosuch/ev'\n"
             "  hint: `pybpf list 'tracepoint:*'` shows all there are"),
    ],
)  # fmt: skip
def test_probe_specifications(vm, script, text):
    assert vm(script) == text


@pytest.mark.parametrize("name", ["ftrace/print", "ftrace/bprint", "ftrace/function",
                                  "ftrace/funcgraph_entry", "ftrace/raw_data"])  # fmt: skip
def test_arrays_of_no_length_divided_by_zero(vm, name):
    assert vm(f"tracepoint:{name} {{ @[1] = count(); print(*data); }}") == ""


# --- the environment ------------------------------------------------------------------------------


ENVIRONMENT = {"N": "5", "HEX": "0x10", "NEG": "-5", "OCT": "099", "WORD": "dd", "FORMAT": "%d\n"}


@pytest.mark.parametrize(
    ("statements", "text"),
    [
        pytest.param('printf("%d\\n", $N + 1);', "6\n", id="in sums"),
        pytest.param("print(pid == $N, $N == 5);", "0, 1\n", id="in comparisons"),
        pytest.param('printf("%d\\n", $N);', "5\n", id="in printf"),
        pytest.param("print($NEG / 2, $HEX);", "-2, 16\n", id="numbers"),
        pytest.param("print($OCT, $NOSUCH, 1);", "099    ,        , 1\n", id="no numbers"),
        pytest.param("printf($FORMAT, 3);", "3\n", id="as a format"),
        pytest.param('printf("<%s>\\n", str(0, $N));', "<>\n", id="as a size"),
        pytest.param("@[$N] = count();", "\n@:\n{ 5 }: 1\n", id="as a key"),
        pytest.param("@[$WORD] = count();", "\n@:\n{ dd      }: 1\n", id="as a word for a key"),
        pytest.param("m[1] = $N; print(m[1]); delete m[1];", "5\n", id="as a value"),
        pytest.param("m[0] = $N; print(pid == m[0]); delete m[0];", "0\n", id="kept and compared"),
        pytest.param("print(strcmp($WORD, $WORD), !strcmp(comm, $WORD));", "0, 0\n", id="strcmp"),
    ],
)
@live
def test_the_environment_was_of_type_void(run, statements, text):
    done = run(f"BEGIN {{ {statements} exit($N); }}", environment=ENVIRONMENT)
    printed, _, entries = text.partition("\n@:\n")
    assert done.printed == printed
    assert len(done.maps.get("@", {})) == bool(entries)
    assert done.status == 5


@live
def test_target_could_not_be_compared(run):
    """So that ply cannot trace the command it runs, and it alone."""
    done = run(
        "tracepoint:syscalls/sys_enter_write / pid == $target && data->count == 1 /"
        "{ @[pid == $target] = count(); t[$target] = 1; }",
        "dd if=/dev/zero of=/dev/null bs=1 count=7 status=none",
    )
    assert done.maps["@"] == {1: 7}
    assert len(done.maps["t"]) == 1


@live
def test_a_variable_called_target_was_stronger(run):
    done = run("BEGIN { m[1] = $target; }", "true", environment={"target": "77"})
    assert done.maps["m"][1] != 77


# --- grammar --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "text"),
    [
        case("missing body", "BEGIN", ""),
        case("empty body", "BEGIN {} END { }", ""),
        case("empty body behind a predicate", "BEGIN / 1 / {}", ""),
        case("body without braces aborted", 'BEGIN print("x"); END print("y");',
             "x      \ny      \n"),
        case("predicate that calls nothing", "BEGIN / 4/2 / { print(1); }", "1\n"),
        begin("empty statements", "; print(1);; if (1) ;", "1\n"),
        begin("last semicolon missing", "print(1)", "1\n"),
        faulty("comma before a parenthesis", "print(1,);", 8,
               "unexpected ')', expected an expression"),
        begin("return did not compile", "print(1); if (1) return; print(2);", "1\n"),
        begin("exclusive or did not compile", "print(1 ^^ 0, 1 ^^ 2, 0 ^^ 0, 1 ^^ 0 ^^ 1);",
              "1, 0, 0, 0\n"),
        begin("names with and without parentheses",
              "print(strcmp(execname, execname()), pid() == pid);", "0, 1\n"),
        begin("dangling else", "if (0) if (1) print(1); else print(2); print(3);", "3\n"),
        begin("precedence of C", "print(5&4==4, 1<2==1, 1|2^3&4, 8>>1+1);", "1, 1, 3, 2\n"),
        begin("maps without keys", "n = n + 1; print(n); delete n;", "1\n"),
        begin("aggregations without keys", "@ = count(); @ = count();", "\n@: 2\n"),
        begin("entries of aggregations", "@[1] = count(); @[2] = count(); delete @[1];",
              "\n@:\n{ 2 }: 1\n"),
        faulty("reading an aggregation", "@[1] = count(); print(@[1]);", 22,
               "'@' is an aggregation: its value is known only when it is printed"),
        faulty("assignment of sums", "a = 1; a += 1;", 9, "there is no '+=' in the language",
               "write m[key] = m[key] + …"),
        faulty("loops", "for (;;) {}", 0, "there is no 'for' in the language",
               "a probe runs straight through at each event; 'if' and 'else' are its only "
               "branches"),
        faulty("casts", "print((int)1);", 6, "there are no casts in the language",
               "values keep the type of their field, argument or map"),
    ],
)  # fmt: skip
def test_grammar(vm, script, text):
    assert vm(script) == text


@live
def test_logic_evaluated_both_sides(run):
    """Reading memory is what can be seen from outside: a division by 0 is none here."""
    assert run("BEGIN { print(0 && 1 / 0, 1 || 1 / 0, 1 && 7, 0 || 0); exit(0); }").lines == [
        "0, 1, 1, 0"
    ]
    code = dump(Source("s", "BEGIN { x = cpu && uid; }"), SnapshotTarget(), "asm").splitlines()
    calls = [n for n, line in enumerate(code) if "call" in line]
    jumps = [n for n, line in enumerate(code) if " if " in f" {line}"]
    assert any(calls[0] < jump < calls[1] for jump in jumps)
