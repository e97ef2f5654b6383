"""What was compiled for one machine fits another one, or says why it does not."""

from __future__ import annotations

import pytest

from pybpf.compiler.pipeline import compile_ahead
from pybpf.errors import TargetError
from pybpf.script import Needs, RecordField
from pybpf.target.features import ALL, COMM_PADDED, CPU_V4, RINGBUF
from pybpf.target.needs import fitted
from pybpf.target.snapshot import SnapshotTarget

FORMAT = """\
name: y
ID: {id}
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:int a;\toffset:{a};\tsize:4;\tsigned:1;
\tfield:{b} b;\toffset:16;\tsize:8;\tsigned:{signed};
\tfield:__data_loc char[] text;\toffset:24;\tsize:4;\tsigned:1;

print fmt: ""
"""
HINTS = (
    "\n  hint: compile it again, here or with `--target FILE` for a snapshot of this machine"
    "\n  hint: `pybpf snapshot -o FILE` makes one"
)

A_MOVED = "x/y: a is 4 signed bytes at 12, not 4 signed bytes at 8"
B_IS_UNSIGNED = "x/y: b is 8 bytes at 16, not 8 signed bytes at 16"
NUMBERS = "processes have other numbers: it is another PID namespace"
LACKS = "its BPF lacks"
SET = "\n  hint: -c starts a process to trace, target=PID in the environment names one"


def target(*, number=7, a=8, b="long", signed=1, event="x/y", **options):
    text = FORMAT.format(id=number, a=a, b=b, signed=signed)
    return SnapshotTarget(formats={event: text}, **options)


def moved(script, there, here=None):
    compiled, needs = compile_ahead(script, here or target())
    return fitted(compiled, needs, there, "x.o")


@pytest.mark.parametrize(
    ("script", "there"),
    [
        ("t:x/y { print(data->b); }", target(a=12, number=8)),
        ("t:x/y { print(data->text); }", target(a=12, signed=0)),
        ("t:x/y { print(pid); }", target(features=ALL - {CPU_V4}, release="7.3.0", a=12)),
        ("t:x/y { @ = count(); }", target(pid_namespace=(4, 5), features=ALL - {RINGBUF})),
        ("BEGIN { print(1); }", SnapshotTarget(release="7.3.0")),
    ],
)
def test_what_a_script_does_not_use_may_be_different(script, there):
    compiled, needs = compile_ahead(script, target())
    assert fitted(compiled, needs, there, "x.o") == compiled


@pytest.mark.parametrize(
    ("script", "there", "difference"),
    [
        ("t:x/y { print(data->a); }", target(a=12), A_MOVED),
        ("t:x/y { print(data->b); }", target(b="u64", signed=0), B_IS_UNSIGNED),
        ("t:x/y / data->b > 3 / { @ = count(); }", target(b="x", signed=0), B_IS_UNSIGNED),
        ("t:x/y { s[0] = *data; }", target(a=12), A_MOVED),
        ("t:x/y { @[data->a] = count(); }", target(a=12), A_MOVED),
        ("t:x/y { print(data->common_type); }", target(number=8), "the id of x/y is 8, not 7"),
        ("t:x/y { print(data->b); }", target(event="x/z"), "unknown tracepoint 'x/y'"),
        ("BEGIN { print(pid); }", target(pid_namespace=(4, 5)), NUMBERS),
        ("BEGIN { print(comm); }", target(features=ALL - {COMM_PADDED}), f"{LACKS} comm_padded"),
        ("BEGIN { print(1); }", target(features=ALL - {RINGBUF}), f"{LACKS} ringbuf"),
    ],
)  # fmt: skip
def test_what_a_script_uses_may_not(script, there, difference):
    with pytest.raises(TargetError) as caught:
        moved(script, there)
    assert str(caught.value) == (
        f"x.o was compiled for Linux 6.12.0, and here is another:\n  {difference}{HINTS}"
    )


def test_a_field_that_is_gone():
    needs = Needs("6.12.0", fields=(RecordField("x/y", "c", 8, 4, signed=True),))
    compiled, _ = compile_ahead("BEGIN {}", target())
    with pytest.raises(TargetError, match="x/y: c is not there"):
        fitted(compiled, needs, target(), "x.o")


