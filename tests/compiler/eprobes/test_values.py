"""What an eprobe's arguments are in a program: tables of single values."""

import pytest

from pybpf.compiler.eprobes import values
from pybpf.compiler.eprobes.definition import define
from pybpf.errors import DynEventError
from pybpf.target.features import ALL, PROBE_READ_KERNEL, RINGBUF
from pybpf.tracefs.dynevents.profiles import profile

USER, KERNEL = 0x7F0000001000, 0xFFFF888000001000
FAULT = object()


@pytest.fixture
def fields(one_event, hits, sample):
    """Return the value of one argument."""

    def run(arg, rest="", **facts):
        target = one_event("sub/evt", sample.parent, symbols={"data": KERNEL})
        made = hits([f"e:e sub.evt a={arg}{rest}"], target)
        found = made.fields(
            sample.record(), **{"memory": sample.memory, "comm": b"me", "tid": 3} | facts
        )
        values, faults = found
        return (FAULT, values["a"]) if "a" in faults else values["a"]

    return run


@pytest.mark.parametrize(
    ("arg", "value"),
    [
        # fields: extended by their sign, cut by the argument's type
        ("$s", 2**64 - 500), ("$s:s64", -500), ("$s:u32", 2**32 - 500), ("$s:u8", 12),
        ("$s:s16", -500), ("$u:s16", -500), ("$u:u32", 0xFE0C), ("s:x16", 0xFE0C),
        ("$four", 0x100007F), ("$four:u8", 127),
        # bit fields
        ("$u:b4@8/16", 0xE), ("$u:b1@3/8", 1), ("$s:b16@48/64", 0xFFFF), ("$u:b8@0/8", 0x0C),
        # strings in the record
        ("$name:string", "bash"), ("+1($name):string", "ash"), ("$where:string", "place"),
        ("+2($where):string", "ace"), ("+0($name):u32", int.from_bytes(b"bash", "little")),
        ("+0($where):u8", ord("p")), ("$name:ustring", (FAULT, "")),
        # arrays are their addresses, which no memory has to be asked for
        ("+0($list)", KERNEL), ("+8($list)", USER + 8), ("+12($list):u32", USER >> 32),
        ("+0($list):x64[2]", (KERNEL, USER + 8)), ("+0(+0($list)):x32", 0x55667788),
        ("+12($list):u64", USER >> 32 | int.from_bytes(b"plac", "little") << 32),
        # memory of the kernel and of user space
        ("$p:string", "/etc/hostname"), ("$p:ustring", "/etc/hostname"),
        ("+0($p):string", "/etc/hostname"), ("+5($p):ustring", "hostname"),
        ("+u5($p):string", "hostname"), ("+0($p):u8", ord("/")), ("+u1($p):char", ord("e")),
        ("+0($p):u8[3]", (47, 101, 116)), ("+8(+14($p)):string", "kernel's"),
        ("+0(+14($p)):x64", 0x1122334455667788), ("-5(+22($p)):u8", ord("/")),
        ("+14($p):string[2]", ("\x88wfUD3\"\x11kernel's".encode("latin-1")
                               .decode("utf-8", "surrogateescape"), "hostname")),
        ("@data:u16", 0x7788), ("@data+4:x32", 0x11223344), ("@0xffff888000001000:u8", 0x88),
        ("+8(@data+0):u8", (FAULT, 0)),
        # what cannot be read
        ("+0($s)", (FAULT, 0)), ("+0(+0($s)):u32", (FAULT, 0)), ("+0($s):string", (FAULT, "")),
        ("+0($s):u32[2]", (FAULT, (0, 0))), ("+0x7f0000001000(+0($s)):u8", (FAULT, 0)),
        ("+u0(@data):u8", (FAULT, 0)), ("+0($s):string[2]", (FAULT, ("", ""))),
        # constants and the name of the process
        ("\\10", 10), ("\\-1:s8", -1), ("\\0x100:u8", 0), ('\\"hi":string', "hi"),
        ("$comm:string", "me"),
        ("$comm:ustring", (FAULT, "")),
    ],
)  # fmt: skip
def test_values(arg, value, fields):
    assert fields(arg) == value


def test_addresses_are_the_programs_own(fields):
    assert fields("$name") == fields("$name", " b=$s") != 0
    assert fields("$where") - fields("$list") == 56 - 40
    assert fields("$comm") != 0
    assert fields("$name:u8") == fields("$name") & 0xFF


def test_symstr_is_resolved_when_it_is_read(one_event, hits, sample):
    names = {USER + 8: "one+0x8/0x10"}.get
    run = hits(["e:e sub.evt a=+8($list):symstr b=$s:symstr"], one_event("sub/evt", sample.parent),
               symbols=names)  # fmt: skip

    assert run.fields(sample.record())[0] == {"a": "one+0x8/0x10", "b": f"0x{2**64 - 500:x}"}


def test_a_string_is_cut_to_its_room(one_event, hits, sample):
    run = hits(["e:e sub.evt a=$p:string"], one_event("sub/evt", sample.parent), string_size=8)

    assert run.fields(sample.record(), memory=sample.memory)[0] == {"a": "/etc/ho"}


