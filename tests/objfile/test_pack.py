"""A compiled script becomes an object, and that the same script again."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pybpf.compiler.pipeline import Options, compile_ahead, compile_script
from pybpf.errors import ObjectError, PybpfError
from pybpf.events.decode import Decoder
from pybpf.isa.abi import ProgType
from pybpf.isa.encoding import encode
from pybpf.objfile import writer
from pybpf.objfile.code import Use
from pybpf.objfile.maps import Origin
from pybpf.objfile.object import Object
from pybpf.objfile.pack import SECTION, VERSION, Content, pack, section_name
from pybpf.objfile.unpack import unpack
from pybpf.script import MapRole
from pybpf.source import Source
from pybpf.target.features import ALL, MAP_VALUE_ADDR, RINGBUF
from pybpf.target.needs import fitted
from pybpf.target.snapshot import SnapshotTarget
from pybpf.testing.agreement import simulated
from pybpf.testing.recordings import recordings
from pybpf.testing.tracepoints import ENVIRONMENT, target
from pybpf.testing.typed import typed_scripts

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.ply"))
SNAPSHOTS = sorted((ROOT / "tests/data/targets").glob("*.tar.gz"))
RANDOM = {
    "new": target(),
    "in a container": target(pid_namespace=(4, 0xEFFFFFFC)),
    "old": target(features=()),
    "aarch64": target("aarch64"),
    "s390x": target("s390x"),
}


@pytest.fixture(scope="module", params=SNAPSHOTS, ids=lambda path: path.name.split(".tar")[0])
def snapshot(request):
    return SnapshotTarget.load(request.param, environment={"target": "7", "1": "cat"})


def example(path, on):
    return compile_ahead(Source(path.name, path.read_text()), on)


def test_examples_come_back(snapshot):
    for path in EXAMPLES:
        script, needs = example(path, snapshot)
        found = unpack(pack(script, needs), path.name)
        assert (found.script, found.needs) == (script, needs), path.name
        # What equality leaves out: where things were written.
        for ours, theirs in zip(found.script.probes, script.probes, strict=True):
            assert ours.span == theirs.span
            assert ours.program.spans == theirs.program.spans


def test_the_same_script_gives_the_same_bytes(snapshot):
    for path in EXAMPLES:
        assert pack(*example(path, snapshot)) == pack(*example(path, snapshot)), path.name


@pytest.mark.parametrize("on", RANDOM.values(), ids=RANDOM)
def test_random_scripts_come_back(on):
    @settings(
        max_examples=max(20, settings().max_examples // 4),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(typed_scripts(arch=on.arch.name), st.sampled_from([None, "self"]))
    def comes_back(text, cgroup):
        options = Options(stacks=16, cgroup=cgroup)
        script, needs = compile_ahead(text, on, options)
        assert script == compile_script(text, on, options)
        found = unpack(pack(script, needs))
        assert (found.script, found.needs) == (script, needs)

    comes_back()


BEFORE = {name: value for name, value in ENVIRONMENT.items() if name != "target"}


@st.composite
def asking_for_the_target(draw, arch):
    text = draw(typed_scripts(arch=arch.name))
    spec = "t:test/second" if draw(st.booleans()) else "BEGIN"
    asks = f"{spec} {{ @asks[$target] = count(); print($target); x = $target * 3 - 1; }}"
    return f"{text}\n{asks}" if draw(st.booleans()) else text


@pytest.mark.parametrize(
    ("arch", "features"), [("x86_64", ALL), ("x86_64", ()), ("s390x", ALL - {MAP_VALUE_ADDR})]
)
def test_a_process_that_is_known_later_is_the_same(arch, features):
    early, late = target(arch, features), target(arch, features, environment=BEFORE)

    @settings(
        max_examples=max(20, settings().max_examples // 4),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(asking_for_the_target(early.arch), st.data())
    def same(text, data):
        events = data.draw(recordings(text, early.arch.byteorder))
        options = Options(stacks=16)
        script, needs = compile_ahead(text, late, options)
        found = unpack(pack(script, needs))
        ready = fitted(found.script, found.needs, early, "x.o")

        expected = simulated(compile_script(text, early, options), early, events)

        assert simulated(ready, early, events) == expected

    same()


def test_programs_that_probes_share_are_shared_again():
    on = target()
    script, needs = compile_ahead("t:*/* { @[cpu] = count(); }", on)
    shared = {id(probe.program) for probe in script.probes}

    found = unpack(pack(script, needs)).script

    assert len({id(probe.program) for probe in found.probes}) == len(shared)


# --- as others see it -----------------------------------------------------------------------------


def test_others_find_the_programs(snapshot):
    for path in EXAMPLES:
        script, needs = example(path, snapshot)
        found = Object.parse(pack(script, needs), path.name)
        programs = {program.name: program for program in found.programs}
        assert len(programs) == len(script.probes)
        by_section = sorted(section_name(probe) for probe in script.probes)
        assert sorted(p.section for p in found.programs) == by_section
        for probe in script.probes:
            same = [
                p for p in found.programs
                if p.section == section_name(probe)
                and encode(p.program, "little") == encode(probe.program, "little")
            ]  # fmt: skip
            assert same, probe.spec
            assert same[0].kind.kind.prog_type == probe.program.prog_type
            assert [line.line for line in same[0].program.lines]
        assert found.licence == "GPL"
        assert not found.externs
        assert all(program.functions[0].type for program in found.programs)


def test_others_find_the_maps(snapshot):
    for path in EXAMPLES:
        script, needs = example(path, snapshot)
        found = Object.parse(pack(script, needs), path.name)
        assert len(found.maps) == len(script.maps)
        declared = [spec for spec in found.maps if spec.origin is Origin.BTF]
        data = [spec for spec in found.maps if spec.origin is Origin.DATA]
        plain = [s for s in script.maps if s.role not in {MapRole.LOST, MapRole.ZERO}]
        for ours, spec in zip(declared, plain, strict=True):
            assert (ours.map_type, ours.key_size, ours.value_size, ours.max_entries) == (
                spec.type, spec.key_size, spec.value_size, spec.max_entries,
            )  # fmt: skip
            assert bool(ours.key_type) == ("HASH" in spec.type.name)
        own = [s for s in script.maps if s.role in {MapRole.LOST, MapRole.ZERO}]
        for ours, spec in zip(data, own, strict=True):
            assert ours.value_size == spec.value_size
            assert ours.initial == spec.initial.ljust(spec.value_size, b"\0")
            assert ours.value_type


SCRIPT = 'BEGIN { @[comm] = count(); printf("%d\\n", time); }'


def test_maps_that_programs_do_not_address_are_all_declared():
    on = SnapshotTarget(features=ALL - {MAP_VALUE_ADDR, RINGBUF}, cpus=3)
    found = Object.parse(pack(*compile_ahead(SCRIPT, on)))

    assert {spec.origin for spec in found.maps} == {Origin.BTF}
    assert [spec.type_name for spec in found.maps] == ["percpu_hash", "perf_event_array", "array"]
    assert {r.use for p in found.programs for r in p.references} == {Use.MAP}


@pytest.mark.parametrize("arch", ["x86_64", "aarch64", "riscv64", "s390x"])
def test_an_object_has_the_byte_order_of_its_machine(arch):
    data = pack(*compile_ahead(SCRIPT, SnapshotTarget(arch=arch)))
    order = "big" if arch == "s390x" else "little"

    found = Object.parse(data)

    assert found.byteorder == order
    assert found.btf.byteorder == order
    lost = found.map(".data.lost")
    assert int.from_bytes(lost.initial[-8:], order) == 1
    assert unpack(data).script.arch == arch


PROBES = {
    "BEGIN": "raw_tp",
    "END": "raw_tp",
    "interval:1s": "perf_event",
    "profile:99hz": "perf_event",
    "k:vfs_read": "kprobe/vfs_read",
    "kprobe:vfs_read+0x10": "kprobe/vfs_read+0x10",
    "kprobe:0xffffffff81000000": "kprobe",
    "kprobe:dummy:dummy_xmit": "kprobe",
    "kretprobe:vfs_read": "kretprobe/vfs_read",
    "kprobe:vfs_*": "kprobe.multi/vfs_*",
    "kprobe:vfs_@(read|write)": "kprobe",
    "kretprobe:vfs_*": "kretprobe.multi/vfs_*",
    "t:sched/sched_switch": "tracepoint/sched/sched_switch",
}


@pytest.mark.parametrize("spec", PROBES)
def test_sections_say_where_programs_are_attached(spec, target_612):
    script, needs = compile_ahead(f"{spec} {{ @ = count(); }}", target_612)
    found = Object.parse(pack(script, needs))

    assert {p.section for p in found.programs} == {PROBES[spec]}
    assert unpack(pack(script, needs)).script == script


def test_a_pattern_whose_program_reads_the_stack_takes_kprobes_of_its_own(target_612):
    script, _ = compile_ahead("kprobe:vfs_* { @[regs->r12] = count(); }", target_612)

    assert not script.probes[0].traced
    assert section_name(script.probes[0]) == "kprobe"


def test_an_eprobe_comes_back(target_612):
    text = 'eprobe:"e:x/y sched/sched_switch p=$prev_pid" { @[data->p] = count(); }'
    script, needs = compile_ahead(text, target_612)

    assert unpack(pack(script, needs)).script == script
    assert section_name(script.probes[0]) == "tracepoint/sched/sched_switch"
    assert script.probes[0].program.prog_type is ProgType.TRACEPOINT
    assert [field.name for field in needs.fields] == ["prev_pid"]


def test_names_are_made_fit_for_c(target_612):
    text = (
        "t:sched/sched_switch { @ = count(); @a = count(); a = 1; @BEGIN = count(); }"
        "BEGIN { @x = count(); } BEGIN { events = 1; print(1); }"
        "t:sched/sched_switch { print(2); }"
    )
    found = Object.parse(pack(*compile_ahead(text, target_612)))

    names = [program.name for program in found.programs]
    assert names == [
        "tracepoint_sched_sched_switch", "tracepoint_sched_sched_switch_2", "BEGIN", "BEGIN_2",
    ]  # fmt: skip
    maps = [spec.name for spec in found.maps]
    assert maps == ["map", "a", "a_2", "BEGIN_3", "x", "events", "events_2", ".data.lost"]


def test_lines_of_the_script_are_in_it(target_612):
    source = Source("probe.ply", "BEGIN {\n    print(1);\n    @[comm] = count();\n}\n")
    found = Object.parse(pack(*compile_ahead(source, target_612)))

    lines = found.programs[0].program.lines
    assert {(line.file, line.line, line.text) for line in lines} == {
        ("probe.ply", 2, "    print(1);"), ("probe.ply", 3, "    @[comm] = count();"),
    }  # fmt: skip


def test_the_version_is_that_of_these_fields():
    """Whoever changes one of them gives .pybpf another version, and docs/ahead.md, too."""
    found = {}

    def note(hint):
        for inner in getattr(hint, "__args__", ()):
            note(inner)
        if hasattr(hint, "__dataclass_fields__") and hint.__name__ not in {*found, "Program"}:
            found[hint.__name__] = " ".join(hint.__match_args__)
            for name in hint.__match_args__:
                note(get_type_hints(hint)[name])

    note(Content)
    text = "".join(f"{name}: {fields}\n" for name, fields in sorted(found.items()))
    assert (VERSION, sha256(text.encode()).hexdigest()[:16]) == (1, "e94cbb7cda1ae4cf"), text


def test_the_fields_are_those_that_are_documented():
    page = (ROOT / "docs/ahead.md").read_text().partition("## The section .pybpf")[2]
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(Content.__match_args__)


# --- what cannot be believed ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def packed(target_612):
    script, needs = compile_ahead(EXAMPLES_TEXT, target_612)
    return pack(script, needs)


EXAMPLES_TEXT = (
    'BEGIN { printf("%d %s\\n", 3, comm); start[1] = time; exit(2); } interval:1s { clear(@); }'
    "profile:hz:97 { @[stack] = count(); } t:sched/sched_switch { @q = quantize(data->prev_pid); }"
    'kprobe:vfs_read { @s[cpu] = sum(arg2); print(@q, start[1], 7, "x"); }'
).replace("profile:hz:97", "profile:97hz")


def content(data):
    section = Object.parse(data).elf.section(SECTION)
    return json.loads(section.data.strip(b"\0"))


def with_content(data, text):
    """Return an object with another .pybpf."""
    found = Object.parse(data).elf
    kept = [s for s in found.sections if s.type == "SHT_PROGBITS"]
    symbols = found.symbols[1:]
    last = type(kept[0])(len(kept) + 1, SECTION, "SHT_STRTAB", 0, len(text), text)
    return writer.write([*kept, last], symbols, found.byteorder)


def put(document, path, value):
    *steps, last = path
    place = document
    for step in steps:
        place = place[step]
    place[last] = value
    return document


def test_nothing_else_changes_with_the_content(packed):
    text = json.dumps(content(packed), separators=(",", ":")).encode()

    assert with_content(packed, b"\0" + text + b"\0") == packed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "no JSON: Expecting value"),
        (b"\0{]", "offset 0x2: no JSON: Expecting property name enclosed in double quotes"),
        (b"\xff", "no JSON that can be read"),
        (b"[" * 100_000, "no JSON that can be read"),
        (b"9" * 10_000, "no JSON that can be read"),
        (b"[]", "it is no object"),
        (b"{}", "version: it is no number from 1 on"),
        (b'{"version": "1"}', "version: it is no number from 1 on"),
        (b'{"version": 1}', "script.source: it is no object"),
    ],
)
def test_a_content_that_is_none(packed, text, message):
    with pytest.raises(ObjectError) as caught:
        unpack(with_content(packed, text), "x.o")
    assert str(caught.value).startswith("x.o: section .pybpf")
    assert message in str(caught.value)


def test_a_newer_content(packed):
    data = with_content(packed, b'{"version": 2, "what": "is not known yet"}')
    with pytest.raises(ObjectError) as caught:
        unpack(data, "x.o")
    assert str(caught.value) == (
        "x.o: section .pybpf: it is of version 2, and this pybpf reads version 1\n"
        "  hint: compile the script again, or run it with the pybpf that compiled it"
    )


def test_an_object_without_a_script(c_objects):
    with pytest.raises(ObjectError) as caught:
        unpack((c_objects / "xdp_parse.el.o").read_bytes(), "x.o")
    assert str(caught.value) == (
        "x.o: it holds no script: there is no section .pybpf\n"
        "  hint: `pybpf compile -o FILE SCRIPT` makes one that does"
    )


LIES = [
    (("script",), None, "script.source: it is no object"),
    (("script", "arch"), "vax", "script.arch: it is none of x86_64, aarch64"),
    (("script", "arch"), "s390x", "script.arch: s390x is big-endian, and the file is not"),
    (("script", "maps", 0, "type"), "HASH", "script.maps[0].type: it names no MapType"),
    (("script", "maps", 0, "key_size"), 5, "script.maps[0].key_size: its type has another"),
    (("script", "maps", 0, "key_size"), "4", "script.maps[0].key_size: it is no number"),
    (("script", "maps", 0, "max_entries"), -1, "script.maps[0].max_entries: it is no size"),
    (("script", "maps", 0, "value"), {"is": "Int"}, "maps[0].value: the field 'size' is missing"),
    (("script", "maps", 0, "value"), {"is": "Tree"}, "maps[0].value: it is none of Void, Int, "),
    (("script", "maps", 0, "x"), 1, "script.maps[0]: it has a field 'x', which is unknown"),
    (("script", "maps", 1, "name"), "start", "script.maps: two have the same name"),
    (("script", "events", 0, "id"), 1, "script.events[0].id: it is not 0"),
    (("script", "events", 0, "payload", "size"), 9, "payload.fields[0]: it is not within"),
    (("script", "events", 0, "payload", "size"), 33, "payload: its size is no multiple of"),
    (("script", "events", 0, "args"), [], "script.events[0].format: it is not for 0 arguments"),
    (("script", "probes", 0, "program"), 99, "probes[0].program: it is the number of no program"),
    (("script", "probes", 0, "span"), [0, 1 << 20], "0 to 1048576 is no part of the script"),
    (("script", "probes", 1, "period"), 0, "script.probes[1].period: it is no time"),
    (("script", "probes", 2, "frequency"), 0, "script.probes[2].frequency: it is no frequency"),
    (("script", "probes", 3, "tracepoint"), "../..", "probes[3].tracepoint: it is no category/"),
    (("script", "probes", 4, "functions"), [], "script.probes[4].functions: there is none"),
    (("script", "buffer_size"), 0, "script.buffer_size: it is no size"),
    (("programs", 0, "function"), "main", "programs[0].function: there is no program 'main'"),
    (("programs", 0, "labels"), [["x", 1 << 40]], "programs[0].labels[0]: its program has "),
    (("programs", 0, "labels"), [], "programs[0].labels: they lack where instruction "),
    (("programs", 0, "spans"), [[0, 5, 1]], "programs[0].spans[0]: 5 to 1 is no part of"),
    (("programs", 0, "spans"), [], "programs[0].spans: there is no run"),
    (("programs", 0, "spans"), [[]], "programs[0].spans[0]: it is no run of the program's"),
    (("programs", 0, "spans"), [[3, 0, 1]], "programs[0].spans[0]: it is no run of the program's"),
    (("symbols",), [], "symbols: they are not as many as the maps of the script"),
    (("symbols", 0), "other", "refers to start, which is no map of the script"),
    (("needs", "pid_namespace"), [1], "needs.pid_namespace: it has 1 elements in the place of 2"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "message"), LIES, ids=lambda each: str(each)[:40])
def test_lies_have_a_place(packed, path, value, message):
    text = json.dumps(put(content(packed), path, value)).encode()
    with pytest.raises(ObjectError) as caught:
        unpack(with_content(packed, text), "x.o")
    assert message in str(caught.value)
    assert str(caught.value).startswith("x.o: section ")


def places(value, path=()):
    """Yield the paths to all that a document holds."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*path, index))


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.integers(-2, 70),
    st.text(max_size=3),
    st.sampled_from(["array", "hash", "print", "exit", "map", "ff" * 8, "%", "sum", "stack"]),
    st.lists(st.integers(-1, 9), max_size=3), st.just({}),
    st.sampled_from([{"is": "Void"}, {"is": "Int", "size": 8, "signed": True, "name": ""}]),
)  # fmt: skip


