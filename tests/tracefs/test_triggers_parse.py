"""Triggers as values: parsed, written, built, explained."""

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybpf.errors import DynEventError
from pybpf.tracefs.dynevents.judge import judge
from pybpf.tracefs.filters.value import where
from pybpf.tracefs.triggers.build import (
    enable,
    hist,
    onchange,
    onmatch,
    onmax,
    removal,
    save,
    simple,
    trace,
)
from pybpf.tracefs.triggers.explain import explain_trigger, trigger_warnings
from pybpf.tracefs.triggers.judge import judge_trigger
from pybpf.tracefs.triggers.parse import checked, parse_trigger
from pybpf.tracefs.triggers.value import (
    Act,
    Binary,
    Enable,
    Hist,
    HistField,
    Negated,
    Number,
    Removal,
    Save,
    Simple,
    Snapshot,
    SortKey,
    Trace,
    Variable,
    VariableRef,
)

ENTER, SWITCH, WAKING = "raw_syscalls/sys_enter", "sched/sched_switch", "sched/sched_waking"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("hist:key=id", "hist:keys=id"),
        ("hist:val=hitcount,x.hex:key=a.bucket=0x8", "hist:keys=a.buckets=8:vals=hitcount,x.hex"),
        ("hist:keys=a:x=b+1*2-$c:y=-(a+b)", "hist:keys=a:x=b+1*2-$c,y=-(a+b)"),
        ("hist:keys=a.sym-offset:sort=a.ascending,hitcount.descending",
         "hist:keys=a.sym-offset:sort=a,hitcount.descending"),
        ("hist:keys=a:clock= mono :size=100", "hist:keys=a:size=128:clock=mono"),
        ("hist:keys=a:NOHC:vals=b:continue", "hist:keys=a:vals=b:nohitcount:cont"),
        ("hist:keys=a:onmatch(s.e).tracex( wl , $l )", "hist:keys=a:onmatch(s.e).trace(wl,$l)"),
        ("hist:keys=a:x=s.e.$v\tif\ta==1", "hist:keys=a:x=s.e.$v if a == 1"),
        (" !hist keys=a ", "!hist:keys=a"),
        ("traceoff", "traceoff"),
        ("traceoff:0x5:x if a==1", "traceoff:5 if a == 1"),
        ("enable_event:a:b:2 if c ~ 'd'", 'enable_event:a:b:2 if c ~ "d"'),
        ("!disable_hist:a:b:unlimited if nonsense", "!disable_hist:a:b"),
        ("!stacktrace:unlimited", "!stacktrace"),
    ],
)  # fmt: skip
def test_text_is_written_in_one_way(text, canonical):
    value = parse_trigger(text)
    assert str(value) == canonical
    assert parse_trigger(canonical) == value


