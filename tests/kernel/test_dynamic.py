"""Dynamic events that no program runs at, and what is said instead."""

import pytest

from pybpf.kernel.dynamic import why_not

LISTING = """\
p:kp/read vfs_read file=%di
r10:kp/done vfs_read ret=$retval
p:up/main /bin/true:0x0000000000001000
s:synthetic/lat\tu64 lat; char[16] comm
e:ep/switch sched.sched_switch prev=$prev_pid:u32 \\"hi"
f:fp/open do_sys_openat2
f:fp/opened do_sys_openat2%return
t:tp/switch sched_switch
"""


@pytest.mark.parametrize(
    ("name", "what", "instead"),
    [
        ("kp/read", "a kprobe event", ["write kprobe:vfs_read"]),
        ("kp/done", "a kretprobe event", ["write kretprobe:vfs_read"]),
        ("up/main", "an uprobe event", []),
        ("synthetic/lat", "a synthetic event", []),
        (
            "ep/switch",
            "an event probe",
            ['write eprobe:"sched.sched_switch prev=$prev_pid:u32 \\\\\\"hi\\""'],
        ),
        ("fp/open", "an fprobe event", ["write kprobe:do_sys_openat2"]),
        ("fp/opened", "an fprobe event", ["write kretprobe:do_sys_openat2"]),
        ("tp/switch", "an event on a raw tracepoint", []),
    ],
)
def test_dynamic_events(name, what, instead):
    registers = name.startswith(("kp/", "up/"))
    why = "of which programs get the registers, not the fields"
    assert why_not(name, LISTING) == (
        f"it is {what}, {why if registers else 'at which the kernel runs no programs'}",
        *instead,
        f"`pybpf events trace {name}` records it",
    )


@pytest.mark.parametrize("name", ["sched/sched_switch", "kp/rea", "read"])
def test_other_events(name):
    assert why_not(name, LISTING) == ()
    assert why_not(name, "") == ()
