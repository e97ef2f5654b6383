"""What C ply 2.4 does wrong with values, and what is right: C, awk and bpftrace say what that is.

A test, or the id of a case, is called after the defect.
"""

import pytest

from pybpf.compiler.pipeline import compile_script
from pybpf.output.text import render
from pybpf.testing import tracepoints
from pybpf.vm.driver import run_events
from pybpf.vm.recording import RecordedEvent

live = pytest.mark.kernel


def case(name, script, text):
    return pytest.param(script, text, id=name)


def faulty(name, statements, at, message, *hints):
    """Return a case: an error at a column of these statements in a BEGIN."""
    lines = [f"<script>:1:{at + 9}: error: {message}", *(f"  hint: {hint}" for hint in hints)]
    return pytest.param(f"BEGIN {{ {statements} }}", "\n".join(lines), id=name)


def begin(name, statements, text):
    return pytest.param(f"BEGIN {{ {statements} }}", text, id=name)


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


STRINGS = {
    "char[16]": ("name", b"string"),
    "__data_loc": ("text", b"string"),
    "__rel_loc": ("tail", b"string"),
    "char *": ("kernel_text", tracepoints.KERNEL_TEXT),
    "char __user *": ("user_text", tracepoints.USER_TEXT),
}


@pytest.mark.parametrize(("field", "value"), STRINGS.values(), ids=STRINGS)
def test_strings_took_ceremony(field, value):
    """Printed, compared and as keys they are strings, however the kernel declares them."""
    target = tracepoints.target()
    memory = dict.fromkeys([tracepoints.KERNEL_TEXT, tracepoints.USER_TEXT], b"string\0")
    event = RecordedEvent(tracepoints.FIRST, data={field: value}, memory=memory)
    script = compile_script(
        f"""{tracepoints.FIRST}
        / !strcmp(data->{field}, "string") && strcmp(data->{field}, "s") / {{
            printf("%s %v\\n", data->{field}, data->{field});
            print(data->{field});
            @[data->{field}, 1] = count();
        }}""",
        target,
    )
    rows = run_events(script, target, [event])
    text = "".join(render(row, target.symbols) for row in rows)
    assert text.split() == ["string"] * 3 + ["@:", "{", "string", ",", "1", "}:", "1"]


@pytest.mark.parametrize("field", ["text", "tail"])
def test_dynamic_fields_had_one_kind_only(field):
    target = tracepoints.target()
    event = RecordedEvent(tracepoints.FIRST, data={field: b"dynamic"})
    text = f'{tracepoints.FIRST} {{ printf("%s", dyn(data->{field}, 4)); }}'
    (row,) = run_events(compile_script(text, target), target, [event])
    assert render(row, target.symbols) == "dyn"


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
