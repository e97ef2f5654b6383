"""Records of this process, read while they are made. getppid is a call that nothing else makes."""

import asyncio
import os
import threading
import time

import pytest

from pybpf.errors import KernelError
from pybpf.events.ftrace.reader import Lost
from pybpf.kernel.ftrace.cleanup import cleanup, found
from pybpf.kernel.ftrace.trace import trace

CALL = "syscalls/sys_enter_getppid"


def calls(libc, count):
    for _ in range(count):
        libc.syscall(110)


def test_every_hit_once_and_in_order(tree, libc):
    with trace(CALL, pids=[os.getpid()], tree=tree) as t:
        calls(libc, 1000)
        items = list(t.stream.items(0.2))
        assert len(items) == 1000
        assert {item.event for item in items} == {CALL}
        assert {item.common_pid for item in items} == {threading.get_native_id()}
        times = [item.timestamp for item in items]
        assert times == sorted(times)
        assert abs(time.monotonic_ns() - times[-1]) < 60e9
        assert t.stream.lost == 0


def test_losses_are_counted_exactly(tree, libc):
    with trace(CALL, pids=[os.getpid()], buffer_kb=8, tree=tree) as t:
        calls(libc, 5000)
        items = list(t.stream.items(0.1))
        lost = [item for item in items if isinstance(item, Lost)]
        assert lost
        assert t.stream.lost > 0
        assert len(items) - len(lost) + t.stream.lost == 5000


def test_several_threads_are_merged_by_time(tree, libc):
    threads = [threading.Thread(target=calls, args=(libc, 500)) for _ in range(4)]
    with trace(CALL, pids=[os.getpid()], tree=tree) as t:
        t.instance.write("set_event_pid", "", truncate=True)
        for thread in threads:
            thread.start()
        items = []
        while any(thread.is_alive() for thread in threads):
            items += t.stream.items(0.05)
        items += t.stream.items(0.1)
    ours = [item for item in items if item.common_pid in {x.native_id for x in threads}]
    assert len(ours) == 2000
    assert [i.timestamp for i in items] == sorted(i.timestamp for i in items)


def test_two_at_once_see_every_hit_each(tree, libc, place):
    text = f"p:probes/call {place('getppid')}"
    with trace(text, pids=[os.getpid()], tree=tree) as one:
        with trace(text, pids=[os.getpid()], tree=tree) as other:
            for _ in range(100):
                libc.getppid()
            first, second = (list(t.stream.items(0.1)) for t in (one, other))
        libc.getppid()
        third = list(one.stream.items(0.1))
    assert (len(first), len(second), len(third)) == (100, 100, 1)
    assert {item.event for item in (*first, *second)} == {"probes/call"}


def test_a_definition_a_filter_and_its_text(tree, libc, place):
    lines = [f"p:probes/call {place('abs')} n=%di:s32", "probes/call if n == 7"]
    with trace(lines, pids=[os.getpid()], tree=tree) as t:
        for number in (6, 7, 8):
            libc.abs(number)
        (raw,) = t.stream.raw(0.1)
        assert t.stream.decode(raw).n == 7
        assert t.stream.formats.text(raw).endswith(" n=7")


def test_an_event_that_cannot_be_enabled(tree):
    with pytest.raises(KernelError) as caught, trace("p:t/x /bin/cat:0x99999999", tree=tree):
        pass
    assert str(caught.value) == (
        "cannot enable t/x: Invalid argument (errno 22)\n"
        "  hint: the kernel's log may say why: dmesg"
    )


def test_asyncio(tree, libc):
    async def read(stream):
        found = []
        async for item in stream:
            found.append(item)
            if len(found) == 3:
                break
        return found

    async def both():
        with trace(CALL, pids=[os.getpid()], tree=tree) as t:
            reading = asyncio.create_task(read(t.stream))
            for _ in range(3):
                await asyncio.sleep(0.03)
                calls(libc, 1)
            return await asyncio.wait_for(reading, 10)

    assert [item.event for item in asyncio.run(both())] == [CALL] * 3


def test_an_instance_that_is_read_cannot_vanish(tree):
    with trace(CALL, pids=[os.getpid()], tree=tree) as t:
        path = t.instance.folder.rstrip("/")
        with pytest.raises(KernelError, match="Device or resource busy"):
            tree.rmdir(path)


@pytest.mark.usefixtures("cleaning")
def test_what_a_killed_process_left_is_removed_and_nothing_else(tree, libc, place):
    text = f"p:probes/call {place('getppid')}"
    there, here = os.pipe()
    with trace(text, pids=[os.getpid()], tree=tree) as mine:
        child = os.fork()
        if child == 0:
            with trace([text, "sched/sched_switch"], tree=tree):
                os.write(here, b".")
                time.sleep(60)
                os._exit(1)
        os.read(there, 1)
        os.kill(child, 9)
        os.waitpid(child, 0)
        theirs = [one for one in found(tree) if one.owner and one.owner.pid == child]
        assert [(one.alive, bool(one.line)) for one in theirs] == [(False, True), (False, False)]
        gone, failures = cleanup(tree)
        assert {one.name for one in theirs} <= {name.removeprefix("instances/") for name in gone}
        assert failures == []
        assert not any(one.owner and one.owner.pid == child for one in found(tree))
        libc.getppid()
        assert len(list(mine.stream.items(0.1))) == 1
    os.close(there)
    os.close(here)
