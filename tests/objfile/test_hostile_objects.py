"""Objects made to take all time or memory: an ObjectError, or what they hold, soon."""

from __future__ import annotations

import struct

import pytest

from pybpf.errors import ObjectError
from pybpf.objfile import code
from pybpf.objfile import object as module
from pybpf.objfile.corpus import corpus_programs
from pybpf.objfile.object import Object

MOV, EXIT = bytes.fromhex("b700000000000000"), bytes.fromhex("9500000000000000")
NAMES = b"\0f\0"
PROGBITS, SYMTAB, STRTAB, NOBITS, REL = 1, 2, 3, 8, 9
DATA, CODE = 3, 6


def symbol(name: int, info: int, section: int, value: int = 0, size: int = 0) -> bytes:
    return struct.pack("<IBBHQQ", name, info, 0, section, value, size)


def relocation(offset: int, number: int, kind: int) -> bytes:
    return struct.pack("<QQ", offset, number << 32 | kind)


class Maker:
    """An object file, section by section; equal data is written once, so that sections overlap."""

    def __init__(self, program: bytes = MOV + EXIT, symbols: bytes = b"", names: bytes = NAMES):
        self.sections: list[tuple[bytes, int, int, bytes, int, int, int]] = []
        self.add(b"", 0, 0, b"")
        self.add(b"xdp", PROGBITS, CODE, program)
        self.add(b".strtab", STRTAB, 0, names)
        main = b"" if symbols else symbol(1, 0x12, 1, 0, len(program))
        self.add(b".symtab", SYMTAB, 0, symbol(0, 0, 0) + main + symbols, link=2)

    def add(
        self, name: bytes, kind: int, flags: int, data: bytes, *, link: int = 0, info: int = 0,
        size: int | None = None,
    ) -> Maker:  # fmt: skip
        row = (name, kind, flags, data, link, info, len(data) if size is None else size)
        self.sections.append(row)
        return self

    def parse(self) -> Object:
        self.add(
            b".shstrtab", STRTAB, 0, b"\0".join(s[0] for s in self.sections) + b"\0.shstrtab\0"
        )
        names, body, known, table = 0, bytearray(64), {}, b""
        for name, kind, flags, data, link, info, size in self.sections:
            place = known.setdefault(data, len(body))
            body += data if place == len(body) else b""
            table += struct.pack(
                "<IIQQQQIIQQ", names, kind, flags, 0, place, size, link, info, 8, 0
            )
            names += len(name) + 1
        count = len(self.sections)
        body[:64] = struct.pack(
            "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 1, 247, 1, 0, 0, len(body), 0, 64, 0, 0,
            64, count, count - 1,
        )  # fmt: skip
        return Object.parse(bytes(body) + table, "x.o")

    def refused(self) -> str:
        with pytest.raises(ObjectError) as caught:
            self.parse()
        return str(caught.value)


def test_the_maker_makes_objects():
    found = Maker().parse()
    assert [p.name for p in found.programs] == ["f"]
    assert [p.insns for _, p in corpus_programs(found)] == [MOV + EXIT]


def test_sections_that_overlap():
    made, data = Maker(), bytes(1 << 20)
    for _ in range(1000):
        made.add(b".data.x", PROGBITS, DATA, data)
    assert made.refused().startswith("x.o: its sections overlap, or end behind it: 10485")


def test_names_that_overlap():
    names = (b"\0" + b"a" * 4000) * 10 + b"\0"
    made = Maker(symbols=b"".join(symbol(n, 1, 1) for n in range(40_000)), names=names)
    assert made.refused().endswith("the names of symbols have over 64 MiB together")


@pytest.mark.parametrize("size", [1 << 20, 1 << 30, 1 << 63])
def test_zeros(size):
    made = Maker()
    for _ in range(1000):
        made.add(b".bss.x", NOBITS, DATA, b"", size=size)
    reason = f"x.o: section .bss.x: its {size} bytes are too many: 256 MiB in all"
    assert made.refused() == reason


def test_functions_that_overlap(monkeypatch):
    monkeypatch.setattr(code, "_ALL_SLOTS_AT_MOST", 10_000)
    program = MOV * 999 + EXIT
    made = Maker(program, symbol(1, 0x12, 1, 0, len(program)) * 11)
    assert made.refused() == "x.o: its programs have more than 10000 instructions together"


def test_many_functions_relocations_and_equal_names():
    """What took time that grew with the square of it: 20,000 of each."""
    count = 20_000
    call = struct.pack("<BBhi", 0x85, 0x10, 0, -1)
    program = call * count + EXIT
    symbols = symbol(1, 0x12, 1, 0, len(program)) + b"".join(
        symbol(1, 0x12, 4, 16 * n, 16) for n in range(count)
    )
    made = Maker(program, symbols).add(b".text", PROGBITS, CODE, (MOV + EXIT) * count)
    rows = b"".join(relocation(8 * n, 2 + n, 10) for n in range(count))
    made.add(b".relxdp", REL, 0, rows, link=3, info=1)
    (linked,) = made.parse().programs
    assert len(linked.functions) == count + 1
    assert {"f.1", "f.19999"} < set(linked.program.labels)


