import pytest

from pybpf.target.symbols import SymbolTable, parse_kallsyms

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


def test_sorted_by_address():
    assert len(TABLE) == 9
    assert [a for a, _ in TABLE] == sorted(a for a, _ in TABLE)


def test_empty():
    assert SymbolTable().resolve(1) is None
    assert parse_kallsyms("").addresses("x") == ()
