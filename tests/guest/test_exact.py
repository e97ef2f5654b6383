"""No event is lost or counted twice, on two CPUs at once."""

import os

import pytest

CALLS = 10_000
SIZE = 4321


def hammer():
    """Let a process on each CPU read so often, by a size that nobody else reads by."""
    children = []
    for cpu in sorted(os.sched_getaffinity(0)):
        pid = os.fork()
        if pid == 0:
            os.sched_setaffinity(0, {cpu})
            file = os.open("/dev/null", os.O_RDONLY)
            for _ in range(CALLS):
                os.read(file, SIZE)
            os._exit(0)
        children.append(pid)
    for pid in children:
        assert os.waitpid(pid, 0)[1] == 0
    return len(children) * CALLS


@pytest.mark.parametrize("place", ["vfs_read", "vfs_rea[d]"])
def test_aggregations_are_exact(run, place):
    calls = len(os.sched_getaffinity(0)) * CALLS
    done = run(
        f"kprobe:{place} / arg2 == {SIZE} / {{ @c[1] = count(); @p[cpu] = count();"
        " @s[1] = sum(arg2); @q[1] = quantize(arg2); }",
        hammer,
    )
    assert done.maps["@c"] == {1: calls}
    assert done.maps["@p"] == dict.fromkeys(range(os.cpu_count()), CALLS)
    assert done.maps["@s"] == {1: calls * SIZE}
    assert done.maps["@q"] == {1: [[4096, 8191, calls]]}


def test_lost_records_are_counted(run):
    """Nobody reads what is printed before all is over, and there is room for little of it."""
    from pybpf.compiler.pipeline import Options

    def act():
        file = os.open("/dev/null", os.O_RDONLY)
        for _ in range(500):
            os.read(file, SIZE)
        os.close(file)

    done = run(
        f'kprobe:vfs_read / pid == $self && arg2 == {SIZE} / {{ printf("%d\\n", arg2); }}',
        act,
        options=Options(buffer_size=4096),
    )
    printed = done.printed.count(f"{SIZE}\n")
    assert 100 < printed < 500
    assert printed + done.lost == 500
