"""Listings show bytes beside lines, and every symbol."""

from __future__ import annotations

from pybpf.assembly.listing import listing
from pybpf.assembly.read import read


def test_a_listing():
    unit = read(
        """.map m, type=hash, key=4, value=4, entries=2
.map strange, type=99, key=4, value=4
.data
a: .asciz "123456789"
b: .word 1
.prog xdp
    r1 = m   ll
top: if r1 == 0 goto 1f
    call f
1:  goto top
.func f; exit
.extern bpf_rcu_read_lock, void (void)
.extern CONFIG_HZ, int, kconfig
""",
        "x.s",
    )

    assert "\n".join(listing(unit)) == (
        """
xdp: xdp
   slot  bytes                    line  text
      0  18 01 00 00 00 00 00 00     7  r1 = m ll  -> m
      1  00 00 00 00 00 00 00 00
                                        top:
      2  15 01 01 00 00 00 00 00     8  if r1 == 0 goto 1f
      3  85 10 00 00 ff ff ff ff     9  call f  -> f
                                        1:
      4  05 00 fd ff 00 00 00 00    10  goto top

.text: f
   slot  bytes                    line  text
      0  95 00 00 00 00 00 00 00    11  exit

.data: 14 bytes
   byte  bytes                    line  text
                                        a:
      0  31 32 33 34 35 36 37 38     4  .asciz "123456789"
      8  39 00
                                        b:
     10  01 00 00 00                 5  .word 1

symbols
  xdp                xdp program, 5 slots
  f                  static function, 1 slot
  m                  hash map, 2 entries
  strange            type 99 map, 0 entries
  a                  .data+0x0, 10 bytes
  b                  .data+0xa, 4 bytes
  bpf_rcu_read_lock  extern, kfunc
  CONFIG_HZ          kconfig"""
    ).lstrip("\n")


def test_a_listing_of_plain_instructions():
    assert list(listing(read("r0 = 1; exit", byteorder="big"))) == [
        "program",
        "   slot  bytes                    line  text",
        "      0  b7 00 00 00 00 00 00 01     1  r0 = 1",
        "      1  95 00 00 00 00 00 00 00     1  exit",
        "",
    ]


def test_much_data_is_cut():
    lines = list(listing(read(".data\nx: .zero 1 << 20")))

    assert len(lines) < 80
    assert "         … 1048576 bytes" in lines
