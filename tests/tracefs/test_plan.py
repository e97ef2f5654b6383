"""Lines of what is to be traced: what each asks for, what is recorded, other names for it all."""

import subprocess

import pytest

from pybpf.errors import DynEventError
from pybpf.tracefs.dynevents.parse import parse
from pybpf.tracefs.plan import (
    NAME_MAX,
    Define,
    Record,
    SetTrigger,
    owned_name,
    parse_step,
    recorded,
    rename,
    rename_trigger,
    shell_command,
)
from pybpf.tracefs.triggers.parse import parse_trigger


@pytest.mark.parametrize(
    "text", ["e:a/b c.d x=\\10:u8", "s:n u64 x", "a == 'b' && c ~ \"*\"", "-:a/b"]
)
def test_a_command_writes_the_text(text, tmp_path):
    (tmp_path / "file").write_text("before\n")
    command = shell_command(text, "file", str(tmp_path))
    subprocess.run(["sh", "-c", command], check=True)
    assert (tmp_path / "file").read_text() == f"before\n{text}\n"


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("e:a/b sched.sched_switch x=$y ", Define("e:a/b sched.sched_switch x=$y")),
        ("e sched.sched_switch", Define("e sched.sched_switch")),
        ("p vfs_read", Define("p vfs_read")),
        ("s:n u64 x", Define("s:n u64 x")),
        ("sched/sched_switch", Record("sched/sched_switch")),
        (" sched.sched_switch ", Record("sched/sched_switch")),
        ("sched/sched_switch if  a == 1 && b", Record("sched/sched_switch", "a == 1 && b")),
        ("9p/9p_client_req", Record("9p/9p_client_req")),
        ("a-b/c hist:keys=x if y", SetTrigger("a-b/c", "hist:keys=x if y")),
        ("a/b stacktrace:3", SetTrigger("a/b", "stacktrace:3")),
        ("a/b enable_event:c:d", SetTrigger("a/b", "enable_event:c:d")),
    ],
)
def test_a_line(text, step):
    assert parse_step(text) == step


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a/b c == 1",
            (
                "<event>:1:5: error: neither a filter nor a trigger\n"
                "    a/b c == 1\n"
                "        ^\n"
                "  hint: write a/b if FILTER, or a/b hist:keys=FIELD"
            ),
        ),
        (
            "-:a/b",
            (
                "<event>:1:1: error: this removes events\n"
                "    -:a/b\n"
                "    ^\n"
                "  hint: pybpf events rm removes them"
            ),
        ),
    ],
)
def test_a_line_that_asks_for_nothing(text, message):
    with pytest.raises(DynEventError) as caught:
        parse_step(text)
    assert str(caught.value) == message


def test_what_nothing_else_uses_is_recorded():
    steps = [
        SetTrigger("t/start", "hist:keys=x"),
        Record("sched/sched_switch", "prev_pid == 1"),
        Record("t/start"),
    ]
    made = ["t/start", "synthetic/s", "t/end", "t/other"]
    assert recorded(made, ["a/b", None, "synthetic/s", "a/b"], steps) == {
        "t/end": None,
        "t/other": None,
        "sched/sched_switch": "prev_pid == 1",
        "t/start": None,
    }


OWNER = "pybpf_4194304_ffffffff_f0000000_1"


def test_names_carry_their_owner():
    name = owned_name("sched", "switch", synthetic=False, owner=OWNER)
    assert name == f"{OWNER}_sched/switch"
    assert owned_name("synthetic", "lat", synthetic=True, owner=OWNER) == f"synthetic/{OWNER}_lat"


@pytest.mark.parametrize("synthetic", [False, True])
def test_long_names_are_cut_and_stay_different(synthetic):
    names = [
        owned_name("g" * 62 + end, "e" * 62 + end, synthetic=synthetic, owner=OWNER) for end in "ab"
    ]
    for name in names:
        assert name.startswith(f"synthetic/{OWNER}_" if synthetic else f"{OWNER}_")
        assert all(len(part) <= NAME_MAX for part in name.split("/"))
        parse(f"s:{name} u64 x" if synthetic else f"e:{name} a.b")
    assert len(set(names)) == 2


NAMES = {"a/b": "own_a/b", "synthetic/syn": "synthetic/own_syn", "eprobes/x": "own/x"}


@pytest.mark.parametrize(
    ("text", "name", "renamed"),
    [
        ("e:a/b sched.sched_switch x=$y if z", "own_a/b",
         "e:own_a/b sched.sched_switch x=$y if z"),
        ("e x.y", "own/y", "e:own/y x.y"),
        ("e:x synthetic.syn f=+0($f):ustring", "own/x",
         "e:own/x synthetic.own_syn f=+0($f):ustring"),
        ("e:x a.b", "own/x", "e:own/x own_a.b"),
        ("p:a/b vfs_read x=%di", "own_a/b", "p:own_a/b vfs_read x=%di"),
        ("r:a/b /bin/cat:0x10", "own_a/b", "r:own_a/b /bin/cat:0x0000000000000010"),
        ("f:a/b vfs_read%return", "own_a/b", "f:own_a/b vfs_read%return"),
        ("t:a/b sched_switch", "own_a/b", "t:own_a/b sched_switch"),
        ("s:syn u64 x", "synthetic/own_syn", "s:synthetic/own_syn\tu64 x"),
    ],
)  # fmt: skip
def test_other_names_in_definitions(text, name, renamed):
    assert str(rename(parse(text), name, NAMES)) == renamed


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("hist:keys=x:f=y if z == 1", None),
        ("hist:keys=x:ll=$f:onmatch(eprobes.x).trace(syn,$ll) if z == 1",
         "hist:keys=x:ll=$f:onmatch(own.x).trace(own_syn,$ll) if z == 1"),
        ("hist:keys=x:ll=$f:onmatch(eprobes.x).syn($ll)",
         "hist:keys=x:ll=$f:onmatch(own.x).own_syn($ll)"),
        ("hist:keys=x:ll=$f:onmax($ll).trace(syn,$ll)",
         "hist:keys=x:ll=$f:onmax($ll).trace(own_syn,$ll)"),
        ("hist:keys=x:ll=$f:onmax($ll).save(yy)", None),
        ("hist:keys=x:ll=z-a.b.$f:onmatch(a.b).trace(syn,a.b.yy,$ll)",
         "hist:keys=x:ll=z-own_a.b.$f:onmatch(own_a.b).trace(own_syn,own_a.b.yy,$ll)"),
        ("enable_event:a:b:3", "enable_event:own_a:b:3"),
        ("enable_event:c:d", None),
        ("stacktrace:3 if x == 1", None),
    ],
)  # fmt: skip
def test_other_names_in_triggers(text, renamed):
    assert str(rename_trigger(parse_trigger(text), NAMES)) == (renamed or text)
