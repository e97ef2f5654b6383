"""Types are dumped as C that a compiler takes, and that means what the BTF says."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from pybpf.btf.abi import Encoding, Kind
from pybpf.btf.builder import Builder
from pybpf.btf.cdump import dump
from pybpf.btf.reader import Btf
from pybpf.btf.source import read_btf
from pybpf.btf.types import (
    Array,
    Composite,
    Enum,
    Field,
    Float,
    Forward,
    Func,
    FuncProto,
    Int,
    Reference,
    Var,
)
from pybpf.errors import BtfError

KERNEL = Path("/sys/kernel/btf/vmlinux")
INT = Int("int", 4, Encoding.SIGNED, 32)
CHAR = Int("char", 1, Encoding.SIGNED, 8)
LONG = Int("long", 8, Encoding.SIGNED, 64)


def struct(name, size, *members, kind=Kind.STRUCT):
    fields = tuple(Field(*member) for member in members)
    return Composite(kind, name, size, fields, any(field.bit_size for field in fields))


def ref(kind, number, name=""):
    return Reference(Kind[kind], number, name)


def btf_of(*types):
    builder = Builder()
    for t in types:
        builder.add(t)
    return Btf(builder.blob())


def body(*types, roots=None):
    """Return what is dumped, without head and foot, and without empty lines."""
    text = dump(btf_of(*types), roots)
    _, _, text = text.partition("record)\n#endif\n")
    text, _, _ = text.partition("#ifndef BPF_NO")
    return [line for line in text.splitlines() if line]


@pytest.mark.parametrize(
    ("types", "want"),
    [
        pytest.param([INT, struct("s", 8, ("a", 1, 0), ("b", 1, 32))],
                     ["struct s {", "\tint a;", "\tint b;", "};"], id="plain"),
        pytest.param([INT, struct("s", 4, ("a", 1, 0, 3), ("b", 1, 8, 7))],
                     ["struct s {", "\tint a: 3;", "\tint: 5;", "\tint b: 7;", "};"],
                     id="bit fields and a gap"),
        pytest.param([Int("int", 4, Encoding.SIGNED, 5), struct("s", 4, ("old", 1, 8))],
                     ["struct s {", "\tint: 8;", "\tint old: 5;", "};"], id="old bit field"),
        pytest.param([INT, CHAR, struct("s", 5, ("a", 2, 0), ("b", 1, 8))],
                     ["struct s {", "\tchar a;", "\tint b;", "} __attribute__((packed));"],
                     id="packed"),
        pytest.param([INT, struct("s", 16, ("a", 1, 64))],
                     ["struct s {", "\tint: 32;", "\tint: 32;", "\tint a;", "\tint: 32;", "};"],
                     id="aligned"),
        pytest.param([CHAR, struct("s", 4096, ("a", 1, 32760))],
                     ["struct s {", "\tchar __pad0[4095];", "\tchar a;", "};"], id="far"),
        pytest.param([INT, struct("u", 64, ("a", 1, 0), kind=Kind.UNION)],
                     ["union u {", "\tint a;", "} __attribute__((aligned(64)));"], id="union"),
        pytest.param([struct("u", 8, kind=Kind.UNION)],
                     ["union u {", "\tchar __pad0[8];", "};"], id="union of nothing"),
        pytest.param([struct("s", 0)], ["struct s {};"], id="empty"),
        pytest.param([INT, struct("s", 4, ("a", 1, 16))],
                     ["struct s {", "\t/* no C has this layout: 4 bytes */", "\tint a;", "};"],
                     id="too small"),
        pytest.param([INT, Array(1, 1, 0), struct("s", 0, ("a", 2, 0))],
                     ["struct s {", "\tint a[0];", "};"], id="flexible"),
        pytest.param([INT, struct("", 4, ("a", 1, 0), kind=Kind.UNION), struct("s", 4, ("", 2, 0))],
                     ["struct s {", "\tunion {", "\t\tint a;", "\t};", "};"], id="nameless"),
        pytest.param([INT, struct("in", 4, ("a", 1, 0)), struct("s", 4, ("", 2, 0))],
                     ["struct in {", "\tint a;", "};",
                      "struct s {", "\tstruct {", "\t\tint a;", "\t};", "};"],
                     id="a nameless member with a type that has a name"),
        pytest.param([ref("PTR", 2), struct("s", 8, ("next", 1, 0))],
                     ["struct s {", "\tstruct s *next;", "};"], id="itself"),
        pytest.param([struct("a", 8, ("b", 2, 0)), ref("PTR", 3), struct("b", 8, ("a", 1, 0))],
                     ["struct b;", "struct a {", "\tstruct b *b;", "};",
                      "struct b {", "\tstruct a a;", "};"], id="each other"),
        pytest.param([ref("TYPEDEF", 2, "T"), struct("S", 8, ("p", 3, 0)), ref("PTR", 1)],
                     ["struct S;", "typedef struct S T;", "struct S {", "\tT *p;", "};"],
                     id="a typedef within what it names"),
        pytest.param([Enum(Kind.ENUM, "e", 4, signed=True, values=(("LOW", -1), ("ONE", 1)))],
                     ["enum e {", "\tLOW = -1,", "\tONE = 1,", "};"], id="enum"),
        pytest.param([Enum(Kind.ENUM64, "e", 8, signed=False, values=(("A", 1 << 63), ("B", 1)))],
                     ["enum e {", "\tA = 9223372036854775808ULL,", "\tB = 1,", "};"], id="enum64"),
        pytest.param([Enum(Kind.ENUM64, "e", 8, signed=True, values=(("A", -(1 << 63)),))],
                     ["enum e {", "\tA = -9223372036854775807LL - 1,", "};"], id="the least"),
        pytest.param([Enum(Kind.ENUM, "e", 1, signed=False, values=(("A", 1),))],
                     ["enum e {", "\tA = 1,", "} __attribute__((mode(QI)));"], id="a byte"),
        pytest.param([Enum(Kind.ENUM, "e", 4, signed=False, values=())], ["enum e;"],
                     id="enum of nothing"),
        pytest.param([Enum(Kind.ENUM, n, 4, signed=False, values=(("A", 1),)) for n in ("", "e")],
                     ["enum {", "\tA = 1,", "};", "enum e {", "\tA___2 = 1,", "};"], id="values"),
        pytest.param([struct("s", 0), struct("s", 0), Forward("s", union=True)],
                     ["struct s {};", "struct s___2 {};", "union s___3;"], id="tags"),
        pytest.param([struct("s", 0), Forward("s"), ref("PTR", 2), ref("TYPEDEF", 3, "p")],
                     ["struct s {};", "typedef struct s *p;"], id="forward and whole"),
        pytest.param([INT, struct("for", 4, ("do", 1, 0)), ref("TYPEDEF", 2, "a<b>")],
                     ["struct for_ {", "\tint do_;", "};", "typedef struct for_ a_b_;"],
                     id="no names of C"),
        pytest.param([Int("u8", 1, Encoding.NONE, 8), Float("f80", 10), ref("TYPEDEF", 1, "byte"),
                      ref("TYPEDEF", 2, "ext")],
                     ["typedef unsigned char u8;", "typedef u8 byte;",
                      "typedef struct { char bytes[10]; } f80;", "typedef f80 ext;"], id="numbers"),
        pytest.param([INT, FuncProto(1, (("x", 1), ("", 0))), ref("PTR", 2), Array(3, 1, 4),
                      struct("s", 32, ("calls", 4, 0))],
                     ["struct s {", "\tint (*calls[4])(int x, ...);", "};"], id="functions"),
        pytest.param([INT, ref("CONST", 1), ref("VOLATILE", 2), ref("PTR", 3), ref("CONST", 4),
                      ref("PTR", 5), ref("TYPEDEF", 6, "t")],
                     ["typedef const volatile int *const *t;"], id="qualifiers"),
        pytest.param([INT, ref("CONST", 1), Array(2, 1, 2), ref("CONST", 3),
                      struct("s", 8, ("a", 4, 0))],
                     ["struct s {", "\tconst int a[2];", "};"], id="const once"),
        pytest.param([INT, Array(1, 1, 2), Array(2, 1, 3), ref("PTR", 3), ref("RESTRICT", 4),
                      ref("TYPEDEF", 5, "t")],
                     ["typedef int (*restrict t)[3][2];"], id="pointer to arrays"),
        pytest.param([INT, ref("TYPE_TAG", 1, "user"), ref("PTR", 2), ref("TYPEDEF", 3, "t")],
                     ['typedef __attribute__((btf_type_tag("user"))) int *t;'], id="type tag"),
        pytest.param([FuncProto(0, ()), ref("PTR", 1), FuncProto(2, (("", 2),)), ref("PTR", 3),
                      ref("TYPEDEF", 4, "t")],
                     ["typedef void (*(*t)(void (*)(void)))(void);"], id="returns a function"),
    ],
)  # fmt: skip
def test_types(types, want):
    found = body(*types)
    assert found == want


def test_what_is_asked_for_and_what_it_needs():
    types = [INT, struct("s", 4, ("a", 1, 0)), ref("PTR", 2), FuncProto(1, (("p", 3),)),
             Func("f", 4, 1), Var("v", 2, 1), struct("other", 0)]  # fmt: skip
    assert body(*types, roots=[5]) == ["struct s;", "int f(struct s *p);"]
    whole = ["struct s {", "\tint a;", "};"]
    assert body(*types, roots=[6]) == [*whole, "extern struct s v;"]
    assert body(*types, roots=[5, 6]) == ["struct s;", "int f(struct s *p);", *whole,
                                          "extern struct s v;"]  # fmt: skip


@pytest.mark.parametrize(
    ("types", "reason"),
    [
        ([ref("PTR", 1), ref("TYPEDEF", 1, "t")], "type 1 holds itself"),
        ([ref("CONST", 1), ref("TYPEDEF", 1, "t")], "type 1 holds itself"),
        ([Array(1, 1, 2), ref("TYPEDEF", 1, "t")], "type 1 holds itself"),
        ([struct("", 4, ("a", 1, 0)), ref("TYPEDEF", 1, "t")], "type 1 holds itself"),
        ([struct("s", 4, ("", 1, 0))], "type 1 holds itself"),
        ([FuncProto(2, (("p", 2),)), ref("PTR", 1), ref("TYPEDEF", 2, "t")], "holds itself"),
        ([INT, Func("f", 1, 0), ref("TYPEDEF", 2, "t")],
         "type 2 is a FUNC, and none that a value has"),
        ([*(struct("", 4, ("a", n, 0), ("b", n, 0)) for n in range(2, 42)), INT,
          ref("TYPEDEF", 1, "t")],
         "its types are nested in each other so often that no file could hold it"),
        ([*(struct("", 4, ("a", n, 0)) for n in range(2, 5002)), INT, ref("TYPEDEF", 1, "t")],
         "is nested deeper than 64"),
    ],
)  # fmt: skip
def test_what_no_c_can_be(types, reason):
    with pytest.raises(BtfError) as caught:
        body(*types)
    assert reason in caught.value.reason


def test_structures_within_structures_however_deep():
    types = [*(struct(f"s{n}", 4, ("a", n, 0)) for n in range(2, 5002)), INT]
    assert body(*types)[0] == "struct s5001 {"


# --- what a compiler makes of it ------------------------------------------------------------------

SOURCE = """
struct bits { unsigned a:3, b:5; unsigned long long c:40; char d; int :0; int e:1; short f:9; };
struct pbits { char x; unsigned long a:33; int b:17; } __attribute__((packed));
struct far { char a; int b __attribute__((aligned(64))); char tail[3]; };
struct some { char a; struct { short s; long l; } __attribute__((packed)) in; int z; };
union wide { char c; long l[3]; } __attribute__((aligned(32)));
struct holder { char c; union wide w; char d; _Bool on:1; _Bool off:1; };
enum low { MINUS = -1, PLUS = 1 }; enum big { HUGE = 1ULL << 40 };
enum __attribute__((packed)) tiny { TINY };
struct list { struct list *next; int (*call)(struct list *, enum low, ...); };
struct mixed { enum low e:3; enum tiny t; enum big b; float f; double d; __int128 w; };
struct table { struct list lists[2][3]; void (*const (*p[4])[2])(int); char end[]; };
typedef struct { int x; union { long y; struct { int z:4; }; }; } anon_t;
struct odd { anon_t a; char c; } __attribute__((packed, aligned(2)));
struct outer { struct odd o[3]; struct pbits p; short s; };
struct bits a; struct pbits b; struct far c; struct some d; struct holder f; struct list g;
struct mixed h; struct table i; struct outer j; anon_t k;
"""


def compiled(text, folder, name, order="el"):
    if shutil.which("clang") is None:
        pytest.skip("clang is not installed")
    source, made = folder / f"{name}.c", folder / f"{name}.o"
    source.write_text(text)
    flags = ["-g", "-O0", "-w", "-target", f"bpf{order}", "-DBPF_NO_PRESERVE_ACCESS_INDEX"]
    run = ["clang", *flags, "-c", str(source), "-o", str(made)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return read_btf(str(made))


def placed(btf, number, start=0):
    """Yield names, places and sizes of all members in bits, those of nameless ones for theirs."""
    for name, member in btf.fields(number):
        inner = btf.skip(member.type)
        at = start + member.bit_offset
        if not name and btf.is_aggregate(inner):
            yield from placed(btf, inner, at)
        elif not name.startswith("__pad"):
            yield name, at, member.bit_size or 8 * (btf.size(member.type) or 0)


def shapes(btf, kinds=(Kind.STRUCT, Kind.UNION)):
    """Return size and members of what has a name and is the only one with it."""
    tags = Counter(map(btf.name, btf.numbers(Kind.STRUCT, Kind.UNION, Kind.ENUM, Kind.ENUM64)))
    return {
        (btf.kind(number), btf.name(number)): (btf.size(number), list(placed(btf, number)))
        for number in btf.numbers(*kinds)
        if btf.name(number) and tags[btf.name(number)] == 1
    }


@pytest.mark.parametrize("order", ["el", "eb"])
def test_a_compiler_makes_the_same_of_it(tmp_path, order):
    first = compiled(SOURCE, tmp_path, "first", order)
    uses = "".join(f"struct {name} use_{name};\n" for _, name in shapes(first, [Kind.STRUCT]))
    again = compiled(dump(first) + uses, tmp_path, "again", order)
    assert shapes(again) == shapes(first)
    assert len(shapes(first)) == 11
    values = ("MINUS", "PLUS", "HUGE", "TINY")
    assert list(map(again.enumerator, values)) == list(map(first.enumerator, values))


def test_the_layouts_of_the_kernel(tmp_path):
    """Sizes and places of all are asserted; bit fields, which have no place in C, are compared."""
    if not KERNEL.exists():
        pytest.skip("this kernel has no BTF")
    btf = Btf(KERNEL.read_bytes())
    every = shapes(btf)
    header = dump(btf)
    asserts, with_bits = [], []
    for (kind, tag), (size, members) in every.items():
        name = f"{kind.name.lower()} {tag}"
        tests = [f"sizeof({name}) == {size}"]
        number = btf.index.find(kind, tag)
        bits = set(bit_fields(btf, number))
        tests += (
            f"__builtin_offsetof({name}, {member}) == {at // 8}"
            for member, at, _ in members if member not in bits
        )  # fmt: skip
        asserts.append(f'_Static_assert({" && ".join(tests)}, "{name}");')
        if bits:
            with_bits.append((kind, tag))
    assert len(every) > 5000
    assert with_bits
    check = tmp_path / "check.c"
    check.write_text(header + "\n".join(asserts))
    compiler = shutil.which("clang")
    if compiler is None:
        pytest.skip("clang is not installed")
    flags = ["-fsyntax-only", "-w", "-target", "bpf", "-DBPF_NO_PRESERVE_ACCESS_INDEX"]
    done = subprocess.run([compiler, *flags, check], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    only = dump(btf, [btf.index.find(*same) for same in with_bits])
    uses = [f"{kind.name.lower()} {tag} use_{n}[0];\n" for n, (kind, tag) in enumerate(with_bits)]
    again = shapes(compiled(only + "".join(uses), tmp_path, "bits"))
    assert {same: again.get(same) for same in with_bits} == {s: every[s] for s in with_bits}


def bit_fields(btf, number):
    for name, member in btf.fields(number):
        inner = btf.skip(member.type)
        if not name and btf.is_aggregate(inner):
            yield from bit_fields(btf, inner)
        elif member.bit_size:
            yield name
