"""The judge of dynamic events answers as the kernels that were recorded."""

import errno

import pytest

from pybpf.tracefs.dynevents.judge import judge
from pybpf.tracefs.dynevents.profiles import profile
from pybpf.tracefs.dynevents.rules import KNOWN, rules_for
from pybpf.tracefs.dynevents.symbols import repeated_names
from pybpf.tracefs.dynevents.world import World

KERNELS = ("6.1", "6.12", "7.3")

# What cannot be told: the kernel lists an address as a hash of it, with a key of each boot.
HASHED = {"p:k/a 0x1000"}


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_recorded_write_is_answered_alike(kernel, record):
    """Accepted or not, errno, where it fails, log, listing, what is gone, and format files."""
    world, wrong = record.world(kernel), []
    for row in record.rows(kernel):
        verdict = record.answer(row, world)
        log = [(e.subsystem, e.message, e.command, e.column) for e in verdict.errors]
        wanted = [(e["sys"], e["msg"], e["cmd"], e["col"]) for e in row["errors"]]
        number = errno.errorcode[verdict.errno] if verdict.errno else None
        if (verdict.accepted, number, verdict.at) != (row["accepted"], row["errno"], row["at"]):
            wrong.append((row["id"], row["definition"], number, row["errno"]))
        elif log != wanted:
            wrong.append((row["id"], row["definition"], log, wanted))
        elif verdict.written != row["written"]:
            wrong.append((row["id"], row["definition"], verdict.written, row["written"]))
        elif [event.listed for event in verdict.removed] != row["removed"]:
            wrong.append((row["id"], row["definition"], verdict.removed))
        elif list(verdict.listing) != row["listing"] and row["definition"] not in HASHED:
            wrong.append((row["id"], row["definition"], verdict.listing, row["listing"]))
        elif row["accepted"]:
            formats = {name: record.without_id(text) for name, text in verdict.formats.items()}
            told = {
                name: None if text.startswith("ERR:") else record.without_id(text)
                for name, text in row["format"].items()
            }
            if formats != told:
                wrong.append((row["id"], row["definition"], formats, told))
    assert wrong == []


ALONE = "e:t/x sched.sched_switch"
WIDE = f"{ALONE} a=$prev_pid:b18446744073709551617@0/8"


@pytest.mark.parametrize(
    ("kernel", "setup", "text", "number", "message", "column"),
    [
        # Found by comparing with the kernels, 1,500 definitions each.
        ("7.3", [], WIDE, "EINVAL", "Invalid bitfield", 37),
        ("6.12", [], WIDE, None, None, None),
        ("7.3", [], f"{ALONE} a=comm", "EINVAL", "This event field is not found.", 27),
        ("7.3", [], "r5:x* ", "EINVAL", "No matching dynamic event type", 0),
        ("7.3", [], "f:t/x vfs_read+4 c=+0(\\1):int", "EINVAL", "Unknown type is specified", 26),
        ("7.3", [], "p:t/x vfs_read+1", "EILSEQ", "Probe point is not an instruction boundary", 6),
        ("7.3", [], "p:t/x mod:fn a=$arg1", "EINVAL",
         "$arg* can be used only on function entry or exit", 15),
        ("7.3", [], "p:x /bin/true:0x10 e=(file)(%di)->f_flags", "ENOTSUP",
         "BTF is not available or not supported", 21),
        ("6.1", [], "r:t/x nosuch a=$arg", "ENOENT", "Invalid probed address or symbol", 6),
        ("6.12", [], "r:t/x schedule $arg*", "ENOTSUP",
         "BTF is not available or not supported", 15),
        ("7.3", [], "f:t/x vfs_read $arg0", "EINVAL", "Invalid argument number", 15),
        ("7.3", [], "r:t/x schedule a", "ENOENT", "No BTF entry for this probe point", 15),
        ("7.3", [], "r:t/x schedule a $arg9", "ENOENT",
         "This variable is not found at this probe point", 15),
        ("7.3", ["p:t/x vfs_read"], "r:t/x vfs_read", "EEXIST",
         "Probe type is different from existing probe", 0),
        ("7.3", ["p:t/x vfs_read"], "p:t/x vfs_read", "EEXIST",
         "There is already the exact same probe event", 0),
        ("7.3", ["p:t/x vfs_read"], "p:t/x vfs_write", None, None, None),
        ("7.3", ["s:sy u64 a", "e:t/x synthetic.sy"], "-:sy", "EBUSY", None, None),
        ("7.3", ["e:t/x sched.sched_switch", "e:u/x sched.sched_switch"], "-:t/", None, None, None),
        ("6.12", [], "e:t/x sched.sched_switch\0", "EINVAL", None, None),
        # Several functions, or a function and something else, are called so.
        ("6.1", [], "p:t/x c_next a=nosuch", "EADDRNOTAVAIL", "The symbol is not unique", 6),
        ("6.1", [], "r:t/x c_next+8", "EINVAL",
         "Retprobe address must be an function entry", 6),
        ("6.12", [], "p:1/x c_next", "EINVAL", "The symbol is not unique", 6),
        ("7.3", [], "r:t/x c_next+8", "EINVAL", "The symbol is not unique", 6),
        ("7.3", [], "p:t/x pt_regs_offset", "EINVAL", "The symbol is not unique", 6),
        ("7.3", [], "p:t/x snapshot_fops", "EINVAL", "The symbol is not unique", 6),
        # Code that ftrace cannot trace, and data.
        ("6.1", [], "p:t/x perf_trace_sched_switch", "EINVAL", "Failed to register probe event", 6),
        ("6.12", [], "p:t/x __pfx_vfs_read a=$nope", "EINVAL", "Invalid $-variable specified", 23),
        ("6.12", [], "p:t/x __pfx_vfs_read", "EINVAL", "Failed to register probe event", 6),
        ("7.3", [], "r:t/x jiffies", "EINVAL", "Failed to register probe event", 6),
        ("7.3", [], "r:t/x jiffies+4", "EINVAL", "Retprobe address must be an function entry", 6),
        ("7.3", [], "p:t/x c_next%foo", "EINVAL", "Invalid probed address suffix", 12),
        ("7.3", [], "f:t/x c_next", None, None, None),
        ("7.3", [], "p:t/x overlay:c_next", None, None, None),
        ("7.3", [], "e:t/x sched.sched_switch a=@c_next:u32", None, None, None),
    ],
)  # fmt: skip
def test_answers(kernel, setup, text, number, message, column, record):
    verdict = judge(text, record.prepared(record.world(kernel), setup))
    found = errno.errorcode[verdict.errno] if verdict.errno else None
    assert (found, verdict.message, verdict.column) == (number, message, column)


