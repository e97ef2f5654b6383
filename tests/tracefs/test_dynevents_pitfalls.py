"""Warnings of what a kernel accepts but does not do, each with the form that works."""

import pytest

from pybpf.tracefs.dynevents.judge import judge
from pybpf.tracefs.dynevents.pitfalls import warnings

SWITCH = "e:t/x sched.sched_switch"
NO_FOLDER = "this kernel makes no folder of that name, so it cannot be enabled"
ARGS = "the events syscalls/sys_enter_* have each argument as a field"
STALE = "where its memory cannot be read, such a value is what was in the buffer before"


@pytest.mark.parametrize(
    ("kernel", "setup", "text", "expected"),
    [
        ("7.3", [], f"{SWITCH} a=$prev_pid b=$prev_comm:string", []),
        ("7.3", [], "e:t/x raw_syscalls.sys_enter f=+8($args):ustring",
         [("this reads a text at the address of args[1] itself: (fault)",
           "+0(+8($args)):ustring", "+8($args):ustring")]),
        ("7.3", [], "e:t/x raw_syscalls.sys_enter f=+0(+8($args)):ustring", []),
        ("6.12", [], "e:t/x raw_syscalls.sys_enter f=+8($args):ustring",
         [("on this kernel $args is its first 8 bytes, not an address: nothing can be read",
           ARGS, "+8($args):ustring")]),
        ("6.12", [], "e:t/x raw_syscalls.sys_enter f=$args",
         [("on this kernel an array field stands for its first 8 bytes, not its address",
           ARGS, "$args")]),
        ("7.3", [], f"{SWITCH} c=$prev_comm:x32",
         [("this is the address of the text, cut short", "$prev_comm:string", "$prev_comm:x32")]),
        ("7.3", [], "e:t/x sched.sched_wakeup c=$comm",
         [("without a type this is the address of the text", "$comm:string", "$comm")]),
        ("7.3", [], "e:t/x sched.sched_wakeup c=$comm:string",
         [("this is the field comm of the event, not the name of the process", None,
           "$comm:string")]),
        ("7.3", [], f"{SWITCH} c=$prev_state:symstr",
         [("what is no address of a symbol has no end, and runs into the text after it",
           "$prev_state:symbol", "$prev_state:symstr")]),
        ("7.3", [], "s:sy u64 a; u32 b; u64 a",
         [("two fields are called a", "give each a name of its own", "a")]),
        ("7.3", [], f"{SWITCH} c=$comm",
         [("without a type this is the address of the text", "$comm:string", "$comm")]),
        ("7.3", [], f"{SWITCH} c=$comm:ustring",
         [("the name is no memory of user space: always (fault)", "$comm:string",
           "$comm:ustring")]),
        ("7.3", [], f"{SWITCH} c=$prev_comm",
         [("without a type this is the address of the text", "$prev_comm:string",
           "$prev_comm")]),
        ("7.3", [], f'{SWITCH} c=\\"x"',
         [("without a type this is the address of the text", '\\"x":string', '\\"x"')]),
        ("7.3", [], f"{SWITCH} c=$prev_pid:string",
         [("prev_pid is a number: text is read from that address, always (fault)",
           "$prev_pid", "$prev_pid:string")]),
        ("7.3", [], f"{SWITCH} c=+8($prev_state)",
         [(STALE, "only strings show a fault: (fault)", "+8($prev_state)")]),
        ("6.1", [], SWITCH + "".join(f" a{n}=\\1" for n in range(129)),
         [("this kernel silently drops all arguments after 128", "make a second event",
           "a128=\\1")]),
        ("6.1", [], "e:t/enable sched.sched_switch",
         [(f"tracefs has files called enable: {NO_FOLDER}", "take another name", "enable")]),
        ("7.3", [], "e:filter/x sched.sched_switch",
         [("tracefs has files called filter", "take another name", "filter")]),
        ("7.3", [], f"{SWITCH} if prev_pid == 0",
         [("the filter is in no listing: the event cannot be made again from it",
           "keep the definition", "prev_pid")]),
        ("7.3", [], f"{SWITCH} a=+8($prev_comm)x:string",
         [("what follows the last ) is ignored", "+8($prev_comm)", "+8($prev_comm)x")]),
        ("7.3", [], "f:t/x vfs_read r=$retval",
         [("$retval turns the probe into one of returns", "write SYMBOL%return", "$retval")]),
        ("7.3", [], "t:t/x nosuch",
         [("no tracepoint is called nosuch: the event waits for one",
           "t takes the tracepoint's own name, such as sched_switch", "nosuch")]),
        ("7.3", [], "r5:g/x /bin/true:0x10",
         [("the name is overlooked after a number: the event is uprobes/p_true_0x10",
           "write r:GROUP/EVENT", "g/x")]),
        ("7.3", ["e:t/x sched.sched_switch", "e:u/x sched.sched_switch"], "-:x",
         [("without a group this removes t/x, u/x", "write -:GROUP/EVENT", "")]),
        ("7.3", ["e:synthetic/sy sched.sched_switch"], "s:sy u64 a",
         [("synthetic/sy is there already, and hides the new event", "take another name", "")]),
    ],
)  # fmt: skip
def test_warnings(record, kernel, setup, text, expected):
    world = record.prepared(record.world(kernel), setup)
    found = warnings(text, judge(text, world), world)
    shown = [(d.message, d.hints[0] if d.hints else None, d.span.text) for d in found]
    assert shown == expected


def test_a_warning_has_a_caret(record):
    world = record.world("7.3")
    text = f"{SWITCH} c=$comm"
    (found,) = warnings(text, judge(text, world), world)
    assert found.render() == (
        "<definition>:1:28: warning: without a type this is the address of the text\n"
        "    e:t/x sched.sched_switch c=$comm\n"
        "                               ^^^^^\n"
        "  hint: $comm:string"
    )
