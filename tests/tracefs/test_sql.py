"""Queries become plans, and errors with carets."""

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybpf.errors import DynEventError
from pybpf.tracefs.dynevents.judge import judge
from pybpf.tracefs.sql.parse import parse_query
from pybpf.tracefs.sql.plan import Watch, plan_query
from pybpf.tracefs.triggers.judge import judge_trigger

KERNELS = ("6.1", "6.12", "7.3")
WAKEUP = "FROM sched_waking AS start JOIN sched_switch AS end ON start.pid = end.next_pid"
OPENAT = "FROM sys_enter_openat AS e JOIN sys_exit_openat AS x ON e.common_pid = x.common_pid"


def steps(plan):
    return [f"{file} {text}" for file, text in plan.steps()]


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_two_events_have_to_do_with_each_other(kernel, record):
    query = f"""
        SELECT end.next_comm AS comm, TIMESTAMP_DELTA_USECS AS lat, start.prio {WAKEUP}
        WHERE start.prio < 100 AND end.prev_comm != 'swapper/0'
          AND NOT (start.pid = 1 OR start.pid = 2)
    """
    plan = plan_query(query, record.world(kernel), name="wl")
    assert plan.event == "synthetic/wl"
    assert steps(plan) == [
        "dynamic_events s:synthetic/wl char[16] comm; u64 lat; int prio",
        (
            "events/sched/sched_waking/trigger "
            "hist:keys=pid:wl_start_common_timestamp=common_timestamp.usecs,wl_start_prio=prio"
            " if prio < 100 && !(pid == 1 || pid == 2)"
        ),
        (
            "events/sched/sched_switch/trigger hist:keys=next_pid:wl_comm=next_comm"
            ",wl_lat=common_timestamp.usecs-$wl_start_common_timestamp,wl_prio=$wl_start_prio"
            ":onmatch(sched.sched_waking).trace(wl,$wl_comm,$wl_lat,$wl_prio)"
            ' if prev_comm != "swapper/0"'
        ),
        "events/synthetic/wl/enable 1",
    ]


@pytest.mark.parametrize("kernel", KERNELS)
def test_strings_of_user_space_are_read_at_the_end(kernel, record):
    query = f"SELECT USTRING(e.filename) AS file, x.ret, x.common_pid AS pid {OPENAT}"
    plan = plan_query(query, record.world(kernel), name="opened")
    assert plan.event == "sql/opened"
    assert plan.commands() == (
        (
            "echo 's:synthetic/opened u64 file; long ret; int pid' >> "
            "/sys/kernel/tracing/dynamic_events"
        ),
        (
            "echo hist:keys=common_pid:opened_start_file=filename >> "
            "/sys/kernel/tracing/events/syscalls/sys_enter_openat/trigger"
        ),
        (
            "echo 'hist:keys=common_pid:opened_file=$opened_start_file,opened_ret=ret"
            ",opened_pid=common_pid:onmatch(syscalls.sys_enter_openat)"
            ".trace(opened,$opened_file,$opened_ret,$opened_pid)' >> "
            "/sys/kernel/tracing/events/syscalls/sys_exit_openat/trigger"
        ),
        (
            "echo 'e:sql/opened synthetic.opened file=+0($file):ustring ret=$ret:s64"
            " pid=$pid:s32' >> /sys/kernel/tracing/dynamic_events"
        ),
        "echo 1 >> /sys/kernel/tracing/events/sql/opened/enable",
    )
    assert [line.split(" >> ")[0] for line in plan.teardown("/t")] == [
        "echo 0",
        "echo -:sql/opened",
        (
            "echo '!hist:keys=common_pid:opened_file=$opened_start_file,opened_ret=ret"
            ",opened_pid=common_pid:onmatch(syscalls.sys_enter_openat)"
            ".trace(opened,$opened_file,$opened_ret,$opened_pid)'"
        ),
        "echo '!hist:keys=common_pid:opened_start_file=filename'",
        "echo -:synthetic/opened",
    ]