NAMES = st.from_regex(r"[a-z_][a-z0-9_]{1,5}", fullmatch=True)
NUMBERS = st.integers(0, (1 << 64) - 1)
SHOWN = st.sampled_from((None, "hex", "sym", "sym-offset", "syscall", "log2", "usecs"))
FIELDS = st.builds(HistField, NAMES, SHOWN)
REFERENCES = st.one_of(st.builds(VariableRef, NAMES), st.builds(VariableRef, NAMES, NAMES, NAMES))
ATOMS = st.one_of(FIELDS, REFERENCES, st.builds(Number, NUMBERS))
PRODUCTS = st.builds(Binary, st.sampled_from("*/"), ATOMS, ATOMS)
TERMS = st.one_of(ATOMS, PRODUCTS)
EXPRESSIONS = st.one_of(
    ATOMS,
    PRODUCTS,
    st.builds(Binary, st.sampled_from("+-"), TERMS, TERMS),
    st.builds(Negated, TERMS),
)  # fmt: skip
PARAMETERS = st.lists(st.one_of(NAMES, NAMES.map("${}".format)), min_size=1, max_size=3).map(tuple)
PLAIN = NAMES.filter(lambda name: not name.startswith(("save", "snapshot", "trace")))
TRACES = st.one_of(
    st.builds(Trace, NAMES, PARAMETERS), st.builds(Trace, PLAIN, PARAMETERS, st.just(value=False))
)
ACTS = st.one_of(
    st.builds(Act, st.just("onmatch"), st.just("sched.sched_waking"), TRACES),
    st.builds(
        Act,
        st.sampled_from(("onmax", "onchange")),
        NAMES.map("${}".format),
        st.one_of(TRACES, st.builds(Save, PARAMETERS), st.just(Snapshot())),
    ),
)
CONDITIONS = st.none() | NAMES.map(lambda name: where(name).eq(1))
HISTS = st.builds(
    Hist,
    st.lists(FIELDS, min_size=1, max_size=3).map(tuple),
    st.lists(EXPRESSIONS, max_size=2).map(tuple),
    st.lists(st.builds(Variable, NAMES, EXPRESSIONS), max_size=3).map(tuple),
    st.lists(st.builds(SortKey, NAMES, st.booleans()), max_size=2).map(tuple),
    st.none() | st.integers(7, 17).map(lambda bits: 1 << bits),
    st.sampled_from((None, "mono", "boot")),
    st.none() | NAMES,
    st.booleans(),
    st.lists(ACTS, max_size=2).map(tuple),
    st.sampled_from(("", "pause", "cont", "clear")),
    CONDITIONS,
)
RESERVED = {"key", "keys", "val", "vals", "values", "sort", "name", "clock", "size"}
TRIGGERS = st.one_of(
    HISTS.filter(lambda h: not RESERVED & {variable.name for variable in h.variables}),
    st.builds(Simple, st.sampled_from(("traceon", "stacktrace")), st.none() | NUMBERS, CONDITIONS),
    st.builds(Enable, st.just("enable_event"), NAMES, NAMES, st.none() | NUMBERS, CONDITIONS),
)


@given(TRIGGERS)
def test_a_value_is_its_text(value):
    assert parse_trigger(str(value)) == value
    assert checked(value) == value
    taken = removal(value)
    assert parse_trigger(str(taken)) == taken


PIECES = (
    "hist", ":", "keys", "=", "id", ",", "vals", "$a", ".", "hex", "buckets=", "-(", ")", "+", "1",
    "onmatch(", "trace(", "save", " if ", "size=", "sort=", "traceon", "enable_event", "!", "\n",
)  # fmt: skip
TEXTS = st.one_of(
    st.text(max_size=20),
    st.lists(st.sampled_from(PIECES), max_size=14).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=14).map("".join).map("hist:keys=id".__add__),
)


@settings(deadline=None)
@given(TEXTS)
def test_no_text_raises_anything_else(record, text):
    for kernel in ("6.1", "7.3"):
        judge_trigger(text, ENTER, record.world(kernel))
    try:
        value = parse_trigger(text)
    except DynEventError:
        return
    assert parse_trigger(str(value)) == value


def test_building():
    latency = hist(
        "next_pid",
        values=["hitcount.percent"],
        variables={"lat": "common_timestamp.usecs-$ts0"},
        sort=["hitcount.descending"],
        size=4096,
        actions=[
            onmatch("sched.sched_waking", trace("wl", "$lat", "next_pid")),
            onmax("$lat", save("next_comm")),
            onchange("$lat", Snapshot()),
        ],
        condition=where("next_pid").gt(0),
    )
    assert str(latency) == (
        "hist:keys=next_pid:vals=hitcount.percent:lat=common_timestamp.usecs-$ts0"
        ":sort=hitcount.descending:size=4096:onmatch(sched.sched_waking).trace(wl,$lat,next_pid)"
        ":onmax($lat).save(next_comm):onchange($lat).snapshot() if next_pid > 0"
    )
    assert str(removal(latency)) == f"!{latency}"
    assert str(simple("traceoff", 3, "id == 1")) == "traceoff:3 if id == 1"
    assert str(enable("a.b", "disable_event")) == "disable_event:a:b"
    assert str(removal(simple("traceoff", 3, "id == 1"))) == "!traceoff"


def test_what_is_no_trigger_is_not_built():
    with pytest.raises(DynEventError, match="Invalid field modifier"):
        hist("id.nosuch")
    with pytest.raises(DynEventError, match="would read this trigger as another one"):
        hist("id", size=100)
    with pytest.raises(DynEventError, match="would read this trigger as another one"):
        checked(Removal(Simple("traceon", 5)))
    with pytest.raises(DynEventError, match="kernel logs no reason"):
        hist("id", values=["hitcount"], nohitcount=True, kernel="6.1")


