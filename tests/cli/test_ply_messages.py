"""Where C ply said only `ERR:-1`, `ERR:-22` or `errno:13`: what is wrong, where, what to do.

A row for every situation in which ply 2.4 left its user with a number; that number is in the name
of the row. Those about functions that can be probed are in tests/guest/test_messages.py.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MORE = "\n  hint: `pybpf ply -h` shows the arguments; `pybpf run` has more"


def placed(script, mark, message, *hints):
    """Return a message about the part ``mark`` of a script, or about its end, with a caret."""
    at = script.index(mark) if mark else len(script)
    lines = [f"<script>:1:{at + 1}: error: {message}", f"    {script}"]
    lines.append(" " * (4 + at) + "^" * max(1, len(mark)))
    return "\n".join([*lines, *(f"  hint: {hint}" for hint in hints)])


def row(name, script, mark, message, *hints):
    return pytest.param(script, placed(script, mark, message, *hints), id=name)


EVENTS = "`pybpf list 'tracepoint:*'` shows all there are"
FUNCTIONS = "`pybpf list 'kprobe:*'` shows all there are"
PROVIDERS = "there are kprobe, kretprobe, tracepoint, eprobe, BEGIN, END, interval, profile"
UNITS = "a whole number and a unit: m, s, ms, us or ns, as in interval:500ms"
BLANKS = "a probe specification holds no blanks: interval:10ms"
ESCAPES = r"the escapes are \n \r \t \a \b \f \v \\ \" \' \0 \ooo \xHH"
NO_FILE = (
    "error: there is no file '/nosuch/script.ply', and it is no script either\n"
    "  hint: a script has probes, as in 'kprobe:vfs_read { @[comm] = count(); }'"
)
EMPTY = (
    "<script>:1:1: error: the script is empty\n"
    '  hint: a script is one clause or more, such as BEGIN { print("hello"); }'
)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        row("no provider", "foo:bar { }", "foo", "unknown provider 'foo'", PROVIDERS),
        row("glob without match, ERR -2", "kprobe:nosuchfn* { }", "kprobe:nosuchfn*",
            "no function of this kernel matches 'nosuchfn*'", FUNCTIONS),
        row("glob with an offset", "kprobe:nosuchfn*+4 { }", "kprobe:nosuchfn*+4",
            "no function of this kernel matches 'nosuchfn*+4'",
            "a pattern has no offset: it stands for the starts of functions"),
        row("misspelt glob, ERR -2", "kprobe:vfs_raed* { }", "kprobe:vfs_raed*",
            "no function of this kernel matches 'vfs_raed*'; did you mean 'vfs_read'?"),
        row("list of functions, EINVAL", "kprobe:a,b { }", ",",
            "a clause has one probe specification",
            "repeat the clause, or use one pattern: kprobe:vfs_@(read|write)"),
        row("kprobe of nothing", "kprobe: { }", "kprobe:", "kprobe wants a function",
            "such as kprobe:vfs_read"),
        row("no place, ERR -84", "kprobe:vfs_read+x { }", "kprobe:vfs_read+x",
            "'vfs_read+x' is no function, function+offset, address or pattern",
            "as in kprobe:vfs_read, kprobe:vfs_read+0x10 or kprobe:vfs_*"),
        row("unknown tracepoint, ERR -22", "tracepoint:nosuch/ev { }", "tracepoint:nosuch/ev",
            "unknown tracepoint 'nosuch/ev'", EVENTS),
        row("misspelt tracepoint, ERR -22", "tracepoint:sched/sched_swich { }",
            "tracepoint:sched/sched_swich",
            "unknown tracepoint 'sched/sched_swich'; did you mean 'sched/sched_switch'?"),
        row("tracepoint glob without match, ERR -22", "tracepoint:sched/nosuch* { }",
            "tracepoint:sched/nosuch*", "no tracepoint matches 'sched/nosuch*'", EVENTS),
        row("tracepoint without category, ERR -22", "tracepoint:sched_switch { }",
            "tracepoint:sched_switch",
            "'sched_switch' is no tracepoint; did you mean 'sched/sched_switch'?"),
        row("unit of an interval, ERR -22", "interval:1h { }", "interval:1h",
            "'1h' is no interval", UNITS),
        row("negative interval, attach failed", "interval:-1 { }", "interval:-1",
            "'-1' is no interval", UNITS),
        row("blank in an interval", "interval:10 ms { }", "ms",
            "unexpected 'ms', expected '/' or '{'", BLANKS),
        row("frequency, ERR -22", "profile:abc { }", "profile:abc", "'abc' is no frequency",
            "as in profile:99hz, or profile:0:99hz for CPU 0"),
        row("too high a frequency, ERR -22", "profile:2000hz { }", "profile:2000hz",
            "a profile runs 1 to 1000 times a second, not 2000"),
        row("unknown name", "BEGIN { print(nosuch); }", "nosuch",
            "unknown variable 'nosuch' in BEGIN"),
        row("name of another probe", "kretprobe:vfs_read { print(caller); }", "caller",
            "unknown variable 'caller' in kretprobe", "caller exists in kprobe probes only"),
        row("unknown function, ERR -2", "BEGIN { nosuch(1); }", "nosuch",
            "unknown function 'nosuch' in BEGIN"),
        row("arguments too few", "BEGIN { str(); }", "str()",
            "too few arguments to str; expected 1 to 2, got 0"),
        row("arguments too many", "BEGIN { pid(1); }", "1",
            "too many arguments to pid; expected 0, got 1"),
        row("abort by an escape", 'BEGIN { print("\\q"); }', "\\q", r"unknown escape '\q'",
            rf"a backslash is written '\\'; {ESCAPES}"),
        row("abort by a large number", "BEGIN { print(99999999999999999999); }",
            "99999999999999999999", "number '99999999999999999999' does not fit in 64 bits",
            "the largest number is 18446744073709551615 (0xffffffffffffffff)"),
        row("abort by printing nothing", "BEGIN { print(); }", "print()",
            "too few arguments to print; expected 1 or more, got 0"),
        row("crash by a function without arguments", "BEGIN { print(strcmp); }", "strcmp",
            "'strcmp' is a function: it wants arguments in parentheses"),
        row("abort by a count in a plain map", "BEGIN { m[1]=count(); }", "m[1]",
            "count() is stored in a map whose name begins with @", "name it '@m'"),
        row("garbage by a key of another type", 'BEGIN { a[1]=1; a["x"]=2; }', '"x"',
            "key 1 of 'a' is of type 'int' since 1:11, and this is 'char[8]'"),
        row("end of file", "BEGIN { print(1", "",
            "unexpected end of script, expected ',' or ')'", "the '(' at 1:14 is not closed"),
        pytest.param("/", "error: / is a directory, not a script", id="a directory"),
        pytest.param("/nosuch/script.ply", NO_FILE, id="no file"),
        pytest.param("", EMPTY, id="an empty script"),
    ],
)  # fmt: skip
def test_messages(pybpf, script, error):
    """With a snapshot's functions and tracepoints, as those of this machine may be hidden."""
    target = ROOT / "tests" / "data" / "targets" / "6.12.tar.gz"
    said = pybpf("run", "-e", "--target", target, script)
    assert (said.status, said.out, said.err) == (1, "", f"{error}\n")