QUERIES = (
    f"SELECT end.TIMESTAMP - start.TIMESTAMP AS t, CAST(start.common_pid AS comm) AS who {WAKEUP}",
    f"SELECT TIMESTAMP_DELTA AS lat, (start.prio + 1) * 2 AS p, end.prev_state {WAKEUP}",
    f"SELECT USTRING(e.filename) AS file, TIMESTAMP_DELTA_USECS AS lat {OPENAT} WHERE e.flags & 64",
    "SELECT id, CAST(common_pid AS execname) FROM raw_syscalls.sys_enter WHERE id < 5",
)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("query", QUERIES)
def test_the_kernel_takes_all_of_a_plan_and_lets_it_go(kernel, query, record):
    world = before = record.world(kernel)
    plan = plan_query(query, world, name="q")
    for file, text in [*plan.steps(), *plan.undoing()]:
        if file == "dynamic_events":
            verdict = judge(text, world)
        elif file.endswith("/trigger"):
            verdict = judge_trigger(text, file[len("events/") : -len("/trigger")], world)
        else:
            continue
        assert verdict.accepted, text
        world = verdict.after
    assert (world.existing, world.triggers) == (before.existing, before.triggers)


@pytest.mark.parametrize(
    ("query", "hist"),
    [
        ("SELECT id FROM raw_syscalls.sys_enter", "hist:keys=id"),
        ("select call_site from kmalloc where bytes_req >= 0x100;",
         "hist:keys=call_site if bytes_req >= 256"),
        (("SELECT CAST(call_site AS SYM-OFFSET), CAST(k.bytes_req AS buckets=64), SUM(bytes_alloc)"
         " FROM kmem.kmalloc AS k"),
         "hist:keys=call_site.sym-offset,bytes_req.buckets=64:vals=bytes_alloc"),
        ("SELECT CAST(id AS SYSCALL), CAST(common_pid AS execname) FROM raw_syscalls.sys_exit",
         "hist:keys=id.syscall,common_pid.execname"),
        (("SELECT CAST(bytes_req AS LOG), CAST(bytes_alloc AS _COUNTER_) FROM kmalloc"
         " WHERE NOT (bytes_req = 1 && bytes_alloc <> 2) || ptr = 0"),
         ("hist:keys=bytes_req.log2:vals=bytes_alloc"
         " if !(bytes_req == 1 && bytes_alloc != 2) || ptr == 0")),
        ("SELECT flags FROM sys_enter_openat WHERE filename ~ '/etc/*'",
         'hist:keys=flags if filename.ustring ~ "/etc/*"'),
    ],
)  # fmt: skip
def test_a_query_of_one_event_is_a_histogram(query, hist, record):
    plan = plan_query(query, record.world("7.3"))
    assert (plan.event, plan.synthetic, len(plan.settings)) == (None, None, 1)
    assert str(plan.settings[0].hist) == hist


def test_watching(record):
    query = f"SELECT TIMESTAMP_DELTA_USECS AS lat {WAKEUP}"
    world = record.world("7.3")
    plan = plan_query(query, world, name="w", watch=Watch("onmax", "lat"))
    assert str(plan.settings[1].hist).endswith(":onmax($w_lat).w($w_lat)")
    watch = Watch("onchange", "lat", save=("next_comm",), snapshot=True)
    plan = plan_query(query, world, name="w", watch=watch)
    assert plan.synthetic is None
    assert plan.event is None
    assert str(plan.settings[1].hist).endswith(
        ":onchange($w_lat).save(next_comm):onchange($w_lat).snapshot()"
    )


