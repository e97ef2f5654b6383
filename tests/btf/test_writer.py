import shutil
import struct
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.btf.writer import Writer, build
from pybpf.isa.abi import ProgType
from pybpf.isa.assembler import assemble
from pybpf.isa.insn import LineInfo, Program, insn
from pybpf.types import (
    CHAR,
    INT,
    LONG,
    S32,
    S64,
    U8,
    U64,
    VOID,
    Array,
    DataLoc,
    Field,
    Func,
    Int,
    Ptr,
    Struct,
    Typedef,
    struct_of,
)

KEY = struct_of("", [("0", INT), ("1", Array(CHAR, 16)), ("2", U64)])
BOOL = Int(1, signed=False, name="bool")
PID = Typedef("pid_t", INT)


def dump(blob, order="<"):
    """Read a blob by the book and print it as ``bpftool btf dump`` does."""
    magic, version, flags, size, type_off, type_len, str_off, str_len = struct.unpack_from(
        f"{order}HBB5I", blob
    )
    assert (magic, version, flags, size, type_off) == (0xEB9F, 1, 0, 24, 0)
    assert len(blob) == size + str_off + str_len
    strings = blob[size + str_off :]
    assert strings[:1] == strings[-1:] == b"\0"

    def text(offset):
        return strings[offset : strings.index(b"\0", offset)].decode() or "(anon)"

    words = list(struct.unpack_from(f"{order}{type_len // 4}I", blob, size))
    lines = []

    def take(count):
        taken = words[:count]
        del words[:count]
        return taken

    while words:
        name, info, ref = take(3)
        kind, vlen, flag = info >> 24 & 31, info & 0xFFFF, info >> 31
        start = f"[{len(lines) + 1}]"
        match kind:
            case 1:
                (encoded,) = take(1)
                encoding = {0: "(none)", 1: "SIGNED", 2: "CHAR", 4: "BOOL"}[encoded >> 24]
                lines.append(
                    f"{start} INT '{text(name)}' size={ref} bits_offset={encoded >> 16 & 255}"
                    f" nr_bits={encoded & 255} encoding={encoding}"
                )
            case 2 | 8:
                word = {2: "PTR", 8: "TYPEDEF"}[kind]
                lines.append(f"{start} {word} '{text(name)}' type_id={ref}")
            case 3:
                element, index, count = take(3)
                lines.append(
                    f"{start} ARRAY '(anon)' type_id={element} index_type_id={index}"
                    f" nr_elems={count}"
                )
            case 4:
                members = [take(3) for _ in range(vlen)]
                lines.append(
                    f"{start} STRUCT '{text(name)}' size={ref} vlen={vlen}"
                    + "".join(f"\n\t'{text(n)}' type_id={t} bits_offset={o}" for n, t, o in members)
                )
            case 7:
                lines.append(f"{start} FWD '{text(name)}' fwd_kind={('struct', 'union')[flag]}")
            case 12:
                linkage = ("static", "global", "extern")[vlen]
                lines.append(f"{start} FUNC '{text(name)}' type_id={ref} linkage={linkage}")
            case 13:
                params = [take(2) for _ in range(vlen)]
                lines.append(
                    f"{start} FUNC_PROTO '(anon)' ret_type_id={ref} vlen={vlen}"
                    + "".join(f"\n\t'{text(n)}' type_id={t}" for n, t in params)
                )
            case _:
                pytest.fail(f"kind {kind}")
    return "\n".join(lines)


def written(*types, order="little"):
    writer = Writer(order)
    for t in types:
        writer.type(t)
    return dump(writer.blob(), "<" if order == "little" else ">")


INT_LINE = "[1] INT 'int' size=4 bits_offset=0 nr_bits=32 encoding=SIGNED"