class Nothing:
    """Maps without entries."""

    def items(self, _name):
        return ()

    def clear(self, _name):
        pass

    def stack(self, _number):
        return ()

    def cpus(self):
        return (0,)


def test_whatever_is_changed_is_refused_or_can_be_used(packed):
    whole = content(packed)
    known = [path for path in places(whole) if path]

    @settings(deadline=None, max_examples=2 * settings().max_examples)
    @given(st.data())
    def holds(data):
        path = data.draw(st.sampled_from(known))
        changed = put(json.loads(json.dumps(whole)), path, data.draw(ANYTHING))
        try:
            script = unpack(with_content(packed, json.dumps(changed).encode())).script
        except ObjectError:
            return
        try:
            decoder = Decoder(script, Nothing())
            decoder.map_rows()
            decoder.lost_rows()
            for event in script.events:
                decoder.decode(event.id.to_bytes(4, "little") + bytes(event.payload.size))
            pack(script, unpack(packed).needs)
        except PybpfError:
            pass

    holds()


def test_a_damaged_object_is_refused_or_holds_a_script(packed):
    @settings(deadline=None)
    @given(st.lists(st.tuples(st.integers(0, len(packed) - 1), st.integers(0, 255)), max_size=4))
    def holds(changes):
        data = bytearray(packed)
        for at, value in changes:
            data[at] = value
        with suppress(ObjectError):
            unpack(bytes(data))

    holds()
