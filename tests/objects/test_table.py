"""Maps of loaded objects behave as dicts, whose keys and values are what their types say."""

import json

import pytest

from pybpf.errors import KernelError, ObjectError, ValueMismatch
from pybpf.isa.abi import MapType
from pybpf.kernel.maps import possible_cpus
from pybpf.objects.show import dumped

pytestmark = pytest.mark.kernel

PLACE = {"cpu": 1, "name": "here"}


@pytest.fixture
def values(opened):
    return opened("values").load()


def test_entries_come_and_go(values):
    records = values.maps["records"]
    assert len(records) == 0
    assert PLACE not in records
    with pytest.raises(KeyError):
        records[PLACE]
    with pytest.raises(KeyError):
        del records[PLACE]
    records[PLACE] = {"count": 3, "state": "BUSY", "places": [{"cpu": 9}, {}], "negative": -32}
    assert PLACE in records
    (key,) = records
    assert key == PLACE
    assert key.name == "here"
    record = records[PLACE]
    assert (record.count, record.state, record.negative) == (3, "BUSY", -32)
    assert record.places[0] == {"cpu": 9, "name": ""}
    assert list(records.entries()) == [(key, record)] == list(records.items())
    assert dict(records) == {key: record}
    records[PLACE] = {**record, "count": 4}
    assert records[PLACE].count == 4
    assert records.pop(PLACE).count == 4
    records.write([({"cpu": n}, {"count": n}) for n in range(5)])
    assert {record.count for record in records.values()} == set(range(5))
    records.clear()
    assert len(records) == 0


def test_a_full_map_is_an_error(values):
    records = values.maps["records"]
    with pytest.raises(KernelError, match="cannot update map records"):
        records.write({"cpu": n}.items() and ({"cpu": n}, {}) for n in range(9))


def test_values_per_cpu(values):
    per_cpu, cpus = values.maps["per_cpu"], len(possible_cpus())
    assert per_cpu[0] == [0] * cpus
    per_cpu[0] = -5
    assert per_cpu[0] == [-5] * cpus
    per_cpu[1] = list(range(cpus))
    assert dict(per_cpu) == {0: [-5] * cpus, 1: list(range(cpus))}
    with pytest.raises(ValueMismatch) as caught:
        per_cpu[1] = [1] * (cpus + 1)
    said = f"value of map per_cpu: {cpus + 1} values, but there are {cpus} CPUs"
    assert str(caught.value) == said


def test_enumerators_and_arrays(values):
    by_state = values.maps["by_state"]
    by_state["GONE"] = [1, 2, 3]
    by_state[5] = (4, 5, 6)
    assert dict(by_state.entries()) == {"GONE": (1, 2, 3), "BUSY": (4, 5, 6)}


def test_queues_and_filters(values):
    queue, seen = values.maps["queue"], values.maps["filter"]
    queue.push(7)
    queue.push(8)
    assert (queue.peek(), queue.take(), queue.take()) == (7, 7, 8)
    for empty in (queue.peek, queue.take):
        with pytest.raises(IndexError, match="map queue is empty"):
            empty()
    seen.push(3)
    assert seen.holds(3)
    assert not seen.holds(4)


def test_bytes_where_types_do_not_tell(values):
    untyped = values.maps["untyped"]
    assert untyped[1] == bytes(6)
    untyped[1] = b"abcdef"
    assert untyped[b"\1\0\0\0"] == b"abcdef"
    assert list(untyped) == [bytes(4), b"\1\0\0\0"]
    with pytest.raises(ValueMismatch, match="value of map untyped: b'abc' is not 6 bytes"):
        untyped[1] = b"abc"


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        ("records", {"cpu": -1}, {}, "key of map records.cpu: -1 is not from 0 to 4294967295"),
        ("records", {"gpu": 1}, {},
         "key of map records: there is no member gpu; did you mean 'cpu'?"),
        ("records", {}, {"places": [{}, {"name": 5}]},
         "value of map records.places[1].name: 5 is no string of 8 bytes"),
        ("per_cpu", "x", 1, "key of map per_cpu: 'x' is no unsigned integer of 32 bits"),
    ],
)  # fmt: skip
def test_what_types_cannot_hold(values, name, key, value, message):
    with pytest.raises(ValueMismatch) as caught:
        values.maps[name][key] = value
    assert str(caught.value) == message