@pytest.mark.parametrize(
    ("t", "want"),
    [
        (VOID, ""),
        (INT, INT_LINE),
        (U64, "[1] INT 'u64' size=8 bits_offset=0 nr_bits=64 encoding=(none)"),
        (BOOL, "[1] INT 'bool' size=1 bits_offset=0 nr_bits=8 encoding=BOOL"),
        (
            Int(4, signed=False, name="enum x\udc80"),
            "[1] INT 'enum x?' size=4 bits_offset=0 nr_bits=32 encoding=(none)",
        ),
        (Ptr(VOID), "[1] PTR '(anon)' type_id=0"),
        (Ptr(Ptr(INT)), f"{INT_LINE}\n[2] PTR '(anon)' type_id=1\n[3] PTR '(anon)' type_id=2"),
        (PID, f"{INT_LINE}\n[2] TYPEDEF 'pid_t' type_id=1"),
        (Typedef("no name", PID), f"{INT_LINE}\n[2] TYPEDEF 'pid_t' type_id=1"),
        (
            Ptr(Typedef("struct page", VOID)),
            "[1] FWD 'page' fwd_kind=struct\n[2] PTR '(anon)' type_id=1",
        ),
        (Typedef("union bpf_attr", VOID), "[1] FWD 'bpf_attr' fwd_kind=union"),
        (Typedef("gate_desc", VOID), "[1] TYPEDEF 'gate_desc' type_id=0"),
        (Struct("page", (), 0, 1), "[1] FWD 'page' fwd_kind=struct"),
        (Struct("", (), 0, 1), "[1] STRUCT '(anon)' size=0 vlen=0"),
        (DataLoc(CHAR), "[1] INT 'u32' size=4 bits_offset=0 nr_bits=32 encoding=(none)"),
        (
            Array(CHAR, 16),
            (
                "[1] INT 'unsigned int' size=4 bits_offset=0 nr_bits=32 encoding=(none)\n"
                "[2] INT 'char' size=1 bits_offset=0 nr_bits=8 encoding=SIGNED\n"
                "[3] ARRAY '(anon)' type_id=2 index_type_id=1 nr_elems=16"
            ),
        ),
        (
            struct_of("s", [("a", INT), ("b", LONG), ("not a name", INT)]),
            (
                f"{INT_LINE}\n[2] INT 'long' size=8 bits_offset=0 nr_bits=64 encoding=SIGNED\n"
                "[3] STRUCT 's' size=24 vlen=3\n\t'a' type_id=1 bits_offset=0\n"
                "\t'b' type_id=2 bits_offset=64\n\t'not_a_name' type_id=1 bits_offset=128"
            ),
        ),
        (
            Func(INT, (("x", Ptr(INT)),)),
            (
                f"{INT_LINE}\n[2] PTR '(anon)' type_id=1\n"
                "[3] FUNC_PROTO '(anon)' ret_type_id=1 vlen=1\n\t'x' type_id=2"
            ),
        ),
    ],
)
def test_type(t, want):
    assert written(t) == want
    assert written(t, t) == want  # nothing twice
    assert written(t, order="big") == want


def test_types_that_differ_in_name_only_are_both_written():
    assert len(written(CHAR, Int(1, signed=True, name="s8")).splitlines()) == 2


def test_key_fields_get_names_that_c_allows():
    assert "'_0' type_id=1 bits_offset=0\n\t'_1' type_id=4 bits_offset=32" in written(KEY)


def lines_of(built):
    blob, records = built.btf, []
    size, str_off = 24, struct.unpack_from("<I", blob, 16)[0]
    strings = blob[size + str_off :]
    for slot, file, text, place in struct.iter_unpack("<4I", built.line_info):
        names = [strings[o : strings.index(b"\0", o)].decode() for o in (file, text)]
        records.append((slot, *names, place >> 10, place & 1023))
    return records


def functions_of(built):
    names = dump(built.btf).splitlines()
    funcs = {int(n[1 : n.index("]")]): n.split("'")[1] for n in names if "] FUNC '" in n}
    return [(slot, funcs[number]) for slot, number in struct.iter_unpack("<2I", built.func_info)]


def program(text, lines=(), prog_type=ProgType.TRACEPOINT):
    made = assemble(text)
    infos = tuple(LineInfo(i, "p.ply", 1 + i, 2 + i, f"line {i}") for i in lines)
    return Program(made.insns, made.labels, "begin", prog_type, lines=infos)


TWO_SLOTS = "r1 = 0x1122334455667788 ll\nr0 = 0\nexit"
CALLS = "call first\nr0 = 0\nexit\nfirst: call second\nexit\nsecond: r0 = 1\nexit"


def test_offsets_count_slots():
    built = build(program(TWO_SLOTS, lines=[0, 1, 2]))
    assert [slot for slot, *_ in lines_of(built)] == [0, 2, 3]


@pytest.mark.parametrize(
    ("text", "lines", "want"),
    [
        (TWO_SLOTS, [], []),
        (TWO_SLOTS, [0], [(0, "p.ply", "line 0", 1, 2)]),
        # The kernel wants one where the program starts,
        (TWO_SLOTS, [1], [(0, "p.ply", "line 1", 2, 3), (2, "p.ply", "line 1", 2, 3)]),
        # in ascending order, inside the program,
        (TWO_SLOTS, [1, 0, 3, 9], [(0, "p.ply", "line 0", 1, 2), (2, "p.ply", "line 1", 2, 3)]),
        # and where each subprogram starts.
        (
            CALLS,
            [0, 4],
            [
                (0, "p.ply", "line 0", 1, 2),
                (3, "p.ply", "line 0", 1, 2),
                (4, "p.ply", "line 4", 5, 6),
                (5, "p.ply", "line 4", 5, 6),
            ],
        ),
    ],
)
def test_lines(text, lines, want):
    assert lines_of(build(program(text, lines))) == want


