"""BTF is found in files of any kind; what is damaged is refused with its place."""

from __future__ import annotations

import struct

import pytest

from pybpf.btf.builder import Builder
from pybpf.btf.source import read_btf
from pybpf.btf.types import Forward
from pybpf.errors import ObjectError


def blob(*names, base=None, order="little"):
    builder = Builder(order, base)
    for name in names:
        builder.add(Forward(name))
    return builder.blob()


def elf(sections, *, wide=True, order="little", many=False):
    """Return an ELF file of some sections; with ``many``, section 0 tells how many."""
    mark = "<" if order == "little" else ">"
    names, table, body = b"\0", [], b""
    start = 64 if wide else 52
    count = len(sections) + 2

    def header(name, place, size, link=0):
        if wide:
            return struct.pack(mark + "IIQQQQIIQQ", name, 1, 0, 0, place, size, link, 0, 1, 0)
        return struct.pack(mark + "10I", name, 1, 0, 0, place, size, link, 0, 1, 0)

    for name, data in {**sections, ".shstrtab": None}.items():
        place = len(names)
        names += name.encode() + b"\0"
        written = names if data is None else data
        table.append(header(place, start + len(body), len(written)))
        body += written
    first = header(0, 0, count if many else 0, count - 1 if many else 0)
    numbers = (len(first), 0 if many else count, 0xFFFF if many else count - 1)
    ident = struct.pack("4sBBB9x", b"\x7fELF", 1 + wide, 1 if order == "little" else 2, 1)
    layout = "HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"
    head = struct.pack(
        mark + layout, 2, 40, 1, 0, 0, start + len(body), 0, start, 0, 0, *numbers
    )  # fmt: skip
    return ident + head + body + first + b"".join(table)


@pytest.fixture
def read(tmp_path):
    """Return a function: the bytes of a file in, its BTF out."""

    def opened(data, base=None):
        (tmp_path / "x").write_bytes(data)
        return read_btf(str(tmp_path / "x"), base)

    return opened


@pytest.fixture
def refused(read, tmp_path):
    """Return a function: the bytes of a file in, what is said of it without its name out."""

    def told(data):
        with pytest.raises(ObjectError) as caught:
            read(data)
        return str(caught.value).removeprefix(f"{tmp_path}/x:").lstrip()

    return told


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("many", [True, False])
def test_elf_files_of_all_kinds(read, order, wide, many):
    data = elf({".text": b"xyz", ".BTF": blob("a", order=order)}, wide=wide, order=order, many=many)
    assert read(data).name(1) == "a"


def test_raw_and_split(read):
    base = read(blob("a"))
    more = blob("b", base=base)
    assert [read(more, base).name(n) for n in (1, 2)] == ["a", "b"]
    own = read(elf({".BTF": more, ".BTF.base": blob("a")}))
    assert [own.name(n) for n in (1, 2)] == ["a", "b"]


def test_what_is_refused(refused):
    hint = "\n  hint: clang -g writes it, and the kernel's build with CONFIG_DEBUG_INFO_BTF"
    assert refused(elf({".text": b"x"})) == "it has no section .BTF" + hint
    assert refused(b"") == "offset 0x0: no BTF: its first two bytes are not 0xeb9f"
    assert refused(b"\x7fELF\2\1") == "offset 0x6: no ELF file: its header is cut off"
    damaged = blob("a")[:-1]
    assert refused(elf({".BTF": damaged})) == (
        "section .BTF offset 0x24: no BTF: its 3 bytes of names end behind all 38 of it"
    )
    whole = elf({".BTF": blob("a")})
    assert refused(whole[:-1]).startswith("offset 0x")
    assert "its table of 3 sections: 192 bytes from there on" in refused(whole[:-1])
    small = whole[:58] + struct.pack("<H", 8) + whole[60:]
    assert refused(small) == "offset 0x0: its section headers have 8 bytes"