def test_more_functions_than_any_compiler_makes():
    count = 30_001
    symbols = b"".join(symbol(1, 0x12, 1, 0, 16) for _ in range(count - 1))
    assert Maker(symbols=symbol(1, 0x12, 1, 0, 16) + symbols).refused() == (
        "x.o: 30001 functions are more than 30000"
    )


# --- types ----------------------------------------------------------------------------------------


def kind(name: int, number: int, vlen: int, word: int, rest: bytes = b"") -> bytes:
    return struct.pack("<III", name, number << 24 | vlen, word) + rest


def btf(types: bytes, texts: bytes) -> bytes:
    size = len(types)
    return struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, size, size, len(texts)) + types + texts


def option(types: bytes, count: int, outer: int) -> Maker:
    """Return the maker of an object with a kernel option of type ``outer`` of ``count``."""
    texts = b"\0f\0.kconfig\0"
    types += kind(1, 14, 0, outer, struct.pack("<I", 2))
    types += kind(3, 15, 1, 8, struct.pack("<III", count + 1, 0, 8))
    symbols = symbol(1, 0x12, 1, 0, 16) + symbol(1, 0x10, 0)
    return Maker(symbols=symbols).add(b".BTF", PROGBITS, 0, btf(types, texts))


INT = kind(1, 1, 0, 4, struct.pack("<I", 32))


def members(*numbers: int) -> bytes:
    rest = b"".join(struct.pack("<III", 1, number, 0) for number in numbers)
    return kind(0, 4, len(numbers), 8, rest)


def array(element: int, count: int) -> bytes:
    return kind(0, 3, 0, 0, struct.pack("<III", element, element, count))


@pytest.mark.parametrize(
    ("types", "count", "outer"),
    [
        pytest.param(members(1, 1), 1, 1, id="a structure within itself"),
        pytest.param(array(1, 1) + members(1), 2, 2, id="with an array of itself"),
        pytest.param(
            b"".join(members(n, n) for n in range(2, 62)) + INT, 61, 1, id="2 ** 60 ways to one"
        ),
        pytest.param(b"".join(members(n) for n in range(2, 5002)) + INT, 5001, 1, id="5,000 deep"),
    ],
)
def test_types_of_options(types, count, outer):
    (found,) = option(types, count, outer).parse().externs
    assert (found.offset, found.size) == (0, 8)


def test_an_option_of_eight_gigabytes():
    types = INT + array(1, (1 << 31) - 1)
    reason = "x.o: section .kconfig: f has 8589934588 bytes, more than any option"
    assert option(types, 2, 2).refused() == reason


def test_texts_that_overlap():
    texts = b"\0" + b"a" * 1_000_000 + b"\0"
    rows = b"".join(struct.pack("<IIII", 0, 1, 1 + n, 0) for n in range(20_000))
    lines = struct.pack("<III", 16, 0, 20_000) + rows
    head = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, 0, 0, len(lines))
    made = Maker().add(b".BTF", PROGBITS, 0, btf(INT, texts))
    made.add(b".BTF.ext", PROGBITS, 0, head + lines)
    reason = "x.o: section .BTF.ext: no .BTF.ext: its texts have over 64 MiB"
    assert made.refused() == reason


def test_a_map_with_a_field_twice():
    texts = b"\0m\0.maps\0type\0"
    types = (
        kind(0, 4, 2, 8, struct.pack("<IIIIII", 9, 2, 0, 9, 2, 64))
        + kind(0, 2, 0, 3)
        + kind(0, 3, 0, 0, struct.pack("<III", 2, 2, 1))
        + kind(1, 14, 0, 1, struct.pack("<I", 1))
        + kind(3, 15, 1, 8, struct.pack("<III", 4, 0, 8))
    )
    made = Maker(symbols=symbol(1, 0x12, 1, 0, 16) + symbol(3, 0x11, 4), names=b"\0f\0m\0")
    made.add(b".maps", PROGBITS, DATA, bytes(8)).add(b".BTF", PROGBITS, 0, btf(types, texts))
    assert made.refused() == "x.o: section .maps: map m: it has two fields type"


def test_a_variable_behind_four_gigabytes():
    texts = b"\0f\0.data\0"
    types = INT + kind(1, 14, 0, 1, struct.pack("<I", 1))
    types += kind(3, 15, 1, 8, struct.pack("<III", 2, 0, 8))
    made = Maker(symbols=symbol(1, 0x12, 1, 0, 16) + symbol(1, 0x11, 4, 1 << 32))
    made.add(b".data", PROGBITS, DATA, bytes(8)).add(b".BTF", PROGBITS, 0, btf(types, texts))
    with pytest.raises(
        ObjectError, match=r"section \.BTF .*4294967304, a size or a place, has more"
    ):
        list(corpus_programs(made.parse()))


def test_files_without_end(monkeypatch):
    monkeypatch.setattr(module, "_SIZE_AT_MOST", 1 << 20)
    with pytest.raises(ObjectError, match="/dev/zero: over 1 MiB are more than any object has"):
        Object.open("/dev/zero")