@pytest.mark.parametrize(("kernel", "counts"), [("6.1", True), ("6.12", True), ("7.3", False)])
def test_symbols_of_modules_count_where_the_kernel_has_none_or_always(kernel, counts):
    names = ["a", "a", "b", "b [m]", "c [m]", "c [n]", "d", "e [m]"]
    assert repeated_names(names, rules_for(kernel)) == {"a", "c"} | ({"b"} if counts else set())


def test_percent_pd_is_logged_as_it_is_expanded(record):
    verdict = judge("f:t/x vfs_read a=nosuch f=$arg1:%pd", record.world("7.3"))
    assert verdict.errors[0].command == "f:t/x vfs_read a=nosuch f=+0x0(+0x28($arg1)):string"


def test_lines_before_a_refused_one_take_effect(record):
    verdict = judge(f"{ALONE}\ne:t/y no.such\n", record.world("7.3"))
    assert verdict.written is None
    assert verdict.listing == (ALONE,)
    assert [event.name for event in verdict.after.existing] == ["t/x"]
    assert verdict.line == len(ALONE) + 1


def test_a_return_probe_follows_as_many_returns_as_there_are_cpus(record):
    from pybpf.dataclass import replace

    world = replace(record.world("7.3"), cpus=16)
    assert judge("r:t/x vfs_read", world).listing == ("r32:t/x vfs_read",)


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_is_not_known_is_assumed_and_said(kernel):
    text = "e:t/x any.event a=$field:u32 b=@symbol"
    verdict = judge(text, World(rules_for(kernel)))
    assert verdict.accepted
    assert verdict.listing == (text,)
    assert verdict.assumptions == (
        "no formats are known: any/event is taken to exist",
        "the symbols of the kernel are not known: symbol is taken to exist",
        "the fields of the event are not known: every field is taken to exist",
    )


def test_a_type_that_only_btf_tells_is_not_guessed():
    verdict = judge("p:t/x vfs_read a=file->f_flags", World(rules_for("7.3")))
    assert verdict.accepted
    assert verdict.formats == {"t/x": None}
    verdict = judge("p:t/x vfs_read $arg*", World(rules_for("7.3")))
    assert verdict.formats == {"t/x": None}


def test_members_that_a_profile_leaves_out_are_assumed(record):
    world = record.world("7.3")
    verdict = judge("e:t/x sched.sched_switch a=(nf_conn)prev_pid->status", world)
    assert verdict.accepted
    assert verdict.formats == {"t/x": None}
    assert verdict.assumptions == (
        "the members of struct nf_conn are not known: all are taken to exist",
        "the types of the kernel (BTF) are not known: every member is taken to exist",
    )
    assert judge("e:t/x sched.sched_switch a=(nosuch)prev_pid->x", world).errno == errno.EINVAL


@pytest.mark.parametrize(
    ("release", "rules"),
    [("6.1", "6.1"), ("6.12.117+deb13-amd64", "6.12"), ("5.15", "6.1"), ("6.17", "6.12"),
     ("7.3.4", "7.3"), ("9.0", "7.3")],
)  # fmt: skip
def test_a_kernel_between_two_known_ones_has_the_rules_of_the_older(release, rules):
    assert rules_for(release) is KNOWN[rules]


def test_a_profile_knows_symbols():
    world = profile("6.12")
    assert "vfs_read" in world.functions
    assert "jiffies" in world.symbols
    assert "jiffies" not in world.functions
    assert "nosuch" not in world.symbols
    assert profile("6.17").functions is None
