"""What single features of the language do, on one or two events in the VM."""

from __future__ import annotations

import pytest

from pybpf.compiler.pipeline import compile_script
from pybpf.isa.helpers import HELPER_NAMES
from pybpf.rows import Buckets, MapRow, PrintRow, Stack
from pybpf.target.features import ALL, COMM_PADDED, PROBE_READ_KERNEL
from pybpf.target.snapshot import SnapshotTarget
from pybpf.testing.agreement import simulated
from pybpf.testing.tracepoints import FIRST, KERNEL_TEXT, SECOND, USER_TEXT, target
from pybpf.vm.driver import run_events
from pybpf.vm.recording import RecordedEvent

TARGET = target()
TRACED = SnapshotTarget(cpus=2, functions=["f", "g"], symbols=[(0xFFFFFFFF81000000, "f")])
U64 = 2**64


def event(probe=FIRST, *, data=None, comm=b"dd", pid=7, tid=8, **facts):
    return RecordedEvent(probe, comm=comm, pid=pid, tid=tid, data=data or {}, **facts)


def outcome(text, *events, on=TARGET):
    return simulated(compile_script(text, on), on, events or [event()])


def printed(text, *events, on=TARGET):
    """Return the values that a script prints, row by row."""
    found = outcome(text, *events, on=on)
    assert found.lost == 0
    return [values for kind, values in found.lines if kind != "exit"]


def body(text, *events):
    return printed(f"{FIRST} {{ {text} }}", *events)


def test_what_stands_behind_a_return_is_not_done():
    assert outcome(f"{FIRST} {{ m[1] = 1; return; delete m[1]; }}").maps == {"m": {(1,): 1}}


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        # return leaves the clause, from wherever it stands, and no other clause.
        ("return; print(1);", []),
        ("if (pid) { return; } print(1);", []),
        ("if (!pid) { return; } print(1);", [(1,)]),
        ("if (pid) { if (pid == 7) { print(1); return; } print(2); } print(3);", [(1,)]),
        ("if (pid) { if (pid == 8) { print(1); return; } print(2); } print(3);", [(2,), (3,)]),
        ("if (pid) { return; } else { print(1); } print(2);", []),
        ("{ { return; } print(1); }", []),
        # What stands behind it is not done, not even on another way to the same place.
        ("m[1] = 1; if (!pid) { return; delete m[1]; } print(m[1]);", [(1,)]),
        # else belongs to the nearest if.
        ("if (0) if (1) print(1); else print(2);", []),
        ("if (1) if (0) print(1); else print(2);", [(2,)]),
        ("if (pid == 1) print(1); else if (pid == 7) print(2); else print(3);", [(2,)]),
        # Logic gives 0 or 1, and asks no further than it must.
        ("print(pid && kpid, pid && 0, 0 || pid, 0 || 0);", [(1, 0, 1, 0)]),
        ("print(pid ^^ kpid, pid ^^ 0, 0 ^^ kpid, !pid ^^ !kpid);", [(0, 1, 1, 0)]),
        ("print(pid ^^ kpid ^^ uid, pid ^^ (0 ^^ kpid));", [(0, 0)]),
        ("print(!pid, !!pid, !uid, !!uid);", [(0, 1, 1, 0)]),
        ("print(ctx != 0, !ctx, ctx && 1, ctx ^^ 1, data == ctx);", [(1, 0, 1, 0, 1)]),
        # A map without keys is a variable.
        ("x = pid; x = x + 1; print(x);", [(8,)]),
        ("print(x); x = 1; print(x); delete x; print(x);", [(0,), (1,), (0,)]),
        # An entry that is not there is zero, and so is one that was deleted.
        ("m[1] = 5; print(m[1], m[2]); delete m[1]; print(m[1]);", [(5, 0), (0,)]),
        ("s[1] = comm; print(s[1], s[2]); delete s[1]; print(s[1]);", [(b"dd", b""), (b"",)]),
        ("m[m[0]] = 3; m[m[0]] = 4; print(m[0], m[3]);", [(3, 4)]),
        ('m[1, comm] = 1; print(m[1, comm], m[1, "dd"], m[1, "d"], m[2, ""]);', [(1, 1, 0, 0)]),
        ('m["dd"] = 1; print(m[comm], m["a much longer key"]);', [(1, 0)]),
        # Names with and without parentheses.
        ("print(pid(), comm(), execname, kpid);", [(7, b"dd", b"dd", 8)]),
        ('printf("%d%% %s|%5d|%-4s|%v", pid, comm, 1, "x", 2);', [(7, b"dd", 1, b"x", 2)]),
        # Maps are printed and cleared when the records are read, in their order.
        ("m[1] = 2; print(m, m[1]); clear(m); print(m);", [({(1,): 2}, 2), ({},)]),
        # Statements that do nothing.
        ("1; pid; comm; pid + 1; *data; m[1]; m[1] = 1; ;", []),
    ],
)  # fmt: skip
def test_statements(text, rows):
    assert body(text) == rows