@pytest.mark.kernel
@pytest.mark.parametrize("function", ["nosuchfn", "vfs_read", "vfs_read+0x10000", "0x1234"])
def test_no_kprobes_in_the_kernel(pybpf, function):
    """Of which ply said `ERR:-13`."""
    from pybpf.kernel import features

    if features.pmu("kprobe") is not None:
        pytest.skip("this kernel has kprobes")
    config = features.config()
    if not config or {"CONFIG_KPROBES", "CONFIG_KPROBE_EVENTS"} & {*config}:
        pytest.skip("this kernel lacks another option, or does not tell")
    script = f"kprobe:{function} {{ @ = count(); }}"
    error = placed(
        script,
        f"kprobe:{function}",
        f"cannot attach kprobe:{function}: Operation not supported (errno 95)",
        "this kernel was built without CONFIG_KPROBES and CONFIG_KPROBE_EVENTS",
        "tracepoints need no kprobes: `pybpf list 'tracepoint:*'` shows them",
    )
    said = pybpf("ply", script)
    assert (said.status, said.out, said.err) == (1, "", f"{error}\n")


@pytest.mark.kernel
@pytest.mark.parametrize(
    "script",
    [
        "BEGIN { a[0] = (pid+(pid+(pid+(pid+1)))); exit(0); }",  # ERR:-1: no register left
        "BEGIN { a[1] = 1 << 32; exit(0); }",  # errno:22
        "BEGIN { a[1] = 1 / 0; exit(0); }",  # errno:22
        "BEGIN { @a[1] = quantize(time); @b[1] = quantize(time); exit(0); }",  # errno:13
        "BEGIN { print(str(0),str(0),str(0),str(0)); exit(0); }",  # errno:13
        "BEGIN { } interval:1ms { exit(0); }",  # errno:13: the body is empty
        "BEGIN / 4/2 / { exit(0); }",  # errno:13
        f'BEGIN {{ print("{"x" * 600}"); exit(0); }}',  # errno:13
    ],
)
def test_what_ply_could_not_load_runs(pybpf, script):
    said = pybpf("ply", script)
    assert (said.status, said.err) == (0, "")


def without(rights, script):
    """Run a script as root without some capabilities."""
    command = ["setpriv", "--bounding-set", rights, "--inh-caps", rights]
    try:
        return subprocess.run(
            [*command, sys.executable, "-m", "pybpf", "ply", script],
            capture_output=True, text=True, check=False,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("setpriv is not installed")


NEEDS = (
    "  hint: this needs root, or the capabilities CAP_BPF and CAP_PERFMON, "
    "and for tracepoints the right to read tracefs\n"
)
NO_MAP = f"""\
error: cannot create the ringbuf map .events: Operation not permitted (errno 1)
{NEEDS}  hint: this process lacks CAP_BPF and CAP_PERFMON
"""
NO_PROGRAM = f"""\
<script>:1:1: error: cannot load the program of interval:1s: Operation not permitted (errno 1)
    interval:1s {{ m[1] = 2; }}
    ^^^^^^^^^^^
{NEEDS}  hint: this process lacks CAP_PERFMON
"""


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("rights", "script", "error"),
    [
        ("-sys_admin,-bpf,-perfmon", 'BEGIN { print("x"); exit(0); }', NO_MAP),
        ("-sys_admin,-perfmon", "interval:1s { m[1] = 2; }", NO_PROGRAM),
    ],
)
def test_without_rights(rights, script, error):
    """Of which ply said `errno:1` and `ERR:-1`."""
    run = without(rights, script)
    assert (run.returncode, run.stdout, run.stderr) == (1, "", error)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "error: no script given\n  hint: such as 'BEGIN { print(\"hello\"); }'"),
        (["-x", "END { }"], f"error: unrecognized arguments: -x{MORE}"),
        (["END { }", "-c"], f"error: argument -c/--command: expected one argument{MORE}"),
    ],
)
def test_arguments(pybpf, arguments, error):
    said = pybpf("ply", *arguments)
    assert (said.status, said.out, said.err) == (1, "", f"{error}\n")
