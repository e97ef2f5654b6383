import lzma

import pytest

from pybpf import corpus
from pybpf.corpus import CorpusError, CorpusMap, CorpusProgram, Fixup, Ksym, RunResult, Verdict
from pybpf.dataclass import replace

EXIT = "9500000000000000"
LOAD = "1801000000000000" + "0000000000000000"
INNER = CorpusMap(2, 4, 8, 1)
FULL = CorpusProgram(
    "a",
    6,
    bytes.fromhex(LOAD + LOAD + EXIT),
    37,
    1,
    (
        CorpusMap(12, 4, 4, 2, 0, INNER),
        CorpusMap(2, 4, 16, 1, 0, None, 1, 3, ((b"key.", b"v" * 16),)),
    ),
    (Fixup(0, "map_fd", 0), Fixup(2, "map_value", 1)),
    "MIT",
    b"btf",
    b"info",
    b"packet",
    b"",
    ((4, "bpf_rcu_read_lock"),),
)


@pytest.mark.parametrize("program", [FULL, CorpusProgram("1", 1, bytes.fromhex(EXIT))])
def test_a_program_is_read_as_it_was_written(program):
    assert corpus.parse_program(corpus.format_program(program)) == program


def test_the_least_that_a_line_may_hold():
    (program,) = corpus.read_programs(["\n", f'{{"id": 7, "prog_type": 1, "insns": "{EXIT}"}}\n'])
    assert program == CorpusProgram("7", 1, bytes.fromhex(EXIT))
    assert program.slots == 1


@pytest.mark.parametrize("name", ["licence", "license"])
def test_a_licence_in_either_spelling(name):
    line = f'{{"id": "a", "prog_type": 1, "insns": "{EXIT}", "{name}": "MIT", "asm": "exit"}}'
    assert corpus.parse_program(line).licence == "MIT"


def test_an_inner_map_may_be_a_map_before():
    maps = (
        '[{"type": 2, "key_size": 4, "value_size": 8, "max_entries": 1}, '
        '{"type": 12, "key_size": 4, "value_size": 4, "max_entries": 2, "inner_map": 0}]'
    )
    line = f'{{"id": "a", "prog_type": 1, "insns": "{EXIT}", "maps": {maps}}}'
    assert corpus.parse_program(line).maps[1].inner_map == INNER


def test_linking_puts_descriptors_in_and_says_what_they_are():
    code = FULL.linked([7, 0x1234])
    assert code.hex() == "1811000007000000" + "00" * 8 + "1821000034120000" + "00" * 8 + EXIT


def test_linking_leaves_other_instructions_what_they_are():
    program = CorpusProgram("a", 1, bytes.fromhex(EXIT), fixups=(Fixup(0, "map_fd", 0),))
    assert program.linked([3]).hex() == "9500000003000000"