def test_clear_takes_effect_when_its_record_is_read():
    text = f"{FIRST} {{ m[1] = 2; clear(m); m[3] = 4; }} {SECOND} {{ print(m); }}"

    assert printed(text, event(), event(SECOND)) == [({},)]


def test_exit_ends_the_run_after_the_event():
    text = f"{FIRST} {{ exit(300); print(1); m = 1; }} END {{ print(m); }}"

    found = outcome(text, event(), event())

    assert found.lines == [("exit", (44,)), ("print", (1,))]


def test_clauses_run_in_their_order_and_share_maps():
    text = (
        f"{FIRST} {{ x = 1; return; }} {FIRST} / x / {{ print(x); }} {FIRST} / !x / {{ print(2); }}"
    )

    assert printed(text, event()) == [(1,)]


@pytest.mark.parametrize("text", [FIRST, f"{FIRST} {{ }}", f"{FIRST} / pid == 7 /", "BEGIN { }"])
def test_a_clause_may_do_nothing(text):
    assert outcome(text).lines == []


FIELDS = {
    "a": -5, "b": 2**63, "c": -1, "d": 2**32 - 1, "e": -(2**15), "f": 65535, "g": -128, "h": 255,
    "name": b"name\0junk", "words": (1, 2, 3), "mac": b"\1\2\3\4\5\6", "text": b"dynamic",
    "tail": tuple(b"tail"), "blob": b"\0\1\2",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("data->a, data->b, data->c, data->d", (-5, 2**63, -1, 2**32 - 1)),
        ("data->e, data->f, data->g, data->h", (-(2**15), 65535, -128, 255)),
        ("data->c < 0, data->c == -1, data->c + 1, data->c / 2u", (1, 1, 0, 2**31 - 1)),
        ("data->g - 1, data->h + 1, data->e >> 1, data->f << 16", (-129, 256, -(2**14), -65536)),
        ("(*data).c, data->words, data->mac", (-1, (1, 2, 3), (1, 2, 3, 4, 5, 6))),
        ("data->name, data->text, data->tail", (b"name", b"dynamic", b"tail")),
        ("dyn(data->text, 4), dyn(data->tail, 3)", (b"dyn", b"ta")),
        ("dyn(data->blob, 2), dyn(data->blob, 4)", (b"\0\1", b"\0\1\2\0")),
        ("data->common_pid, (*data).common_pid", (8, 8)),
        ("data->common_type / 7, (*data).common_type > 6, -data->common_type < 0", (1, 1, 1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("probe", [FIRST, SECOND])
@pytest.mark.parametrize("arch", ["x86_64", "s390x"])
def test_fields(arch, probe, text, row):
    recorded = event(probe, data=FIELDS)

    assert printed(f"{probe} {{ print({text}); }}", recorded, on=target(arch)) == [row]


@pytest.mark.parametrize("probe", [FIRST, SECOND])
def test_whole_records_as_values_and_keys(probe):
    text = f"""
        {probe} {{
            m[1] = *data;
            print(m[1].c, m[1].name, m[2].c, m[2].name, m[1].words);
            print(*data);
            print(m[1]);
            @[*data] = count();
            @[m[1]] = count();
        }}
    """

    found = outcome(
        text, event(probe, data=FIELDS), event(probe, data={**FIELDS, "name": b"name\0x"})
    )

    first, record, stored = (values for _, values in found.lines[:3])
    assert first == (-1, b"name", 0, b"", (1, 2, 3))
    assert record == stored
    assert {-5, 2**63, -1, b"name", (1, 2, 3)} <= set(record[0])
    # Where the dynamic fields lie differs with the length of none of these.
    assert list(found.maps["@"].values()) == [4]


def test_arrays_as_values_and_keys():
    stores = "@[data->words] = count(); m[data->words] = data->mac;"
    text = f"{FIRST} {{ {stores} print(m[data->words]); }}"

    found = outcome(text, event(data=FIELDS), event(data=FIELDS))

    assert found.lines == [("print", ((1, 2, 3, 4, 5, 6),))] * 2
    assert found.maps["@"] == {((1, 2, 3),): 2}


def test_what_lies_behind_a_nul_does_not_tell_keys_apart():
    text = f"{FIRST} {{ @[data->name] = count(); m[1] = data->name; @m[m[1], 1] = count(); }}"

    found = outcome(text, event(data={"name": b"a\0b"}), event(data={"name": b"a\0c"}))

    key = b"a".ljust(16, b"\0")
    assert (found.maps["@"], found.maps["@m"]) == ({(key,): 2}, {(key, 1): 2})
    assert found.maps["m"] == {(1,): key}


def buckets(bits, *values):
    counts = [0] * bits
    for value in values:
        counts[value] += 1
    return Buckets(tuple(counts))


@pytest.mark.parametrize(
    ("argument", "counted"),
    [
        ("data->h", buckets(32, 7)),
        ("data->g", buckets(32, 31)),
        ("data->e", buckets(32, 31)),
        ("data->f", buckets(32, 15)),
        ("data->d", buckets(32, 31)),
        ("data->c", buckets(32, 31)),
        ("data->a", buckets(64, 63)),
        ("data->b", buckets(64, 63)),
        ("data->a + 5", buckets(64, 0)),
        ("0", buckets(32, 0)),
        ("1", buckets(32, 0)),
        ("2", buckets(32, 1)),
        ("0x7fffffff", buckets(32, 30)),
        ("0x80000000", buckets(32, 31)),
        ("1ul << 62", buckets(64, 62)),
        ("time", buckets(64, 9)),
        ("time - 1000", buckets(64, 63)),
        ("data->kernel_text", buckets(64, 63)),
        ("uptr(data->h)", buckets(64, 7)),
        ("pid == 7", buckets(32, 0)),
    ],
)
def test_quantize(argument, counted):
    found = outcome(f"{FIRST} {{ @ = quantize({argument}); }}", event(
        data={**FIELDS, "kernel_text": KERNEL_TEXT}, time=999
    ))  # fmt: skip

    assert found.maps["@"] == {(): counted}


def test_aggregations_of_several_probes_and_cpus_meet():
    text = f"""
        {FIRST} {{ @n[comm] = count(); @s[comm] = sum(data->c); @q[comm] = quantize(data->h); }}
        {SECOND} {{ @n["dd"] = count(); @s["x"] = sum(data->d); @q["dd"] = quantize(data->a); }}
    """
    events = [
        event(data=FIELDS, cpu=0),
        event(data=FIELDS, cpu=1),
        event(SECOND, data=FIELDS, cpu=1),
        event(SECOND, data=FIELDS, cpu=0, comm=b"cat"),
    ]

    found = outcome(text, *events)

    dd, x = b"dd".ljust(16, b"\0"), b"x".ljust(16, b"\0")
    assert found.maps["@n"] == {(dd,): 4}
    # Sums of int and unsigned int are of long and unsigned long: the latter, as in C.
    assert found.maps["@s"] == {(dd,): U64 - 2, (x,): 2 * (2**32 - 1)}
    assert found.maps["@q"] == {(dd,): buckets(64, 7, 7, 63, 63)}


WORDS = [b"", b"a", b"b", b"dd", b"seven..", b"eight...", b"nine.....", b"fifteen letters",
         b"sixteen letters!", b"sixteen letters?"]  # fmt: skip
LONGER = [*WORDS, b"sixteen letters! and more"]


def difference(left, right):
    pairs = zip(left + b"\0", right + b"\0", strict=False)
    return next((a - b for a, b in pairs if a != b), 0)


def shown(call: str) -> str:
    return f"print({call}, {call} == 0, !{call}); if ({call} != 0) {{ print(1); }}"


def rows_shown(number: int) -> list[tuple[int, ...]]:
    return [(number, int(number == 0), int(number == 0)), *[(1,)] * (number != 0)]


@pytest.mark.parametrize("arch", ["x86_64", "s390x"])
@pytest.mark.parametrize("constant", LONGER, ids=bytes.decode)
def test_strcmp_with_a_constant(constant, arch):
    text = f'"{constant.decode()}"'
    calls = f"strcmp(data->name, {text})", f"strcmp({text}, data->name)"
    words = [word + junk for word in WORDS for junk in (b"", b"\0junk") if len(word + junk) <= 16]
    events = [event(data={"name": word}) for word in words]

    rows = printed(f"{FIRST} {{ {' '.join(map(shown, calls))} }}", *events, on=target(arch))

    cut = [word.partition(b"\0")[0] for word in words]
    pairs = [pair for word in cut for pair in ((word, constant), (constant, word))]
    assert rows == [row for pair in pairs for row in rows_shown(difference(*pair))]


@pytest.mark.parametrize("arch", ["x86_64", "s390x"])
@pytest.mark.parametrize("other", ["data->text", "s", "mem(data->b, 20)"])
def test_strcmp_of_two_arrays(other, arch):
    calls = f"strcmp(data->name, {other})", f"strcmp({other}, data->name)"
    pairs = [(a + junk, b) for a in WORDS for b in LONGER for junk in (b"", b"\0x") if len(a) < 15]
    pairs += [(a, b) for a in WORDS for b in LONGER if len(a) >= 15]
    events = [
        event(data={"name": a, "text": b, "b": USER_TEXT}, memory={USER_TEXT: b + bytes(20)})
        for a, b in pairs
    ]
    text = f"{FIRST} {{ s = str(uptr(data->b), 30); {' '.join(map(shown, calls))} }}"

    rows = printed(text, *events, on=target(arch))

    size = 20 if other.startswith("mem") else 99
    wanted = []
    for a, b in pairs:
        left, right = a.partition(b"\0")[0], b[:size]
        wanted += rows_shown(difference(left, right)) + rows_shown(difference(right, left))
    assert rows == wanted


POINTERS = {"kernel_text": KERNEL_TEXT, "user_text": USER_TEXT}
MEMORY = {KERNEL_TEXT: b"kernel\0", USER_TEXT: b"user\0"}


@pytest.mark.parametrize(
    ("text", "row"),
    [
        # A char * says by its field which memory it leads to.
        ("data->kernel_text, data->user_text", (b"kernel", b"user")),
        ("str(data->kernel_text, 4), str(data->user_text)", (b"ker", b"user")),
        ("*data->kernel_text, *(data->user_text + 1)", (ord("k"), ord("s"))),
        ("mem(data->user_text, 5), mem(data->user_text, 6)", (b"user\0", bytes(6))),
        # Of a number nobody knows, so both are tried; uptr() says it.
        ("str(data->a), str(data->b)", (b"kernel", b"user")),
        ("str(uptr(data->a)), str(uptr(data->b))", (b"", b"user")),
        ("str(data->a + 3), str(data->b + 100), str(0), str(pid)", (b"nel", b"", b"", b"")),
        # Kept in a map, a pointer can be followed later.
        ("p[2], str(p[2], 3), *p[2]", (b"user", b"us", ord("u"))),
    ],
)
def test_pointers(text, row):
    recorded = event(data={**POINTERS, "a": KERNEL_TEXT, "b": USER_TEXT}, memory=MEMORY)

    assert body(f"p[2] = data->user_text; print({text});", recorded) == [row]


def test_kernels_before_5_5_tell_memory_apart_by_the_address():
    old = target(features=ALL - {PROBE_READ_KERNEL})
    recorded = event(data={"a": KERNEL_TEXT, "b": USER_TEXT}, memory=MEMORY)
    text = f"{FIRST} {{ print(str(data->a), str(data->b), str(uptr(data->a))); }}"

    assert printed(text, recorded, on=old) == [(b"kernel", b"user", b"kernel")]


def test_printf_of_pointers():
    text = 'printf("%s %p %d %x %v", data->user_text, data->user_text, data->user_text, p, p);'

    rows = body(f"p = data->kernel_text; {text}", event(data=POINTERS, memory=MEMORY))

    assert rows == [(b"user", USER_TEXT, USER_TEXT, KERNEL_TEXT, b"kernel")]


def rows_of(text, *events, on):
    return list(run_events(compile_script(text, on), on, events))


def test_stacks_are_keys_and_values():
    text = "kprobe:f { @[stack, comm] = count(); m[1] = stack; print(stack, m[1]); }"
    frames = (0xFFFFFFFF81000010, 0xFFFFFFFF81000020)

    first, _, table, stored = rows_of(text, *[event("kprobe:f", stack=frames)] * 2, on=TRACED)

    assert isinstance(first, PrintRow)
    assert [cell.value for cell in first.cells] == [Stack(0, frames)] * 2
    assert isinstance(table, MapRow)
    assert table.entries == (((Stack(0, frames), b"dd".ljust(16, b"\0")), 2),)
    assert stored.entries == (((1,), Stack(0, frames)),)


def test_registers_and_arguments():
    text = """
        kprobe:f { print(arg0, arg1 - arg0, regs->rdi, (*regs).rsi, arg6, caller); }
        kretprobe:f { print(retval, regs->rax, retval < 0); }
    """
    entry = event("kprobe:f", args=(5, 3, 0, 0, 0, 0, 77), regs={"rsp": 0xFFFF888000000000})

    rows = printed(text, entry, event("kretprobe:f", retval=-2), on=TRACED)

    assert rows == [(5, U64 - 2, 5, 3, 77, 0xFFFFFFFF81000000), (-2, U64 - 2, 1)]


def test_patterns_reach_every_event_they_match():
    text = """
        tracepoint:test/* { print(data->c); }
        tracepoint:test/* { @ = count(); }
        kprobe:@(f|g) { @calls[caller] = count(); }
    """

    found = outcome(text.partition("kprobe")[0], event(data={"c": 1}), event(SECOND, data={"c": 2}))
    calls = outcome(text[text.index("kprobe") :], event("kprobe:f"), event("kprobe:g"), on=TRACED)

    assert found.lines == [("print", (1,)), ("print", (2,))]
    assert found.maps["@"] == {(): 2}
    assert calls.maps["@calls"] == {(0xFFFFFFFF81000000,): 1, (0,): 1}


@pytest.mark.parametrize(("features", "stores"), [(ALL, 0), (ALL - {COMM_PADDED}, 2)])
def test_a_name_in_a_key_is_cleared_first_where_the_kernel_does_not_pad_it(features, stores):
    script = compile_script(f"{FIRST} {{ @[comm] = count(); }}", target(features=features))

    names = [insn.op.name for insn in script.probes[0].program.insns]

    assert names[: names.index("call_helper")].count("stdw") == stores


def calls(text, on=TARGET):
    """Return the helpers that a script's only probe calls, in order."""
    (probe,) = compile_script(text, on).probes
    called = (insn for insn in probe.program.insns if insn.op.name == "call_helper")
    return [HELPER_NAMES[insn.imm].removeprefix("bpf_") for insn in called]


@pytest.mark.parametrize(
    ("text", "helpers"),
    [
        # What an entry held is known until the program changes it.
        ("print(m[1] + m[1]);", 1),
        ("if (m[1]) { print(m[1]); }", 1),
        ("if (m[1]) { } print(m[1]);", 1),
        ("if (m[1] || m[2]) { print(m[1]); }", 2),
        ("m[2] = 3; print(m[1], m[1]);", 1),
        # It is not where there is a way past the first lookup, or the program may have changed it.
        ("if (m[1] && m[2]) { } print(m[1], m[2]);", 3),
        ("if (pid) { print(m[1]); } print(m[1]);", 2),
        ("if (pid) { return; print(m[1]); } print(m[1]);", 1),
        ("print(m[1]); m[2] = 3; print(m[1]);", 2),
        ("print(m[1]); if (pid) { delete m[2]; } print(m[1]);", 2),
        ("print(m[pid], m[kpid], m[uid]);", 3),
        ("print(m[time], m[time]);", 2),
        ("print(m[m[1]], m[m[1]]);", 3),
    ],
)
def test_lookups(text, helpers):
    text = f"{FIRST} {{ m[1] = 0; {text} }}"

    assert calls(text).count("map_lookup_elem") == helpers


def test_a_key_is_made_once():
    text = f"{FIRST} {{ @a[comm, pid] = count(); @b[comm, pid] = sum(1); delete c[pid, kpid]; "

    helpers = calls(text + "c[pid, kpid] = 1; }")

    assert helpers.count("get_current_comm") == helpers.count("get_current_pid_tgid") == 1


def test_ids_in_a_pid_namespace_are_asked_for_once():
    on = SnapshotTarget(pid_namespace=(4, 0xEFFFFFFC), functions=["f"])

    helpers = calls("kprobe:f / pid == 1 / { @[pid, kpid] = count(); }", on)

    assert helpers.count("get_ns_current_pid_tgid") == 1


@pytest.mark.parametrize("name", [b"x" * 16, b"short\0junk"])
def test_strings_are_read_to_where_they_lie_in_a_key(name):
    text = (
        f"{FIRST} {{ @[data->name, data->name, data->h] = count(); @b[1, data->name] = sum(2); }}"
    )

    entries = {
        row.name: row.entries
        for row in run_events(
            compile_script(text, TARGET), TARGET, [event(data={"name": name, "h": 5})]
        )
        if isinstance(row, MapRow)
    }

    padded = name.partition(b"\0")[0].ljust(16, b"\0")
    assert entries == {"@": (((padded, padded, 5), 1),), "@b": (((1, padded), 2),)}
    loads = [i for i in compile_script(text, TARGET).probes[0].program.insns if i.src == 10]
    assert not [i for i in loads if i.op.name.startswith("ldx")]