def test_many_differences_are_cut_short():
    fields = tuple(RecordField("x/y", f"c{n}", 8, 4, signed=True) for n in range(20))
    compiled, _ = compile_ahead("BEGIN {}", target())
    with pytest.raises(TargetError, match="and 12 more") as caught:
        fitted(compiled, Needs("6.12.0", fields=fields), target(), "x.o")
    assert str(caught.value).count("not there") == 8


def test_another_machine():
    with pytest.raises(TargetError) as caught:
        moved("BEGIN {}", target(arch="s390x"))
    assert str(caught.value) == (
        "x.o was compiled for x86_64, which is little-endian, "
        f"and this machine is s390x, which is big-endian{HINTS}"
    )


def test_addresses_and_types():
    compiled, _ = compile_ahead("BEGIN {}", target())
    needs = Needs("6.12.0", types=True, addresses=(("jiffies", 4096), ("gone", 1)))
    there = SnapshotTarget(release="6.13.0", symbols=[(8192, "jiffies")])
    with pytest.raises(TargetError) as caught:
        fitted(compiled, needs, there, "x.o")
    assert (
        "\n  its types may be others: it is 6.13.0\n  jiffies is at 0x2000, not at 0x1000"
        "\n  unknown symbol 'gone'\n" in str(caught.value)
    )
    same = SnapshotTarget(symbols=[(4096, "jiffies"), (8192, "gone")])
    assert fitted(compiled, Needs("6.12.0", types=True), same, "x.o") == compiled


def test_a_perf_buffer_has_one_for_each_cpu():
    old = {"features": ALL - {RINGBUF}}
    few, many = target(cpus=2, **old), target(cpus=64, **old)

    def buffers(script):
        return [spec.max_entries for spec in script.maps if spec.name == ".events"]

    assert buffers(moved("BEGIN { print(1); }", many, few)) == [64]
    assert buffers(moved("BEGIN { print(1); }", few, many)) == [64]


# --- what is noted --------------------------------------------------------------------------------


def noted(script, **options):
    return compile_ahead(script, target(**options))[1]


def test_words_of_the_environment_are_noted():
    environment = {"1": "cat", "HOME": "/root", "target": "7"}
    needs = noted("BEGIN { print($1, $target, $NONE); }", environment=environment)

    assert needs.environment == (("1", "cat"), ("NONE", ""), ("target", "7"))


@pytest.mark.parametrize(("arch", "order"), [("x86_64", "little"), ("s390x", "big")])
def test_the_process_of_a_command_is_known_when_it_runs(arch, order):
    on = target(arch=arch)
    script, needs = compile_ahead("BEGIN { print($target); }", on)
    assert needs.environment == ()
    assert script.map(".target").initial == b""

    there = target(arch=arch, environment={"target": "4711"})

    assert fitted(script, needs, there, "x.o").map(".target").initial == (4711).to_bytes(4, order)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, f", which is not set{SET}"),
        ({"target": "ls"}, ", and 'ls' is no number of a process"),
        ({"target": "9" * 20}, f", and '{'9' * 20}' is no number of a process"),
    ],
)  # fmt: skip
def test_a_process_that_is_never_known(environment, message):
    script, needs = compile_ahead("BEGIN { print($target); }", target())
    with pytest.raises(TargetError) as caught:
        fitted(script, needs, target(environment=environment), "x.o")
    assert str(caught.value) == f"x.o asks for $target{message}"


@pytest.mark.parametrize(
    ("script", "features"),
    [
        ("t:x/y { @ = count(); }", ()),
        ("t:x/y { @[comm] = count(); }", ("comm_padded", "map_value_addr")),
        ("t:x/y { @[data->a] = sum(data->a / 3); }", ("cpu_v4", "map_value_addr")),
        ("BEGIN { print(1); }", ("map_value_addr", "ringbuf")),
    ],
)
def test_features_are_noted_where_code_uses_them(script, features):
    assert noted(script).features == features


def test_fields_are_those_of_every_tracepoint_of_a_clause():
    text = FORMAT.format(id=7, a=8, b="long", signed=1)
    on = SnapshotTarget(formats={"x/y": text, "x/z": text})
    needs = compile_ahead("t:x/* { @[data->b] = count(); }", on)[1]

    assert [(field.tracepoint, field.name) for field in needs.fields] == [
        ("x/y", "b"),
        ("x/z", "b"),
    ]