@pytest.mark.parametrize(
    ("event", "text", "column", "hint"),
    [
        (ENTER, "hist:keys=idd", 11, "did you mean id?"),
        (ENTER, "  hist:keys=id:vals=nosuch", 21, "fields: id args"),
        (ENTER, "hist:keys=id if nosuch == 1", 17, "fields: id args"),
        (ENTER, "hist:keys=id.nosuch", 14, "keys take .hex"),
        (ENTER, "hist:keys=id:sort=id.hex", 22, "no modifier"),
        (ENTER, "hist:keys=args", 1, "a key or value is a number of 1, 2, 4 or 8 bytes"),
        (ENTER, "hist:vals=id", 1, "a histogram has keys"),
        (ENTER, "hist:keys=id:nosuch", 1, "parts are keys="),
        (ENTER, "enable_event:sched", 1, "write enable_event:SYSTEM:EVENT"),
        (ENTER, "nosuch", 1, "triggers are hist"),
        (SWITCH, "hist:keys=next_pid:onmatch(sched.sched_wakin).trace(xx)", 34, "sched_waking?"),
        (SWITCH, "hist:keys=next_pid:onmatch(sched.sched_waking).trace(wk)", 54, "you mean wl?"),
    ],
)  # fmt: skip
def test_explanations(event, text, column, hint, record):
    world = judge("s:wl u64 lat", record.world("7.3")).after
    verdict = judge_trigger(text, event, world)
    error = explain_trigger(text, verdict, event, world)
    assert error.errno == verdict.errno
    assert error.diagnostics[0].span.column == column
    assert hint in error.diagnostics[0].hints[0]


@pytest.mark.parametrize(
    ("event", "text", "warning"),
    [
        (ENTER, "hist:keys=id", None),
        (ENTER, "hist:keys=common_cpu", "it is listed in another way, which does not remove it"),
        (ENTER, "hist:keys=id.hex:sort=id", "it is listed in another way, which does not remove"),
        (ENTER, "hist:keys=id:size=0200", None),
        (ENTER, "hist:keys=id:size=200", "the size becomes 256"),
        (ENTER, "hist:keys=id:clock=mono", "a clock without a timestamp is overlooked"),
        (ENTER, "!hist:keys=id", "no trigger of the event is made this way: nothing is removed"),
        (ENTER, "hist:keys=id\nhist:keys=id", "a line end does not begin another trigger"),
        ("syscalls/sys_enter_openat", "hist:keys=filename", "filename is a pointer: the key is"),
        (SWITCH, "hist:keys=next_pid:onmatch(sched.sched_waking).trace(wl,common_timestamp)",
         "no histogram is on sched/sched_waking: it is not waited for"),
    ],
)  # fmt: skip
def test_warnings(event, text, warning, record):
    world = judge("s:wl u64 lat", record.world("7.3")).after
    verdict = judge_trigger(text, event, world)
    assert verdict.accepted
    found = [diagnostic.message for diagnostic in trigger_warnings(text, verdict, event, world)]
    assert len(found) == (warning is not None)
    assert warning is None or found[0].startswith(warning)


@pytest.mark.parametrize("order", [1, -1])
def test_two_kinds_of_snapshots_are_warned_of(order, record):
    taker = (SWITCH, "hist:keys=next_pid:x=next_pid:onmax($x).snapshot()")
    (event, first), (other, second) = (taker, (WAKING, "snapshot"))[::order]
    before = judge_trigger(first, event, record.world("7.3"))
    assert not trigger_warnings(first, before, event, record.world("7.3"))
    after = judge_trigger(second, other, before.after)
    (warning,) = trigger_warnings(second, after, other, before.after)
    assert "is a panic" in warning.message