@pytest.mark.parametrize("kfuncs", ["[1]", "[[0]]", '[["a", "b"]]', '[[9, "b"]]', "[[0, 1]]"])
def test_calls_of_the_kernel_have_a_slot_and_a_name(kfuncs):
    line = f'{{"id": "a", "prog_type": 1, "insns": "{EXIT}", "kfuncs": {kfuncs}}}'
    with pytest.raises(CorpusError, match=r"an entry of \"kfuncs\" is no \[slot, name\]"):
        corpus.parse_program(line)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 3: no JSON: "),
        ("[" * 100_000, "line 3: no JSON: "),
        ("[]", "line 3: the program is no object"),
        ("{}", 'line 3: "insns" is missing'),
        ('{"insns": ""}', 'line 3: "id" is missing'),
        ('{"insns": "", "id": []}', 'line 3: "id" is no text'),
        ('{"insns": "", "id": 1}', 'line 3: "prog_type" is missing'),
        ('{"insns": "95", "id": 1, "prog_type": 1}', 'line 3: "insns" ends within a slot: 1 bytes'),
        ('{"insns": "xy", "id": 1, "prog_type": 1}', 'line 3: "insns" is not in hexadecimal'),
        ('{"insns": 5, "id": 1, "prog_type": 1}', 'line 3: "insns" is not in hexadecimal'),
        ('{"insns": "", "id": 1, "prog_type": true}', 'line 3: "prog_type" is no number of 32'),
        ('{"insns": "", "id": 1, "prog_type": -1}', 'line 3: "prog_type" is no number of 32 bits'),
        ('{"insns": "", "id": 1, "maps": 1}', 'line 3: "maps" is no list'),
        ('{"insns": "", "id": 1, "maps": [1]}', 'line 3: an entry of "maps" is no object'),
        ('{"insns": "", "id": 1, "maps": [{}]}', 'line 3: "type" is missing'),
        (
            '{"insns": "", "id": 1, "maps": [{"type": 12, "inner_map": 0}]}',
            'line 3: "inner_map" 0 is no map before this one',
        ),
        (
            '{"insns": "", "id": 1, "prog_type": 1, "fixups": [{"insn": 0, "map": 0}]}',
            "line 3: a fixup of slot 0, of 0",
        ),
        (
            f'{{"insns": "{EXIT}", "id": 1, "prog_type": 1, "fixups": [{{"insn": 0, "map": 0}}]}}',
            "line 3: a fixup with map 0, of 0",
        ),
        (
            '{"id": 1, "prog_type": 1, "insns": "", "fixups": [{"insn": 0, "map": 0, "kind": ""}]}',
            "line 3: \"kind\" is map_fd or map_value, not ''",
        ),
        (
            '{"insns": "", "id": 1, "maps": [{"type": 1, "entries": [1]}]}',
            "line 3: an entry is no [key, value]",
        ),
        (
            '{"insns": "", "id": 1, "maps": [{"type": 1, "key_size": 4, "entries": [["00", ""]]}]}',
            "line 3: an entry's key has 1 bytes, not 4",
        ),
        (
            '{"insns": "", "id": 1, "maps": [{"type": 1, "entries": [["", "0000"]]}]}',
            "line 3: an entry's value has 2 bytes, not 0",
        ),
        (
            '{"insns": "", "id": 1, "maps": ['
            + '{"type": 12, "inner_map": ' * 400
            + "null"
            + "}" * 400
            + "]}",
            "line 3: maps are nested more than 8 deep",
        ),
        (
            '{"insns": "", "id": 1, "maps": [{"type": 1}, '
            + ", ".join(f'{{"type": 12, "inner_map": {n}}}' for n in range(3000))
            + "]}",
            "line 3: maps are nested more than 8 deep",
        ),
        ('{"insns": "", "id": NaN}', "line 3: no JSON: NaN is no value"),
        ('{"insns": "", "id": ' + "9" * 5000 + "}", "line 3: no JSON: a number has 5000 digits"),
        ("[" * 100_000, "line 3: no JSON: nested too deeply"),
    ],
)
def test_what_is_no_program_is_told_with_its_line(line, message):
    with pytest.raises(CorpusError) as caught:
        list(corpus.read_programs(["\n", "\n", line]))
    assert str(caught.value).startswith(message)
    assert caught.value.line == 3


def test_verdicts_and_results_are_read_as_they_were_written():
    for verdict in (
        Verdict("a", "accept", processed=7),
        Verdict("a", "reject", 3, "R0 !read_ok", 4, 13),
        Verdict("a", "unknown", message="limit"),
    ):
        assert corpus.parse_verdict(corpus.format_verdict(verdict)) == verdict
    for result in (
        RunResult("a", 7, b"data", (((b"k", b"v"),), ())),
        RunResult("a", errno=22),
    ):
        assert corpus.parse_run(corpus.format_run(result)) == result
    with pytest.raises(CorpusError, match="accept, reject or unknown, not 'maybe'"):
        corpus.parse_verdict('{"id": "a", "verdict": "maybe"}')


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.xz"])
def test_files_may_be_compressed(tmp_path, name):
    text = corpus.format_program(FULL) + "\n"
    path = tmp_path / name
    path.write_bytes(lzma.compress(text.encode()) if name.endswith("xz") else text.encode())
    assert list(corpus.read_file(str(path))) == [FULL]


def test_what_a_program_names_of_the_kernel_is_kept():
    named = CorpusProgram(
        "a", 26, bytes.fromhex(LOAD + EXIT), 23, attach_to="sched_switch",
        ksyms=(Ksym(0, "runqueues"),),
    )  # fmt: skip
    weak = replace(named, ksyms=(Ksym(0, "_stext", typed=False, weak=True),), attach_to="")

    assert corpus.parse_program(corpus.format_program(named)) == named
    assert corpus.parse_program(corpus.format_program(weak)) == weak


@pytest.mark.parametrize(
    ("ksyms", "reason"),
    [
        ("[1]", 'an entry of "ksyms" is no object'),
        ('[{"insn": 2, "name": "a"}]', "a ksym of slot 2, where no lddw is"),
        ('[{"insn": 9, "name": "a"}]', "a ksym of slot 9, where no lddw is"),
        ('[{"insn": 0, "name": 1}]', '"name" is no text'),
    ],
)
def test_names_of_the_kernel_stand_at_what_loads_them(ksyms, reason):
    line = f'{{"id": "a", "prog_type": 1, "insns": "{LOAD}{EXIT}", "ksyms": {ksyms}}}'
    with pytest.raises(CorpusError, match=f"line 1: {reason}"):
        corpus.parse_program(line)