def test_maps_of_maps(opened):
    held = opened("maps_inner").load()
    outer, first = held.maps["outer"], held.maps["first"]
    assert list(outer) == [0, 3]
    assert len(outer) == 2
    assert 1 not in outer
    assert {key: inner.kernel.ids()[0] for key, inner in dict(outer).items()} == {
        0: first.kernel.ids()[0], 3: held.maps["second"].kernel.ids()[0],
    }  # fmt: skip
    assert repr(outer[0]) == f"BpfMap('outer[id {first.kernel.ids()[0]}]', array)"
    outer[0][2] = 5
    assert first[2] == 5
    assert {key for key, _ in outer.entries()} == {0, 3}
    outer[3] = first
    assert outer[3][2] == 5
    with pytest.raises(KeyError):
        outer[7]


def test_arrays_with_empty_slots(opened):
    held = opened("xdp_maps").load()
    found = {
        name: dict(table)
        for name, table in held.maps.items()
        if table.spec.map_type in {MapType.DEVMAP, MapType.CPUMAP}
    }
    assert found
    assert not any(found.values())


def test_arrays_of_programs(opened):
    held = opened("tail_call").load()
    jumps = held.maps["jumps"]
    ids = {name: program.kernel.info().id for name, program in held.programs.items()}
    assert dict(jumps.entries()) == dict(jumps) == {0: ids["first"], 2: ids["second"]}
    assert (list(jumps), len(jumps)) == ([0, 2], 2)
    jumps[1] = held.programs["second"]
    assert jumps[1] == ids["second"]
    del jumps[0]
    assert 0 not in jumps


def test_variables_before_loading(opened):
    held = opened("values")
    assert (held.rodata.limit, held.rodata.label, held.bss.counter) == (100, "first", 0)
    held.rodata.limit = 5
    held.rodata["label"] = "b"
    held.data.initial = {"count": 2}
    held.load()
    assert held.programs["fill"].run(data=bytes(64)).retval == ord("b")
    (record,) = held.maps["records"].values()
    assert record.places[1].cpu == 5
    assert held.bss.counter == 2


@pytest.mark.parametrize("loaded", [False, True])
def test_variables_whose_names_clang_makes(opened, loaded):
    """A static variable of a function has the function's name in front, whatever it is."""
    held = opened("names")
    if loaded:
        held.load()
    name = "____hello.____fmt"
    assert held.rodata[name] == getattr(held.rodata, name) == "hello\n"
    assert (held.bss["hello.count"], held.bss["_memory"], held.bss["close"]) == (0, 0, 0)
    for each in held.bss:
        held.bss[each] = 7
    assert {each: held.bss[each] for each in held.bss} == dict.fromkeys(held.bss, 7)
    for nothing in ("____fmt", "__deepcopy__"):
        with pytest.raises(KeyError, match=f"no variable {nothing} in .rodata"):
            held.rodata[nothing]
        with pytest.raises(AttributeError, match=f"no variable {nothing} in .rodata"):
            getattr(held.rodata, nothing)