def test_what_triggers_hold_on_to_cannot_be_removed(record):
    world = judge("s:wl u64 lat", record.world("7.3")).after
    world = judge("e:g/x sched.sched_switch pid=$next_pid:s32", world).after
    text = "hist:keys=pid:onmax($m).trace(wl,$m):m=pid*1"
    verdict = judge_trigger(text, "g/x", world)
    assert verdict.message == "Param type doesn't match synthetic event field type"
    verdict = judge_trigger("hist:keys=pid:m=common_timestamp:onmax($m).trace(wl,$m)", "g/x", world)
    assert verdict.accepted
    for name in ("g/x", "synthetic/wl"):
        assert judge(f"-:{name}", verdict.after).errno == errno.EBUSY
    verdict = judge_trigger(f"!{verdict.listed[0].removesuffix(' [active]')}", "g/x", verdict.after)
    assert verdict.removed
    for name in ("g/x", "synthetic/wl"):
        assert judge(f"-:{name}", verdict.after).accepted


def test_what_reads_a_variable_goes_first(record):
    world = judge("s:wl u64 lat", record.world("6.12")).after
    world = judge_trigger("hist:keys=pid:ts=common_timestamp", WAKING, world).after
    reader = "hist:keys=next_pid:l=common_timestamp-$ts:onmatch(sched.sched_waking).trace(wl,$l)"
    verdict = judge_trigger(reader, SWITCH, world)
    assert verdict.accepted
    owner = judge_trigger("!hist:keys=pid:ts=common_timestamp", WAKING, verdict.after)
    assert owner.errno == errno.EBUSY
    assert not judge_trigger("", WAKING, verdict.after, truncate=True).removed
    world = judge_trigger(f"!{reader}", SWITCH, verdict.after).after
    assert judge_trigger("", WAKING, world, truncate=True).removed
    assert not judge_trigger("!hist:keys=pid:ts=common_timestamp", WAKING, world).after.triggers


def test_a_field_of_the_other_event_is_kept_in_a_histogram_of_its_own(record):
    world = judge("s:wl u64 lat; int prio", record.world("7.3")).after
    world = judge_trigger("hist:keys=pid:ts=common_timestamp", WAKING, world).after
    text = "hist:keys=next_pid:l=common_timestamp-$ts:onmatch(sched.sched_waking).trace(wl,$l,prio)"
    verdict = judge_trigger(text, SWITCH, world)
    assert (verdict.errno, verdict.message) == (0, "Couldn't find field")
    made = [trigger.listed for trigger in verdict.made if trigger.event == WAKING]
    assert made == [
        "hist:keys=pid:vals=hitcount:synthetic_prio=prio:sort=hitcount:size=2048 [active]"
    ]
    after = judge_trigger(f"!{text}", SWITCH, verdict.after).after
    assert [trigger.event for trigger in after.triggers] == [WAKING]


def test_names_pause_and_clear(record):
    world = record.world("7.3")
    world = judge_trigger("hist:keys=common_pid:name=foo", ENTER, world).after
    verdict = judge_trigger(
        "hist:keys=common_pid:name=foo if id > 1", "raw_syscalls/sys_exit", world
    )
    assert verdict.listed == (
        "hist:name=foo:keys=common_pid:vals=hitcount:sort=hitcount:size=2048 if id > 1 [active]",
    )
    other = judge_trigger("hist:keys=id:name=foo", ENTER, world)
    assert other.message.startswith("Named hist trigger doesn't match")
    paused = judge_trigger("hist:keys=common_pid:name=foo:pause", ENTER, world)
    assert paused.listed[0].endswith(" [paused]")
    cleared = judge_trigger("hist:keys=common_pid:name=foo:clear", ENTER, paused.after)
    assert (cleared.errno, cleared.made) == (0, ())


def test_other_triggers(record):
    world = judge_trigger("traceoff:5", ENTER, record.world("7.3")).after
    verdict = judge_trigger("stacktrace", ENTER, world)
    assert verdict.listed == ("stacktrace:unlimited", "traceoff:count=5")
    assert judge_trigger("traceon", ENTER, world).errno == errno.EEXIST
    assert judge_trigger("!traceon", ENTER, world).listed == ()
    assert judge_trigger("!traceon", ENTER, world).file.startswith("# Available triggers:\n#")
    assert judge_trigger("enable_event:ftrace:function", ENTER, world).errno == errno.EINVAL
    assert judge_trigger("x" * 4096, ENTER, world).errno == errno.EINVAL
