"""Kernel stacks, as keys and printed, from several kinds of probe, with the kernel's own names."""

import os
import re
import time

import pytest

SYSTEM_CALL = ["do_syscall_64", "entry_SYSCALL_64_after_hwframe"]
"""ftrace can trace neither, so that a tracer that knows only what it can trace misses both."""


def names(stack):
    return [frame.partition("+")[0] for frame in stack]


@pytest.mark.parametrize("place", ["do_futex", "do_fute[x]"])
def test_a_stack_begins_with_the_function(run, futex, place):
    done = run(
        f"kprobe:{place} / pid == $self && arg6 == 0x77 / {{"
        ' @[stack] = count(); print(stack); printf("%v", stack); }',
        lambda: futex(3),
    )
    ((stack, count),) = done.maps["@"].items()
    assert count == 3
    assert names(stack)[:2] == ["do_futex", "__x64_sys_futex"]
    assert names(stack)[-2:] == SYSTEM_CALL
    text = "\n" + "".join(f"\t{frame}\n" for frame in stack)
    assert done.printed == 3 * (text + "\n" + text)


@pytest.mark.parametrize("place", ["do_futex", "do_fute[x]"])
def test_a_stack_at_the_return_begins_with_the_caller(run, futex, place):
    done = run(f"kretprobe:{place} / pid == $self / {{ @[stack, retval] = count(); }}", futex)
    stacks = [names(stack) for stack, retval in done.maps["@"] if retval == 0]
    assert [*stacks[0][:1], *stacks[0][-2:]] == ["__x64_sys_futex", *SYSTEM_CALL]


def test_stacks_of_a_profile(run):
    def act():
        file = os.open("/dev/zero", os.O_RDONLY)
        until = time.monotonic() + 1
        while time.monotonic() < until:
            os.read(file, 1 << 20)
        os.close(file)

    done = run("profile:99hz / pid == $self / { @[stack] = count(); }", act)
    stacks = [names(stack) for stack in done.maps["@"]]
    assert sum(done.maps["@"].values()) > 10
    assert any(stack[-2:] == SYSTEM_CALL and "vfs_read" in stack for stack in stacks)


def test_a_stack_is_a_value_too(run, futex):
    done = run(
        "kprobe:do_futex / pid == $self && arg6 == 0x77 / { where[kpid] = stack; }"
        "kretprobe:do_futex / where[kpid] / { @[where[kpid]] = count(); delete where[kpid]; }",
        futex,
    )
    (stack,) = done.maps["@"]
    assert re.fullmatch(r"do_futex\+\d+", stack[0])