def test_variables_after_loading(opened):
    held = opened("values").load()
    fill = held.programs["fill"]
    assert held.data.hidden == -3
    fill.run(data=bytes(64))
    assert (held.data.hidden, held.bss.counter) == (-4, 7)
    held.bss.counter = 40
    held.data.hidden = 0
    fill.run(data=bytes(64))
    assert (held.data.hidden, held.bss.counter) == (-1, 47)
    assert held.rodata.limit == 100
    with pytest.raises(AttributeError, match="limit is constant once it is loaded"):
        held.rodata.limit = 1


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda o: o.data.countre, AttributeError, r"no variable countre in \.data"),
        (lambda o: o.bss.conter, AttributeError, r"in \.bss; did you mean 'counter'\?"),
        (lambda o: o.data.counter, AttributeError, r"counter in \.data: it is in \.bss"),
        (lambda o: o.kconfig, ObjectError, r"values\.el\.o: it has no variables in \.kconfig"),
        (lambda o: o.bss["nothing"], KeyError, "no variable nothing"),
        (lambda o: setattr(o.bss, "counter", -1), ValueMismatch, "counter: -1 is not from 0"),
        (lambda o: setattr(o.data, "initial", {"places": [{"cpu": -1}, {}]}), ValueMismatch,
         r"initial\.places\[0\]\.cpu: -1"),
        (lambda o: o.set_constant("limit", "many"), ObjectError,
         r"values\.el\.o: no value of limit: 'many' is no unsigned integer of 32 bits"),
        (lambda o: o.set_constant("limit", "-1"), ObjectError, "-1 is not from 0 to 4294967295"),
        (lambda o: o.set_constant("limits", "1"), ObjectError,
         r"it has no variable limits; did you mean 'limit'\?"),
        (lambda o: o.codec("nothing"), ObjectError, "it has no structure nothing"),
        (lambda o: o.program("full"), ObjectError, r"no program full; did you mean 'fill'\?"),
        (lambda o: o.maps.named("record"), ObjectError, r"no map record; did you mean 'records'\?"),
        (lambda o: o.maps["records"].kernel, ObjectError, "map records is not loaded"),
        (lambda o: o.programs["fill"].run(), ObjectError, "program fill is not loaded"),
        (lambda o: setattr(o.maps[".bss"], "max_entries", 5), ValueMismatch,
         r"map \.bss holds variables, and has one entry"),
    ],
)  # fmt: skip
def test_what_is_not_there(opened, act, error, message):
    with pytest.raises(error, match=message):
        act(opened("values"))


def test_constants_from_text(opened):
    held = opened("values")
    for name, text in (("limit", "0x10"), ("label", "12"), ("counter", "7")):
        held.set_constant(name, text)
    assert (held.rodata.limit, held.rodata.label, held.bss.counter) == (16, "12", 7)


def test_sizes_are_set_before_loading(opened):
    held = opened("values")
    held.maps["records"].max_entries = 100
    held.maps["ring"].max_entries = 70_000
    held.load()
    assert held.maps["records"].kernel.max_entries == 100
    assert held.maps["ring"].kernel.max_entries == 1 << 17
    with pytest.raises(ValueMismatch, match="map records is loaded: its size stays as it is"):
        held.maps["records"].max_entries = 5


def test_records_of_rings(opened):
    held = opened("values").load()
    ring, place = held.records("ring"), held.codec("struct place")
    held.programs["fill"].run(data=bytes(64))
    assert [place.decode(bytes(record)) for record in ring.drain()] == [{"cpu": 50, "name": "key"}]
    with pytest.raises(ObjectError, match="map records is no buffer of records"):
        held.records("records")


def test_options_of_the_kernel(opened):
    held = opened("kconfig").load()
    assert held.kconfig.LINUX_KERNEL_VERSION >> 16 >= 5
    assert held.kconfig.CONFIG_BPF_SYSCALL is True
    assert held.kconfig.CONFIG_NOT_THERE == 0


def test_all_that_a_map_holds_is_shown(opened):
    held = opened("values").load()
    held.maps["by_state"]["GONE"] = [1, 2, 3]
    held.maps["records"][PLACE] = {"text": "a\nb"}
    lines = list(dumped(held, json=False))
    assert lines[lines.index("by_state: 1 entry") + 1] == '  "GONE": [1, 2, 3]'
    assert 'text: "a\\nb"}' in lines[lines.index("records: 1 entry") + 1]
    assert "  hidden = -3" in lines
    rows = [json.loads(line) for line in dumped(held, json=True)]
    assert {"map": "by_state", "entries": [{"key": "GONE", "value": [1, 2, 3]}]} in rows
    assert {"section": ".bss", "variables": {"counter": 0}} in rows


def test_all_that_clang_names_is_shown(opened):
    lines = list(dumped(opened("names").load(), json=False))
    assert '  ____hello.____fmt = "hello\\n"' in lines
    assert {"  hello.count = 0", "  _memory = 0", "  close = 0"} <= set(lines)