def test_many_arguments_each_know_whether_they_could_be_read(one_event, hits, sample):
    args = " ".join(f"a{n}=+0(${'p' if n % 3 else 's'}):u8" for n in range(100))
    run = hits([f"e:e sub.evt {args}"], one_event("sub/evt", sample.parent))

    values, faults = run.fields(sample.record(), memory=sample.memory)

    assert faults == {f"a{n}" for n in range(0, 100, 3)}
    assert values == {f"a{n}": ord("/") if n % 3 else 0 for n in range(100)}


@pytest.mark.parametrize("lacking", [set(), {RINGBUF}, {RINGBUF, PROBE_READ_KERNEL}, ALL])
def test_older_kernels(lacking, one_event, hits, sample):
    definition = (
        "e:e sub.evt a=$p:string b=+0($s):u32 c=$name:string d=+0(+14($p)):x64 e=$where:string "
        "f=+1($where):string if p.ustring ~ '/etc/*' && p.ustring != 'x'"
    )
    target = one_event("sub/evt", sample.parent, features=ALL - lacking)
    run = hits([definition], target, string_size=512)

    values = {"a": "/etc/hostname", "b": 0, "c": "bash", "d": 0x1122334455667788}
    found = run.fields(sample.record(), memory=sample.memory)
    assert found == (values | {"e": "place", "f": "lace"}, {"b"})


def test_only_some_processes(one_event, hits, sample):
    target = one_event("sub/evt", sample.parent)
    run = hits(["e:e sub.evt a=$s:s16"], target, pids=[7, 9])

    assert [run.fields(sample.record(), pid=pid) is not None for pid in (7, 8, 9)] == [
        True,
        False,
        True,
    ]


def test_several_definitions_of_one_event(one_event, hits, sample):
    run = hits(
        ["e:a sub.evt a=$s:s16", "e:b sub.evt b=$u:u16 if s < -500"],
        one_event("sub/evt", sample.parent),
    )

    assert len(run(sample.record())) == 1
    assert len(run(sample.record(s=-501))) == 2


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ("e:e sub.nosuch", ("<definition>:1:5: error: Attached event does not exist\n"
         "    e:e sub.nosuch\n"
         "        ^")),
        ("e:e sub.evt a=$nosuch", ("<definition>:1:15: error: Invalid $-variable specified\n"
         "    e:e sub.evt a=$nosuch\n"
         "                  ^\n  hint: fields: s u four name p where list")),
        ("e:e sub.evt a=$s:u3", ("<definition>:1:18: error: Unknown type is specified\n"
         "    e:e sub.evt a=$s:u3\n"
         "                     ^")),
        ("e:e sub.evt a=@nosuch", ("<definition>:1:1: error: unknown symbol 'nosuch'\n"
         "    e:e sub.evt a=@nosuch\n"
         "    ^^^^^^^^^^^^^^^^^^^^^")),
        ("s:x u64 a", ("<definition>:1:1: error: this is no eprobe: it begins with e, as in "
         "'e:GROUP/EVENT SYSTEM.NAME …'\n    s:x u64 a\n    ^^^^^^^^^")),
    ],
)  # fmt: skip
def test_errors(definition, message, one_event, hits, sample):
    with pytest.raises(DynEventError) as error:
        hits([definition], one_event("sub/evt", sample.parent))

    assert str(error.value).startswith(message)


def test_casts_go_on_from_the_name_of_the_running_thread(one_event, hits, sample):
    types = profile("7.3").types
    task = types.struct("task_struct")
    place = types.member(task, "pid").bit_offset // 8
    target = one_event("sub/evt", sample.parent, types=types)
    run = hits(["e:e sub.evt a=(task_struct,comm)$comm->pid b=$comm:string"], target)
    run.world.task = KERNEL

    memory = {KERNEL + place: (77).to_bytes(4, "little")}

    assert run.fields(sample.record(), comm=b"me", memory=memory)[0] == {"a": 77, "b": "me"}


def test_casts_want_the_kernels_types(one_event, hits, sample):
    with pytest.raises(DynEventError) as error:
        hits(["e:e sub.evt a=(task_struct)p->pid"], one_event("sub/evt", sample.parent))

    assert str(error.value) == (
        "<definition>:1:1: error: casts need the kernel's types (BTF), which are not at hand\n"
        "    e:e sub.evt a=(task_struct)p->pid\n"
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  hint: +OFFSET(POINTER) reads a member without them"
    )


def test_no_format_but_the_parents_is_read(one_event, sample):
    class Strange(one_event):
        def event_names(self):
            return ("x/\udcc3", self.name)

        def event_format(self, name):
            assert name != "x/\udcc3"
            return super().event_format(name)

    assert define("e:t/x g.evt a=$s", Strange("g/evt", sample.parent)).target == "g/evt"


def test_each_level_of_a_dereference_is_looked_at_once(one_event, hits, sample, monkeypatch):
    """Twice a level would be thousands of times in all: a kernel takes fourteen."""
    looked = []
    field = values._field
    monkeypatch.setattr(values, "_field", lambda *args: looked.append(1) or field(*args))
    deep = "+8(" * 14 + "$p" + ")" * 14
    hits([f"e:e sub.evt a={deep}"], one_event("sub/evt", sample.parent))
    assert looked == [1]
