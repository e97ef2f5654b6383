"""What C ply 2.4 does wrong, and what is right: C, awk and bpftrace say what that is.

A test, or the id of a case, is called after the defect. Defects of kprobes: tests/guest.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pybpf.compiler.dump import dump
from pybpf.compiler.pipeline import compile_script
from pybpf.kernel.maps import online_cpus
from pybpf.source import Source
from pybpf.target.snapshot import SnapshotTarget

ROOT = Path(__file__).parents[2]

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
             "  hint: there are kprobe, kretprobe, tracepoint, BEGIN, END, interval, profile"),
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
    assert vm(f"tracepoint:{name} {{ @[1] = count(); print(*data); }}") in (
        "",
        f"<script>:1:1: error: unknown tracepoint '{name}'",
    )


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


# --- types and maps -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "text"),
    [
        begin("m = m + 1 alone had no type", "m[1] = m[1] + 1;", "\nm:\n{ 1 }: 1\n"),
        begin("a map as its own key had no type", "a[a[1]] = 1;", "\na:\n{ 0 }: 1\n"),
        begin("values were not widened", "a[1] = 1; a[1] = 0xfffffffffff;",
              "\na:\n{ 1 }: 17592186044415\n"),
        begin("minus 1 became 4294967295", "a[0] = 0xffffffff; a[1] = -1; print(a[1]);",
              "-1\n\na:\n{ 1 }: -1\n{ 0 }: 4294967295\n"),
        faulty("keys of other types", 'a[1] = 1; a["x"] = 2;', 12,
               "key 1 of 'a' is of type 'int' since 1:11, and this is 'char[8]'"),
        begin("keys were not widened", "a[0xffffffffff] = 3; a[1] = 1; print(a[1]);",
              "1\n\na:\n{ 1 }: 1\n{ 1099511627775 }: 3\n"),
        faulty("another number of keys", "a[1] = 1; a[1, 2] = 3;", 10,
               "'a' is used with 2 keys, but with 1 key at 1:9"),
        begin("keys were cut short", 'a["short"] = 1; a["a much longer key"] = 2;',
              "\na:\n{ short                   }: 1\n{ a much longer key       }: 2\n"),
        faulty("fewer keys when reading", "a[1, 2, 3] = 1; print(a[1, 2]);", 22,
               "'a' is used with 2 keys, but with 3 keys at 1:9"),
        faulty("strings as conditions", "if (comm) print(1);", 4,
               "a condition is a number, and this is 'char[16]'",
               "compare strings with strcmp(), which gives 0 where they are equal"),
        begin("sums were unsigned", "@[1] = sum(5); @[1] = sum(-7);", "\n@:\n{ 1 }: -2\n"),
        begin("equal values sorted by difference",
              "m[5] = 1; m[2147483647] = 1; m[-2147483647] = 1; m[-5] = 1;",
              "\nm:\n{ -2147483647 }: 1\n{ -5 }: 1\n{ 5 }: 1\n{ 2147483647 }: 1\n"),
        begin("wide values sorted by difference",
              "m[1] = 0x7fffffffff; m[2] = 1; m[3] = 0x100000000; m[4] = -1;",
              "\nm:\n{ 4 }: -1\n{ 2 }: 1\n{ 3 }: 4294967296\n{ 1 }: 549755813887\n"),
        begin("print before clear", "a[1] = 1; print(a); clear(a); print(a);",
              "\na:\n{ 1 }: 1\n\n\n"),
        begin("clear of no map", "clear(nosuch);",
              "<script>:1:15: error: clear() wants the name of a map that the script uses"),
        begin("stdbuf was a map of ply's own", "stdbuf[1] = 1;", "\nstdbuf:\n{ 1 }: 1\n"),
        begin("strcmp compared the shorter length",
              'print(!strcmp("abc", "abcdefghij"), !strcmp("abc", "abc"));', "0, 1\n"),
        begin("unsigned as in C", "print(pid - 100000 < 0);", "0\n"),
    ],
)  # fmt: skip
def test_maps(vm, script, text):
    assert vm(script) == text


def test_pointers_could_not_be_added_to(vm):
    probe = "tracepoint:syscalls/sys_enter_openat"
    event = {"probe": probe, "data": {"filename": "0x7f0000"}, "memory": {"0x7f0000": "/etc/x"}}
    text = f'{probe} {{ p[1] = data->filename; printf("%s\\n", str(p[1] + 1)); delete p[1]; }}'
    assert vm(text, event) == "etc/x\n"


def test_fields_of_fields_were_a_syntax_error(vm):
    text = "kprobe:vfs_read { m[1] = *regs; print((*regs).rdi, m[1].rsi); delete m[1]; }"
    event = {"probe": "kprobe:vfs_read", "args": [5, 6]}
    assert vm(text, event) == "0x5, 0x6\n"


def test_arrays_had_no_elements(vm):
    probe = "tracepoint:raw_syscalls/sys_enter"
    event = {"probe": probe, "data": {"id": 1, "args": [10, 20, 30, 40, 50, 60]}}
    assert vm(f"{probe} {{ print(data->args[1], data->args[2] / 2); }}", event) == ("20, 15\n")


def test_strings_behind_pointers_were_numbers(vm):
    """In print, in printf and in strcmp, a string of user space as one of the kernel."""
    probe = "tracepoint:syscalls/sys_enter_openat"
    event = {"probe": probe, "data": {"filename": "0x7f0000"}, "memory": {"0x7f0000": "/etc/x"}}
    text = 'printf("%s %d\\n", data->filename, strcmp(data->filename, "/etc/x"));'
    assert vm(f"{probe} {{ {text} print(data->filename); }}", event).split() == [
        "/etc/x", "0", "/etc/x",
    ]  # fmt: skip


BAR = 32 * "█"


@pytest.mark.parametrize(
    ("script", "text"),
    [
        begin("2 to the 60 was a Z", "@ = quantize(1ul << 60);",
              f"\n@: \n\t[  1E,   2E)\t       1 ┤{BAR}│\n\n"),
        begin("2 to the 62 was a Z", "@ = quantize(1ul << 62);",
              f"\n@: \n\t[  4E,   8E)\t       1 ┤{BAR}│\n\n"),
        begin("labels of another map", "@t = quantize(time); @b = quantize(0x100000000000);",
              f"\n@t: \n\t[   0ns,    1ns]\t       1 ┤{BAR}│\n\n"
              f"\n@b: \n\t[ 16T,  32T)\t       1 ┤{BAR}│\n\n"),
        begin("labels of a map that comes later",
              "@b = quantize(0x100000000000); @t = quantize(time);",
              f"\n@b: \n\t[ 16T,  32T)\t       1 ┤{BAR}│\n\n"
              f"\n@t: \n\t[   0ns,    1ns]\t       1 ┤{BAR}│\n\n"),
    ],
)  # fmt: skip
def test_histograms(vm, script, text):
    assert vm(script) == text


def test_buckets_counted_in_32_bits(target_612):
    script = compile_script("BEGIN { @ = quantize(pid); @l = quantize(time); }", target_612)
    sizes = {spec.name: spec.value_size for spec in script.maps if spec.name.startswith("@")}
    assert sizes == {"@": 32 * 8, "@l": 64 * 8}


# --- printf ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "text"),
    [
        begin("ld of an int read its neighbour", 'printf("%d %ld %p %lld\\n", 2, 2, 2, 2);',
              "2 2 0x2 2\n"),
        begin("d of a long was cut", 'printf("%d %hhd\\n", 1ul << 40, 300);',
              "1099511627776 300\n"),
        faulty("d of a string", 'printf("%d\\n", "abc");', 15,
               "%d wants a number, and this is 'char[8]'", "use %s"),
        faulty("s of a number", 'printf("%s\\n", 65);', 15,
               "%s wants a string, and this is 'int'", "use %d"),
        begin("f of a number took its bits", 'printf("%f\\n", 1);', "1.000000\n"),
        faulty("width from an argument", 'printf("%*d", 3, 1);', 8,
               "in the format: '*' is not supported: write the width as a number"),
        faulty("width of an absent argument", 'printf("%*s", 1);', 8,
               "in the format: '*' is not supported: write the width as a number"),
        faulty("endless widths", 'printf("%999999999d", 1);', 8,
               "in the format: a width may be at most 1024"),
        begin("long specifications were cut", 'printf("%-0+#0000000000005d|\\n", 1);', "+1   |\n"),
        faulty("unknown conversion", 'printf("%k");', 8,
               "in the format: unknown conversion '%k'; "
               "the letters are d i o u x X c s p a A e E f F g G v"),
        faulty("n", 'printf("%n");', 8,
               "in the format: unknown conversion '%n'; "
               "the letters are d i o u x X c s p a A e E f F g G v"),
        faulty("arguments missing", 'printf("%d\\n");', 0,
               "the format has 1 conversion, but there are 0 arguments after it",
               "write %% for a percent sign"),
        faulty("arguments ignored", 'printf("%d\\n", 1, 2);', 0,
               "the format has 1 conversion, but there are 2 arguments after it"),
        begin("v has the width of its type", 'printf("%8v|%v\\n", 1, cpu);', "1| 0\n"),
        begin("percent signs", 'printf("%% 1%");', "% 1%"),
        faulty("formats that are no literals", "printf(comm);", 7,
               "the format of printf() must be a string literal"),
        begin("v of a map crashed", 'a[1] = 1; printf("%v", a); clear(a);',
              "\na:\n{ 1 }: 1\n"),
        begin("control characters came through", 'print("a\\tb\\x1b[1m"); printf("%s\\n", "\\a");',
              "a\\tb\\x1b[1m\n\\x07\n"),
    ],
)  # fmt: skip
def test_printf(vm, script, text):
    assert vm(script) == text


# --- arithmetic -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expressions", "values"),
    [
        pytest.param("-7/2, -7%2, 7/-2, 7%-2", "-3, -1, -3, 1", id="minus_seven_by_two"),
        pytest.param("-8>>1, -1>>31, -1>>1u", "-4, -1, -1", id="shift of negative numbers"),
        pytest.param("2147483648, -2147483648", "2147483648, -2147483648", id="2147483648"),
        pytest.param("0xffffffff+1, 0x7fffffffl + 1", "0, 2147483648", id="overflow as in C"),
        pytest.param("1<<32, 1<<-1, 1<<40", "1, -2147483648, 256", id="shifts did not load"),
        pytest.param("1/0, 1%0, -5/0, -5%0", "0, 1, 0, -5", id="division by zero did not load"),
        pytest.param("-1 < 0, -1 < 0u, -1 < 0l", "1, 0, 1", id="comparisons as in C"),
        pytest.param("m[1] == -1, m[1] < 0, m[1] / 2, m[1] >> 1, m[1] + 1", "1, 1, 0, -1, 0",
                     id="minus 1 from a map"),
        pytest.param("m[2] / 2, m[2] % 2, m[2] / m[1]", "-3, -1, 7", id="quotients of entries"),
        pytest.param("m[3] / m[4], m[3] % m[4]", "0, 7", id="division by an entry of zero"),
        pytest.param("l[1] / 2, l[1] >> 1, l[1] < 0", "-1, -2, 1", id="longs"),
    ],
)  # fmt: skip
@live
def test_arithmetic(run, vm, expressions, values):
    stores = "m[1] = -1; m[2] = -7; m[3] = 7; m[4] = 0; l[1] = -3l;"
    script = f"BEGIN {{ {stores} }} BEGIN {{ print({expressions}); exit(0); }}"
    assert run(script).lines == [values]
    assert vm(script).splitlines()[0] == values


@live
def test_negative_fields_of_tracepoints_were_positive(run):
    """The dfd of openat is AT_FDCWD, -100."""
    done = run(
        "tracepoint:syscalls/sys_enter_openat / pid == $target / {"
        " d = data->dfd; @[d, data->dfd < 0, d == -100, data->dfd + 1, d / 2] = count(); }",
        "cat /dev/null",
    )
    assert set(done.maps["@"]) == {(-100, 1, 1, -99, -50)}


# --- what the compiler had no room for ------------------------------------------------------------


def deep(levels):
    return "pid + (" * levels + "1" + ")" * levels


ROOM = [
    pytest.param(f"a[0] = {deep(4)};", "", id="four deep"),
    pytest.param(f"a[0] = {deep(60)};", "", id="sixty deep"),
    pytest.param("a[0] = (((pid+1)*(uid+2))+((gid+3)*(cpu+4)))"
                 "*(((pid+5)*(uid+6))+((gid+7)*(cpu+8)));",
                 "", id="a tree"),
    pytest.param("print(1); " * 100, "1\n" * 100, id="100 prints"),
    pytest.param("a[1] = 1; " * 300, "", id="300 stores"),
    pytest.param('printf("%s\\n", "x"); ' + "@[pid, comm] = count(); " * 60, "x\n", id="60 keys"),
    pytest.param("print(str(0), str(0), str(0), str(0));", ", ".join([" " * 127] * 4) + "\n",
                 id="four strings"),
    pytest.param("@a[1] = quantize(time); @b[1] = quantize(time); @c[1] = quantize(1); "
                 "@d[1] = quantize(2);", "", id="four histograms"),
    pytest.param(f'@["{"k" * 1000}"] = count();', "", id="key of 1000 bytes"),
    pytest.param(f"@[{', '.join(['comm'] * 33)}] = count();", "", id="key of 33 parts"),
    pytest.param('printf("<%s>\\n", str(0, 512)); m[1] = str(0, 512);', "<>\n", id="str of 512"),
    pytest.param(f'print("{"y" * 600}");', "y" * 600 + "       \n", id="string of 600 bytes"),
    pytest.param(f'printf("{"z" * 6000}\\n");', "z" * 6000 + "\n", id="format of 6000 bytes"),
    pytest.param("if (1) " * 200 + "print(1);", "1\n", id="200 ifs"),
    pytest.param("if (pid) { " * 100 + "print(1);" + " }" * 100, "1\n", id="100 branches"),
    pytest.param("".join(f"m{i}[1] = {i}; " for i in range(40)), "", id="40 maps"),
]  # fmt: skip


@pytest.mark.parametrize(("statements", "text"), ROOM)
@live
def test_room(run, statements, text):
    done = run(f"BEGIN {{ {statements} exit(0); }}")
    assert done.printed == text
    assert all(done.maps.values())


def test_parentheses_without_end_exhaust_nothing(vm):
    """So many, a person does not write: an error with a place, or a result."""
    said = vm(f"BEGIN {{ print({'(' * 20_000}1{')' * 20_000}); }}")
    assert said == "1\n" or said.startswith("<script>:1:")


@pytest.mark.parametrize(
    "script",
    ["BEGIN {}", "BEGIN / 4/2 / { }", "END", "tracepoint:sched/sched_switch {}",
     "interval:1s {}", "profile:1hz {}", "tracepoint:sched/sched_* / 1 / {}"],
)  # fmt: skip
@live
def test_probes_that_do_nothing_did_not_load(run, script):
    assert run(f"{script} BEGIN {{ exit(0); }}").status == 0


def test_programs_returned_whatever_was_in_r0(target_612):
    script = "BEGIN { m[1] = pid; } tracepoint:sched/sched_switch { print(1); } profile:1hz {}"
    code = dump(Source("s", script), target_612, "asm")
    ends = re.findall(r"^.*\n(?=\s*(?:\S+\s+)?exit$)", code, re.MULTILINE)
    assert ends
    assert all("r0 = 0" in end for end in ends), ends


# --- input that made the compiler crash -----------------------------------------------------------


STORED = "count() is stored in a map whose name begins with @"
NOWHERE = (f"{STORED}, and nowhere else", "write @[…] = count();")


def no_value(call):
    return f"{call}() gives no value: it is a statement of its own"


@pytest.mark.parametrize(
    ("script", "text"),
    [
        faulty("print of nothing", "print();", 0,
               "too few arguments to print; expected 1 or more, got 0"),
        begin("strcmp of literals", 'print(strcmp("a", "b"), strcmp("b", "a"));', "-1, 1\n"),
        faulty("strcmp of a number", 'print(strcmp(pid, "x"));', 13,
               "strcmp() compares strings, and this is of type 'pid_t'"),
        faulty("strcmp with a number", "print(strcmp(comm, pid));", 19,
               "strcmp() compares strings, and this is of type 'pid_t'"),
        faulty("strcmp of nothing", "strcmp();", 0,
               "too few arguments to strcmp; expected 2, got 0"),
        faulty("strcmp of one", "strcmp(comm);", 0,
               "too few arguments to strcmp; expected 2, got 1"),
        faulty("strcmp without parentheses", "print(strcmp);", 6,
               "'strcmp' is a function: it wants arguments in parentheses"),
        case("dyn of nothing", "tracepoint:sched/sched_process_exec { print(dyn()); }",
             "<script>:1:45: error: too few arguments to dyn; expected 1 to 2, got 0"),
        case("dyn of a number", "tracepoint:sched/sched_switch { print(dyn(data->prev_pid)); }",
             "<script>:1:43: error: dyn() wants a dynamic field of data (__data_loc or "
             "__rel_loc), not 'pid_t'"),
        faulty("count in a plain map", "m[1] = count();", 0, STORED, "name it '@m'"),
        faulty("count in a sum", "@[1] = count() + 1;", 7, *NOWHERE),
        faulty("count printed", "print(count());", 6, *NOWHERE),
        faulty("count alone", "count();", 0, *NOWHERE),
        faulty("print of print", "print(print(1));", 6, no_value("print")),
        faulty("print of exit", "print(exit(0));", 6, no_value("exit")),
        faulty("print of printf", 'print(printf("x"));', 6, no_value("printf")),
        faulty("print as a value", "a[1] = print(1);", 7, no_value("print")),
        faulty("print as a key", "a[print(1)] = 1;", 2, no_value("print")),
        faulty("stdbuf", "print(stdbuf);", 6, "unknown variable 'stdbuf' in BEGIN"),
        faulty("bwrite", "bwrite(ctx, 1, 1);", 0, "unknown function 'bwrite' in BEGIN"),
        faulty("maps as keys", "a[1] = 1; b[a] = 1;", 12,
               "'a' is a map with 1 key: say which entry, as in a[…]"),
        faulty("maps as values", "a[1] = 1; b[1] = a;", 17,
               "'a' is a map with 1 key: say which entry, as in a[…]"),
        faulty("mem of a literal", 'print(mem("abc"));', 10,
               "mem() wants an address, and this is already a string"),
        faulty("str of a literal", 'print(str("x"));', 10,
               "str() wants an address, and this is already a string"),
        faulty("unknown names", "print(nosuch);", 6, "unknown variable 'nosuch' in BEGIN"),
        faulty("unknown functions", "nosuch();", 0, "unknown function 'nosuch' in BEGIN"),
        case("arg with a number", "kprobe:vfs_read { print(arg(0)); }",
             "<script>:1:25: error: unknown variable 'arg' in kprobe\n"
             "  hint: the arguments of a function are arg0, arg1, … (in kprobe probes)"),
        case("caller of a return", "kretprobe:vfs_read { print(caller); }",
             "<script>:1:28: error: unknown variable 'caller' in kretprobe\n"
             "  hint: caller exists in kprobe probes only"),
    ],
)  # fmt: skip
def test_crashes(vm, script, text):
    assert vm(script) == text


# --- counting -------------------------------------------------------------------------------------


@pytest.fixture
def writers(tmp_path):
    """Return a function: the name and command of a dd on each CPU that writes so many bytes."""

    def writers(times):
        name = f"dd{os.getpid()}"
        shutil.copy(shutil.which("dd"), tmp_path / name)
        dd = f"{tmp_path / name} if=/dev/zero of=/dev/null bs=1 count={times} status=none"
        cpus = online_cpus()
        return name, "".join(f"taskset -c {cpu} {dd} & " for cpu in cpus) + "wait", len(cpus)

    return writers


@live
def test_count_loses_no_update(run, writers):
    """Nor do sum and quantize; ply lost up to one in a hundred."""
    name, command, cpus = writers(20_000)
    done = run(
        "tracepoint:syscalls/sys_enter_write / !strcmp(comm, $name) / {"
        " @n[1] = count(); @s[1] = sum(data->count); @q[1] = quantize(data->count);"
        " @c[cpu] = count(); @ = count(); }",
        command,
        environment={"name": name},
    )
    (known,) = {
        done.maps["@n"][1],
        done.maps["@s"][1],
        done.maps["@q"][1][0][2],
        *done.maps["@"].values(),
    }
    assert known == sum(done.maps["@c"].values())
    assert cpus * 20_000 - done.misses <= known <= cpus * 20_000


@live
def test_full_maps_lost_updates_in_silence(ply):
    stores = "".join(f"m[pid + {i}] = 1; @[pid + {i}] = count(); " for i in range(8))
    said = ply("--map-size", 5, f"BEGIN {{ {stores} exit(0); }}")
    assert (said.status, said.out.count("}: ")) == (0, 10)
    assert said.err == "".join(
        f"warning: 3 updates of {name} lost: the map is full (--map-size)\n" for name in ("m", "@")
    )


@live
def test_maps_held_1024_entries(run):
    done = run(
        "tracepoint:syscalls/sys_enter_write / pid == $target / { n = n + 1; m[n] = 1; }",
        "dd if=/dev/zero of=/dev/null bs=1 count=2000 status=none",
    )
    assert len(done.maps["m"]) == 2000
    assert done.lost == {}


# --- output and the end ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "exits",
    ["BEGIN { exit(3); }", "interval:1ms { exit(3); }",
     "tracepoint:sched/sched_switch { exit(3); }", "profile:1000hz { exit(3); }"],
)  # fmt: skip
@live
def test_output_after_exit_in_end(run, exits):
    done = run(f'{exits} END {{ printf("end\\n"); m[1] = 2; }}')
    assert (done.printed, done.maps, done.status) == ("end\n", {"m": {1: 2}}, 3)


@live
def test_exit_in_end_was_ignored(run):
    assert run("END { exit(5); }", "true").status == 5


@live
def test_the_end_of_the_command_with_data_hangs(run):
    script = 'BEGIN { printf("x\\n"); } interval:1ms { printf("y\\n"); }'
    for _ in range(20):
        lines = run(script, "sleep 0.02").lines
        assert (lines[0], set(lines[1:])) == ("x", {"y"})


@pytest.mark.parametrize(
    "before",
    [
        "tracepoint:syscalls/sys_enter_write / pid == $target / { @e[1] = count(); }",
        "profile:99hz { @e[1] = count(); }",
        "interval:10m { @e[1] = count(); }",
    ],
)
@live
def test_interval_after_tracepoint_fires(run, before):
    assert run(f"{before} interval:10ms {{ @[1] = count(); }}", "sleep 0.1").maps["@"][1] >= 3


def children():
    return Path("/proc/thread-self/children").read_text().split()


@live
def test_the_command_of_a_faulty_script_stayed(ply):
    before = children()
    said = ply("-c", "sleep 1000", "BEGIN { print(nosuch); }")
    assert (said.status, said.out) == (1, "")
    assert said.err.startswith("<script>:1:15: error: unknown variable 'nosuch' in BEGIN\n")
    assert children() == before


@live
def test_the_command_outlived_the_script(run):
    before = children()
    assert run("interval:10ms { exit(2); }", "sleep 1000").status == 2
    assert children() == before


FLOOD = "print(str(0, 400)); " * 16


@live
def test_lost_output_was_a_success(ply):
    """Without a word, even: here all is lost in BEGIN that does not fit the buffer."""
    said = ply("--buffer", 4096, f"BEGIN {{ {FLOOD} exit(0); }}")
    came = said.out.count("\n")
    assert (said.status, 0 < came < 16) == (1, True)
    assert said.err == (
        f"warning: {16 - came} records lost; a bigger --buffer may help\n"
        "error: records were lost, so the output is not complete\n"
        "  hint: -k goes on all the same\n"
    )


@live
def test_losses_are_counted_exactly_with_k(ply, writers):
    name, command, _ = writers(3000)
    said = ply(
        "-k", "--buffer", 4096, "-c", command,
        f'tracepoint:syscalls/sys_enter_write / !strcmp(comm, "{name}") /'
        '{ @[1] = count(); printf("E\\n"); }',
    )  # fmt: skip
    counted = int(re.search(r"^\{ 1 \}: (\d+)$", said.out, re.MULTILINE)[1])
    lost = re.search(r"^warning: (\d+) records? lost", said.err, re.MULTILINE)
    assert said.out.count("E\n") + int(lost[1] if lost else 0) == counted
    assert said.status == 0


@live
def test_records_of_two_cpus_changed_places(run, tmp_path):
    """Two programs take turns, each on a CPU of its own."""
    first, last = online_cpus()[0], online_cpus()[-1]
    for name in "ab":
        shutil.copy(shutil.which("true"), tmp_path / name)
    turn = f"taskset -c {first} {tmp_path}/a; taskset -c {last} {tmp_path}/b; "
    done = run(
        f'tracepoint:sched/sched_process_exec / !strcmp(data->filename, "{tmp_path}/a")'
        f' || !strcmp(data->filename, "{tmp_path}/b") /'
        "{ print(comm); }",
        turn * 20,
    )
    assert [line.rstrip() for line in done.lines] == ["a", "b"] * 20


@live
def test_profile_began_before_begin(run):
    done = run("profile:1000hz / !ready / { @early = count(); } BEGIN { ready = 1; }", "sleep 0.1")
    assert done.maps["@early"] == {}


@live
def test_aggregations_in_between(run):
    done = run("interval:20ms { @ = count(); n = n + 1; print(@); clear(@); if (n == 3) exit(0); }")
    shown = [int(line.removeprefix("@: ")) for line in done.lines if line]
    # Without clear, the sum would be 1 + 2 + 3. Where we come late, a tick is cleared unseen.
    assert 0 < sum(shown) <= 3


@live
def test_intervals_of_a_nanosecond(run):
    done = run("interval:1ns { @ = count(); }", "sleep 0.05")
    assert sum(done.maps["@"].values()) > 10


# --- the command line -----------------------------------------------------------------------------


def test_a_dry_run_of_a_good_script_failed(ply):
    said = ply("-e", "BEGIN { exit(3); }")
    assert (said.status, said.out, said.err) == (0, "", "")


def test_errors_went_to_standard_output_as_numbers(ply):
    said = ply("-e", "BEGIN { print(1) print(2); }")
    assert (said.status, said.out) == (1, "")
    first, *_ = said.err.splitlines()
    assert first == "<script>:1:18: error: unexpected 'print', expected ';'"
    assert "ERR" not in said.err


@live
def test_what_stood_behind_the_script_was_ignored(ply):
    assert ply('BEGIN { printf("%s %d\\n", $1, $2); exit($2); }', "a", "7").out == "a 7\n"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (
            "/no/such.ply",
            (
                "error: there is no file '/no/such.ply', and it is no script either\n"
                "  hint: a script has probes, as in 'kprobe:vfs_read { @[comm] = count(); }'\n"
            ),
        ),
        ("/tmp", "error: /tmp is a directory, not a script\n"),
    ],
    ids=["a file that is none was a script", "a directory crashed the scanner"],
)
def test_files(ply, argument, message):
    said = ply("-e", argument)
    assert (said.status, said.out, said.err) == (1, "", message)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@live
def test_sigterm_lost_the_output(number):
    script = 'BEGIN { printf("begun\\n"); m[1] = 2; } END { printf("end\\n"); }'
    with subprocess.Popen(
        [sys.executable, "-m", "pybpf", "run", "-u", script],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        assert process.stdout.read() == "end\n\nm:\n{ 1 }: 2\n"
    assert process.returncode == 128 + number


# --- symbols --------------------------------------------------------------------------------------


@live
def test_stacks_had_wrong_names(run):
    """ply knows only what ftrace can trace: it takes the rest for what lies before it."""
    done = run(
        "tracepoint:syscalls/sys_enter_write / pid == $target / { @[stack] = count(); }",
        "dd if=/dev/zero of=/dev/null bs=1 count=3 status=none",
    )
    (stack,) = done.maps["@"]
    names = [frame.partition("+")[0] for frame in stack]
    assert names[-2:] == ["do_syscall_64", "entry_SYSCALL_64_after_hwframe"]
    assert all(int(frame.partition("+")[2] or 0) < 1 << 16 for frame in stack)


@live
def test_nothing_is_cached(run):
    cache = Path("/var/tmp/ply-ksyms")
    before = cache.exists()
    run("BEGIN { print(stack); exit(0); }")
    assert cache.exists() == before
