import pytest

from pybpf.target.symbols import SymbolTable, hex_numbers, parse_kallsyms

KALLSYMS = """\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _text
ffffffff81000000 T _stext
ffffffff81000400 t type_show
ffffffff81000100 T vfs_read
ffffffff81000200 W weak_function
ffffffff81000300 D jiffies
ffffffff81000500 t vfs_write.part.0
ffffffff81000600 t type_show
ffffffffc0400000 t nft_do_chain\t[nf_tables]
ffffffffc0500000 t bpf_prog_6deef7357e7b4530_f\t[bpf]
"""
TABLE = parse_kallsyms(KALLSYMS)


@pytest.mark.parametrize(
    ("address", "want"),
    [
        (0, None),
        (0xFFFFFFFF80FFFFFF, None),
        (0xFFFFFFFF81000000, ("_text", 0)),  # the first of two
        (0xFFFFFFFF810000FF, ("_text", 0xFF)),
        (0xFFFFFFFF81000100, ("vfs_read", 0)),
        (0xFFFFFFFF81000105, ("vfs_read", 5)),
        (0xFFFFFFFF81000302, ("weak_function", 0x102)),  # data are not in the table
        (0xFFFFFFFF81000601, ("type_show", 1)),
        (0xFFFFFFFF81100600 - 1, ("type_show", 0xFFFFF)),
        (0xFFFFFFFF81100600, None),  # too far from any symbol
        (0xFFFFFFFFC0400010, ("nft_do_chain [nf_tables]", 0x10)),
        (0xFFFFFFFFC0500001, ("bpf_prog_6deef7357e7b4530_f [bpf]", 1)),
        (2**64 - 1, None),
    ],
)
def test_resolve(address, want):
    assert TABLE.resolve(address) == want


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("vfs_read", (0xFFFFFFFF81000100,)),
        ("type_show", (0xFFFFFFFF81000400, 0xFFFFFFFF81000600)),
        ("vfs_write.part.0", (0xFFFFFFFF81000500,)),
        ("nft_do_chain", (0xFFFFFFFFC0400000,)),
        ("nft_do_chain [nf_tables]", (0xFFFFFFFFC0400000,)),
        ("jiffies", ()),
        ("", ()),
    ],
)
def test_addresses(name, want):
    assert TABLE.addresses(name) == want


def test_a_name_in_modules_and_in_the_kernel():
    table = SymbolTable([(3, "f [b]"), (1, "f [a]"), (2, "f"), (4, "g"), (2, "h")])
    assert table.addresses("f") == (1, 2, 3)
    assert table.addresses("f [b]") == (3,)


def test_synonyms():
    assert list(TABLE.synonyms()) == [("_text", "_stext")]
    assert list(SymbolTable([(2, "b"), (1, "a"), (2, "c"), (3, "d"), (2, "a")]).synonyms()) == [
        ("b", "c", "a")
    ]


def test_functions_of_several_places_and_modules():
    table = SymbolTable([(1, "f"), (2, "g"), (3, "f"), (4, "f [a]"), (5, "g [a]"), (6, "h [b]")])
    found = {name: table.addresses(name) for name in ("f", "g", "h", "f [a]", "h [b]", "i")}
    assert found == {
        "f": (1, 3, 4),
        "g": (2, 5),
        "h": (6,),
        "f [a]": (4,),
        "h [b]": (6,),
        "i": (),
    }


@pytest.mark.parametrize(
    ("numbers", "want"),
    [
        ([], []),
        (["ffffffff81000000", "0000000000000001"], [0xFFFFFFFF81000000, 1]),
        (["c0008000", "2"], [0xC0008000, 2]),
    ],
)
def test_hex_numbers(numbers, want):
    assert hex_numbers(numbers) == want


def test_symbols_of_a_32_bit_kernel():
    table = parse_kallsyms("c0008100 t g\t[m]\nc0008000 T f\nc0008000 D d\n")
    assert list(table) == [(0xC0008000, "f"), (0xC0008100, "g [m]")]


def test_sorted_by_address():
    assert len(TABLE) == 9
    assert [a for a, _ in TABLE] == sorted(a for a, _ in TABLE)


def test_empty():
    assert SymbolTable().resolve(1) is None
    assert parse_kallsyms("").addresses("x") == ()