@pytest.mark.parametrize(
    ("query", "column", "message"),
    [
        ("SELECT pid FROM", 16, "an event expected, not the end"),
        ("SELECT FROM kmalloc", 8, "what to select expected, not 'FROM'"),
        ("SELECT ptr kmalloc", 12, "FROM expected, not 'kmalloc'"),
        ("SELECT ptr FROM kmalloc WHERE ptr", 34, "an operator expected, not the end"),
        ("SELECT ptr FROM kmalloc WHERE ptr = x", 37, "a number or a string expected, not 'x'"),
        ("SELECT ptr FROM kmalloc WHERE x = 'a", 35, "a quote is not closed"),
        ("SELECT ptr FROM kmalloc WHERE ptr = 99999999999999999999", 37, "more than 64 bits"),
        ("SELECT ptr ? FROM kmalloc", 12, "what is this?"),
        ("SELECT ptr FROM kmalloc nonsense more", 34, "the end expected, not 'more'"),
        ("SELECT ptr FROM kmaloc", 17, "no event: kmaloc"),
        ("SELECT id FROM a.b.c", 16, "an event is EVENT or SYSTEM.EVENT"),
        ("SELECT nosuch FROM kmalloc", 8, "kmem/kmalloc has no field nosuch"),
        ("SELECT x.ptr FROM kmalloc AS k", 8, "no event of the query is x"),
        ("SELECT ptr FROM kmalloc WHERE nosuch = 1", 31, "kmem/kmalloc has no field nosuch"),
        ("SELECT USTRING(ptr) FROM kmalloc", 8, "a string is read where two events are joined"),
        ("SELECT ptr + 1 AS p FROM kmalloc", 8, "a histogram counts fields"),
        ("SELECT SUM(ptr) FROM kmalloc", 1, "a histogram has 1 to 3 keys and up to 2 sums"),
        ("SELECT args FROM raw_syscalls.sys_enter", 18, "the kernel refuses it: Cannot allocate"),
        ("SELECT CAST(ptr AS nosuch) FROM kmalloc", 33, "the kernel refuses it: Invalid field"),
        (f"SELECT pid {WAKEUP}", 8, "of which event is pid?"),
        (f"SELECT start.pid, end.next_pid AS pid {WAKEUP}", 19, "pid is selected twice"),
        (f"SELECT start.pid + 1 {WAKEUP}", 8, "what is computed needs a name"),
        (f"SELECT (end.prev_pid - start.pid) * 2 AS x {WAKEUP}", 9, "computes without brackets"),
        (f"SELECT start.comm + 1 AS x {WAKEUP}", 8, "strings cannot be computed with"),
        (f"SELECT CAST(start.pid AS hex) AS x {WAKEUP}", 8, "hex is how a histogram shows a key"),
        (f"SELECT CAST(start.pid AS comm) AS x {WAKEUP}", 8, "process is that of common_pid"),
        (f"SELECT USTRING(start.comm) AS x {WAKEUP}", 8, "a string is read where a pointer leads"),
        (f"SELECT start.pid {WAKEUP}, start.prio = start.pid", 99, "a field of each event"),
        (f"SELECT start.pid {WAKEUP} AND start.comm = end.next_pid", 102, "never match"),
        (f"SELECT start.pid {WAKEUP} WHERE start.pid = 1 OR end.next_pid = 2", 104,
         "the two events are filtered apart from each other"),
        ("SELECT a.pid FROM sched_waking JOIN sched_waking ON a.pid = b.pid", 37,
         "both events go by the same name"),
        (f"SELECT end.TIMESTAMP_USECS - start.TIMESTAMP AS x {WAKEUP}", 83,
         "the kernel refuses it: Timestamp units in expression don't match"),
    ],
)  # fmt: skip
def test_errors(query, column, message, record):
    with pytest.raises(DynEventError) as caught:
        plan_query(query, record.world("7.3"))
    (diagnostic,) = caught.value.diagnostics
    assert message in diagnostic.message
    assert diagnostic.span.column == column


def test_errors_help(record):
    world = record.world("7.3")

    def hints(query, **options):
        with pytest.raises(DynEventError) as caught:
            plan_query(query, world, **options)
        return caught.value.diagnostics[0].hints[0]

    assert hints("SELECT id FROM kmaloc") == "did you mean kmalloc?"
    assert hints(f"SELECT pid {WAKEUP}") == "write start.pid or end.pid"
    assert (
        hints(f"SELECT start.pid {WAKEUP}", name="1x") == "the plan has: s:synthetic/1x pid_t pid"
    )
    taken = judge("s:q u64 x", world).after
    with pytest.raises(DynEventError) as caught:
        plan_query(f"SELECT start.pid {WAKEUP}", taken, name="q")
    assert caught.value.errno == errno.EEXIST


PIECES = (
    "SELECT", "pid", ",", "FROM", "sched_waking", "AS", "x", "JOIN", "sched_switch", "ON", "=", ".",
    "next_pid", "WHERE", "(", ")", "1", "'a'", "+", "*", "AND", "OR", "NOT", "CAST(", "USTRING(",
    "TIMESTAMP_DELTA", "-", ";", "hex",
)  # fmt: skip


@settings(deadline=None)
@given(
    st.one_of(st.text(max_size=30), st.lists(st.sampled_from(PIECES), max_size=20).map(" ".join))
)
def test_no_text_raises_anything_else(record, text):
    for query in (
        text,
        f"SELECT x.pid {text} FROM sched_waking x",
        f"SELECT x.pid {WAKEUP} {text}",
    ):
        try:
            plan_query(query, record.world("7.3"))
        except DynEventError:
            continue


def test_brackets_have_an_end():
    with pytest.raises(DynEventError, match="too many brackets"):
        parse_query("SELECT " + "(" * 1000)
    with pytest.raises(DynEventError, match="too many brackets"):
        parse_query("SELECT a FROM b WHERE " + "NOT " * 1000)
