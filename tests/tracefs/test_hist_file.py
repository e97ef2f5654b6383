"""Hist files become rows."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.errors import TargetError
from pybpf.tracefs.triggers.hist_file import (
    Bucket,
    Column,
    Named,
    Power,
    SnapshotTaken,
    Stack,
    Symbol,
    Totals,
    Track,
    parse_hist,
)


def file_of(trigger, *lines, totals="    Hits: 9\n    Entries: 2\n    Dropped: 1\n", after=""):
    shown = "".join(f"{line}\n" for line in lines)
    head = f"# event histogram\n#\n# trigger info: hist:{trigger} [active]\n#\n\n"
    return f"{head}{shown}{after}\nTotals:\n{totals}"


@pytest.mark.parametrize("kernel", ["6.1", "6.12", "7.3"])
def test_every_recorded_file_is_read(kernel, record):
    read = 0
    for row in record.rows(f"triggers-{kernel}"):
        for text in [row.get("hist"), *(step.get("hist") for step in row.get("steps", ()))]:
            whole = text and "Dropped" in text
            # Long ones were cut off: what is left of the last entry is of no use.
            kept = text if whole or not text else text[: text.rfind("\n{ ") + 1]
            for histogram in parse_hist(kept or ""):
                read += 1
                assert (histogram.totals is not None) == whole
                if whole:
                    assert len(histogram.entries) == histogram.totals.entries
                    if "nohitcount" not in histogram.trigger:
                        # Reading the file may be what is counted.
                        hits = [entry.hitcount for entry in histogram.entries]
                        assert 0 <= histogram.totals.hits - sum(hits) < 60
                else:
                    assert len(histogram.entries) == kept.count("\n{ ")
    assert read > 40


NUMBER, TEXT = f"{58:10}", f"{'bash':50}"


@pytest.mark.parametrize(
    ("keys", "shown", "values"),
    [
        ("id", f"id: {NUMBER} ", {"id": 58}),
        ("id.usecs", f"id: {NUMBER} ", {"id": 58}),
        ("id.hex", "id: 3a ", {"id": 0x3A}),
        ("a.sym", f"a: [ff81] {'schedule':45} ", {"a": Symbol(0xFF81, "schedule")}),
        ("a.sym-offset", f"a: [8] {'f+0x1/0x9 [m]':55} ", {"a": Symbol(8, "f+0x1/0x9 [m]")}),
        ("a.execname", f"a: {'a [b, c':16}[{7:10}] ", {"a": Named(7, "a [b, c")}),
        ("a.syscall", f"a: {'sys_read':30}[{0:3}] ", {"a": Named(0, "sys_read")}),
        ("a.log2", "a: ~ 2^5  ", {"a": Power(5)}),
        ("a.buckets=50", "a: ~ 150-199 ", {"a": Bucket(150, 199)}),
        ("c", f"c: {TEXT} ", {"c": "bash"}),
        ("c", f"c: {'123':50} ", {"c": "123"}),
        ("c,d", f"c: {'x, d: y } ':50}, d: {TEXT} ", {"c": "x, d: y }", "d": "bash"}),
        ("common_cpucommon_cpu", "common_cpu:          1 ", {"common_cpu": 1}),
        ("id+1", f"id+1: {NUMBER} ", {"id+1": 58}),
        ("stacktrace", "stacktrace:\n         f+0x1/0x2\n         g+0x3/0x4 [m]\n",
         {"stacktrace": Stack(("f+0x1/0x2", "g+0x3/0x4 [m]"))}),
        ("st.stacktrace", "st.stacktrace         f+0x1/0x2\n         g+0x3/0x4\n",
         {"st": Stack(("f+0x1/0x2", "g+0x3/0x4"))}),
        ("common_stacktrace,id", f"common_stacktrace:\n         f+0x1/0x2\n, id: {NUMBER}",
         {"common_stacktrace": Stack(("f+0x1/0x2",)), "id": 58}),
    ],
)  # fmt: skip
def test_keys(keys, shown, values):
    trigger = f"keys={keys}:vals=hitcount:sort=hitcount:size=2048"
    line = f"{{ {shown}}} hitcount:          3"
    (histogram,) = parse_hist(file_of(trigger, line, line))
    assert [dict(entry.keys) for entry in histogram.entries] == [values, values]
    assert histogram.totals == Totals(9, 2, 1)
    assert histogram.entries[0].hitcount == 3


def test_values():
    trigger = "keys=a:vals=hitcount,b,c.hex,d.percent,e.graph,f+1,f.percent:x=b:sort=a:size=2048"
    bar = f"{'###':20}"
    line = (
        f"{{ a: {1:10} }} hitcount: {2:10}  b: {3:10}  c: {'1f':>10}  d (%):  12.50  e: {bar}"
        "  f (%):[ERROR]"
    )
    (histogram,) = parse_hist(file_of(trigger, line))
    assert histogram.entries[0].columns == (
        Column("hitcount", "", 2),
        Column("b", "", 3),
        Column("c", "hex", 31),
        Column("d", "percent", 12.5),
        Column("e", "graph", 3),
        Column("f", "percent", None),
    )


def test_hitcounts_may_be_hidden():
    trigger = "keys=a:vals=b:sort=a:size=2048:nohitcount"
    (histogram,) = parse_hist(file_of(trigger, f"{{ a: {1:10} }}  b: {3:10}"))
    assert histogram.entries[0].hitcount is None
    assert histogram.entries[0].columns == (Column("b", "", 3),)


def test_what_actions_kept():
    trigger = (
        "keys=a:vals=hitcount:x=b:sort=a:size=2048:onmax($x).save(c,d):onchange($x).snapshot()"
    )
    entry = f"{{ a: {1:10} }} hitcount: {2:10}"
    track = f"\tmax: {930:10}  c: {'my  task':32}  d: {7:10}"
    after = (
        "\nSnapshot taken (see tracing/snapshot).  Details:\n"
        f"\ttriggering value {{ onchange($x) }}: {930:10}"
        f"\ttriggered by event with key: {{ a: {1:10} }}\n"
    )
    text = file_of(
        trigger,
        entry,
        track,
        f"{{ a: {2:10} }} hitcount: {2:10}",
        "\tchanged:          4",
        after=after,
    )
    (histogram,) = parse_hist(text)
    assert histogram.entries[0].tracks == (Track("onmax", 930, {"c": "my  task", "d": 7}),)
    assert histogram.entries[1].tracks == (Track("onchange", 4, {}),)
    assert histogram.snapshot == SnapshotTaken("onchange($x)", 930, {"a": 1})


def test_several_histograms_and_none():
    one = file_of("keys=a:vals=hitcount:sort=hitcount:size=128")
    assert parse_hist("") == ()
    assert [h.entries for h in parse_hist(f"{one}\n\n{one}")] == [(), ()]
    assert parse_hist(one)[0].trigger == "hist:keys=a:vals=hitcount:sort=hitcount:size=128 [active]"


ALONE = "keys=a:vals=hitcount:sort=hitcount:size=2048"
ENTRY = "{ a:          1 } hitcount:          2"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x", "no hist file: line 1: 'x'"),
        ("# event histogram\n", "hist file: line 2: no trigger info: ''"),
        (file_of(ALONE, "{ b: 1 }"), "hist file: line 6: no key: '{ b: 1 }'"),
        (file_of(ALONE, ENTRY, "x"), "hist file: line 7: no entry: 'x'"),
        (file_of("keys=a:vals=hitcount,b:sort=a", ENTRY), "hist file: line 6: no value of b: ''"),
        (file_of(ALONE, f"{ENTRY} x"), "hist file: line 6: no value: ' x'"),
    ],
)
def test_what_is_no_hist_file(text, reason):
    with pytest.raises(TargetError) as caught:
        parse_hist(text)
    assert str(caught.value) == reason


@given(st.text(alphabet="{} :a1\n\t#", max_size=60))
def test_no_text_raises_anything_else(text):
    with suppress(TargetError):
        parse_hist(file_of("keys=a:vals=hitcount,a.percent:sort=a", text))


@pytest.mark.parametrize(
    ("keys", "entry"),
    [
        ("a", "{ a:          1 } hitcount:          N"),
        ("a", "{ a:          N } hitcount:          2"),
        ("a.buckets=2", "{ a: ~ 0-N } hitcount:          2"),
        ("a.log2", "{ a: ~ 2^N } hitcount:          2"),
        ("a.syscall", "{ a: sys_read [ N] } hitcount:          2"),
        ("common_pid.execname", "{ common_pid: bash [ N] } hitcount:          2"),
        ("a", "{ a:          1 } hitcount:          2\n\tmax:  N"),
        ("a", "{ a:          1 } hitcount:          2\n\tmax:  1  b: N"),
    ],
)
def test_numbers_that_are_too_long(keys, entry):
    text = file_of(f"keys={keys}:vals=hitcount:sort=a", entry)
    assert len(parse_hist(text.replace("N", "9" * 20))[0].entries) == 1
    with suppress(TargetError):
        # What is longer than a number is taken for a string, if at all.
        parse_hist(text.replace("N", "9" * 5000))
    with pytest.raises(TargetError, match="no entry"):
        parse_hist(file_of(ALONE, ENTRY, totals="    Hits: " + "9" * 5000 + "\n"))