def test_the_last_line_of_an_instruction_counts():
    lines = (LineInfo(0, "a", 1, 1, "first"), LineInfo(0, "a", 2, 1, "second"))
    assert lines_of(build(replace(program(TWO_SLOTS), lines=lines))) == [(0, "a", "second", 2, 1)]


def test_numbers_and_texts_are_clamped():
    line = LineInfo(0, "<\x1b[31m>", 1 << 30, 5000, '\tprint("\x07\n\udc80ä");' + "x" * 1000)
    ((_, file, text, number, column),) = lines_of(build(replace(program(TWO_SLOTS), lines=(line,))))
    assert (file, number, column) == ("<?[31m>", (1 << 22) - 1, 1023)
    assert text.startswith(' print("???ä");xxx')
    assert len(text) == 500


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("", "begin"),
        ("kprobe:vfs_*", "kprobe_vfs__"),
        ("1st", "_1st"),
        ("x" * 500, "x" * 127),
        ("9" * 500, "_" + "9" * 126),
        ("größe", "gr__e"),
    ],
)
def test_name(name, want):
    assert functions_of(build(program(TWO_SLOTS), name)) == [(0, want)]


def test_subprograms_are_functions():
    assert functions_of(build(program(CALLS))) == [(0, "begin"), (3, "first"), (5, "second")]


def test_without_any_name():
    bare = Program((insn("call_local", imm=1), insn("exit"), insn("mov64_imm"), insn("exit")))
    assert functions_of(build(bare)) == [(0, "prog"), (2, "sub_2")]


@pytest.mark.parametrize(
    ("prog_type", "want"),
    [
        (ProgType.TRACEPOINT, "PTR '(anon)' type_id=0"),
        (ProgType.KPROBE, "TYPEDEF 'bpf_user_pt_regs_t'"),
        (ProgType.PERF_EVENT, "FWD 'bpf_perf_event_data' fwd_kind=struct"),
        (ProgType.RAW_TRACEPOINT, "FWD 'bpf_raw_tracepoint_args' fwd_kind=struct"),
    ],
)
def test_context(prog_type, want):
    built = build(program(TWO_SLOTS, prog_type=prog_type))
    assert want in dump(built.btf)


def test_map_types():
    built = build(program(TWO_SLOTS), maps={"@": (KEY, U64), "m": (INT, PID)})
    lines = dump(built.btf).split("\n[")
    for number, start in zip(
        (*built.maps["@"], *built.maps["m"]),
        ("STRUCT '(anon)' size=32 vlen=3", "INT 'u64'", "INT 'int'", "TYPEDEF 'pid_t'"),
        strict=True,
    ):
        assert f"] {start}" in lines[number - 1]


ints = st.sampled_from([CHAR, U8, S32, INT, S64, U64, PID, BOOL])
types = st.recursive(
    ints,
    lambda inner: st.one_of(
        st.builds(Ptr, inner),
        st.builds(Array, inner, st.integers(0, 9)),
        st.builds(Typedef, st.sampled_from(["t", "struct s"]), inner),
        st.lists(inner, max_size=4).map(
            lambda fields: struct_of("s", [(f"f{i}", t) for i, t in enumerate(fields)])
        ),
    ),
    max_leaves=8,
)


@given(st.lists(types, max_size=4))
def test_every_reference_is_to_a_type_written_before(some):
    text = written(*some)
    for line in text.split("\n["):
        number = int(line.lstrip("[").split("]")[0]) if line else 1
        for word in line.replace("index_type_id", "type_id").split("type_id=")[1:]:
            assert 0 <= int(word.split()[0]) < number


def test_bpftool_reads_it_the_same_way(tmp_path):
    bpftool = shutil.which("bpftool", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if bpftool is None:
        pytest.skip("bpftool is not installed")
    built = build(program(CALLS, [0, 4], prog_type=ProgType.KPROBE), maps={"@": (KEY, U64)})
    path = tmp_path / "blob"
    path.write_bytes(built.btf)
    run = subprocess.run(
        [bpftool, "btf", "dump", "file", path], check=True, capture_output=True, text=True
    )
    assert run.stdout.strip() == dump(built.btf)


def test_a_field_may_be_placed_by_hand():
    packed = Struct("p", (Field("id", Array(U8, 3), 1), Field("x", INT, 5)), 9, 1)
    assert "'id' type_id=3 bits_offset=8" in written(packed)
    assert "size=9 vlen=2" in written(packed)
