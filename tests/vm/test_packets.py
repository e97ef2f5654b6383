"""Programs that see packets: contexts, what helpers make of them, and runs that are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.isa.abi import MapType, ProgType
from pybpf.isa.assembler import assemble
from pybpf.script import MapRole, MapSpec
from pybpf.vm import testrun
from pybpf.vm.machine import Machine
from pybpf.vm.memory import AddressSpace
from pybpf.vm.net import checksums
from pybpf.vm.net.redirect import Redirect
from pybpf.vm.net.refusal import Refused
from pybpf.vm.packet import Packet
from pybpf.vm.world import World

CLS, XDP, FILTER = ProgType.SCHED_CLS, ProgType.XDP, ProgType.SOCKET_FILTER
IP = bytes.fromhex("45000030123440004006abcd0a0000010a000002")
ETHERNET = bytes.fromhex("000000000000021122334455")
PACKET = ETHERNET + b"\x08\x00" + IP + bytes(range(30))
TAGGED = ETHERNET + bytes.fromhex("810000640800") + IP
ODD = ETHERNET + b"\x00\x07\xff\xff" + bytes(40)


def run(kind, text, data=PACKET, ctx=b"", maps=(), machine=None):
    machine = Machine(maps, World(release=(6, 18))) if machine is None else machine
    found = testrun.run(machine, assemble(text), data, ctx, prog_type=kind)
    assert found.fault is None, found.fault
    return found


def signed(value):
    return value - (1 << 32) if value >= 1 << 31 else value


@pytest.mark.parametrize(
    ("kind", "field", "data", "value"),
    [
        (CLS, 0, PACKET, 64),
        (FILTER, 0, PACKET, 50),
        (CLS, 4, PACKET, 0),
        (CLS, 4, b"\x02" + PACKET[1:], 3),
        (CLS, 4, b"\x01" + PACKET[1:], 2),
        (CLS, 16, PACKET, 0x0008),
        (CLS, 16, TAGGED, 0x0081),
        (CLS, 16, ODD, 0x0100),
        (CLS, 16, ODD[:14] + bytes(40), 0x0400),
        (CLS, 20, TAGGED, 0),
        (CLS, 36, PACKET, 0),
        (CLS, 40, PACKET, 1),
        (XDP, 12, PACKET, 1),
        (XDP, 16, PACKET, 0),
    ],
)
def test_a_field_of_the_context(kind, field, data, value):
    assert run(kind, f"r0 = *(u32 *)(r1 + {field}); exit", data).r0 == value


@pytest.mark.parametrize(
    ("field", "given", "found"),
    [
        (8, 0x12345678, 0x12345678),
        (44, 0x12345678, 0x5678),
        (72, -1, 0xFFFF),
        (12, 7, 7),
        (12, 0xFFFF, 0),
        (32, 5, 5),
        (48, 9, 9),
        (64, 9, 9),
    ],
)
def test_a_field_that_programs_may_write(field, given, found):
    text = f"w2 = {given}; *(u32 *)(r1 + {field}) = r2; r0 = *(u32 *)(r1 + {field}); exit"

    assert run(CLS, text).r0 == found


def test_a_field_that_they_may_not():
    found = testrun.run(
        Machine(), assemble("r2 = 1; *(u32 *)(r1 + 0) = r2; exit"), PACKET, prog_type=CLS
    )

    assert str(found.fault) == (
        "1: *(u32 *)(r1 + 0) = r2: cannot store 4 bytes at offset 0 of the context: it is read-only"
    )
    assert (found.r0, found.retval, found.packet) == (None, 0, PACKET)


def test_what_a_run_gives_back():
    ctx = bytearray(192)
    ctx[8] = 4
    text = "r2 = *(u32 *)(r1 + 8); r2 += 1; *(u32 *)(r1 + 8) = r2; r0 = -1; exit"
    found = run(CLS, text, ctx=bytes(ctx))

    assert found.retval == 0xFFFFFFFF
    assert (found.ctx[8], found.ctx[40], found.ctx[160]) == (5, 1, 64)
    assert run(FILTER, "r0 = 0; exit").packet == bytes(14) + PACKET[14:]


def md(*words):
    return b"".join(word.to_bytes(4, "little") for word in words).ljust(24, b"\0")


@pytest.mark.parametrize(
    ("kind", "data", "ctx", "errno", "message"),
    [
        (XDP, b"x" * 13, b"", 22, "a packet of 13 bytes has no Ethernet header"),
        (CLS, b"x" * 13, b"", 22, "a packet of 13 bytes has no Ethernet header"),
        (CLS, PACKET[:33], b"", 22, "the packet ends within its IP header"),
        (XDP, b"x" * 3521, b"", 22, "a packet of more than 3520 bytes would be in fragments"),
        (
            XDP, PACKET, md(0, 63), 22,
            "data is the size of the metadata, data_end that of the packet",
        ),
        (XDP, PACKET, md(64, 64), 22, "a packet of 64 bytes has no Ethernet header"),
        (
            XDP, PACKET, md(3, 64), 22,
            "data is the size of the metadata, data_end that of the packet",
        ),
        (XDP, PACKET, md(0, 64, 0, 9), 19, "there is no device 9"),
        (XDP, PACKET, md(0, 64, 0, 1, 1), 22, "the device has one queue"),
        (XDP, PACKET, bytes(24) + b"x", 7, "the context is longer than a struct xdp_md"),
        (CLS, PACKET, b"\1" * 4, 22, "a field is given that a run cannot begin with"),
        (
            CLS, PACKET, bytes(160) + b"\1", 22,
            "wire_len is less than the length of the packet",
        ),
    ],
)  # fmt: skip
def test_a_run_that_is_refused(kind, data, ctx, errno, message):
    with pytest.raises(Refused) as caught:
        run(kind, "r0 = 0; exit", data, ctx)

    assert (str(caught.value), caught.value.errno) == (message, errno)


MOVE = "r6 = r1; r2 = {}; call {}; {}; exit"
LENGTH = "r2 = *(u32 *)(r6 + 0); r3 = *(u32 *)(r6 + 4); r3 -= r2; r0 = r3"
METADATA = "r2 = *(u32 *)(r6 + 8); r3 = *(u32 *)(r6 + 0); r3 -= r2; r0 = r3"


@pytest.mark.parametrize(
    ("helper", "by", "metadata", "result", "length"),
    [
        ("head", 10, 0, 0, 54), ("head", -10, 0, 0, 74), ("head", 50, 0, 0, 14),
        ("head", 51, 0, -22, 64), ("head", -216, 0, 0, 280), ("head", -217, 0, -22, 64),
        ("head", 8, 8, 0, 48), ("head", -209, 8, -22, 56), ("tail", -50, 0, 0, 14),
        ("tail", -51, 0, -22, 64), ("tail", 10, 0, 0, 74), ("tail", 3456, 0, 0, 3520),
        ("tail", 3457, 0, -22, 64), ("meta", -8, 0, 0, 64), ("meta", -3, 0, -13, 64),
        ("meta", 1, 0, -22, 64), ("meta", 8, 8, 0, 56), ("meta", -217, 0, -22, 64),
    ],
)  # fmt: skip
def test_moving_the_ends_of_a_frame(helper, by, metadata, result, length):
    ctx = md(metadata, 64) if metadata else b""
    name = f"bpf_xdp_adjust_{helper}"

    assert signed(run(XDP, MOVE.format(by, name, "r0 = r0"), ctx=ctx).retval) == result
    assert run(XDP, MOVE.format(by, name, LENGTH), ctx=ctx).r0 == length


def test_metadata_moves_with_the_head_and_comes_back():
    text = MOVE.format(-4, "bpf_xdp_adjust_head", METADATA)
    found = run(XDP, text, ctx=md(8, 64))

    assert found.r0 == 8
    assert found.packet == PACKET[:8] + PACKET[4:8] + PACKET[8:]
    assert found.ctx == md(8, 68)


HELPER = """
    r6 = r1
    *(u64 *)(r10 - 8) = 0x01020304
    {arguments}
    call {name}
    {after}
    exit
"""


def call(name, *arguments, after="", data=PACKET, kind=CLS, **kwargs):
    """Run a helper on r6 and arguments, of which "fp" is 8 bytes of the stack."""
    lines = ["r1 = r6"]
    for number, value in enumerate(arguments, start=2):
        lines += (
            [f"r{number} = r10", f"r{number} += -8"] if value == "fp" else [f"r{number} = {value}"]
        )
    text = HELPER.format(arguments="\n".join(lines), name=name, after=after)
    return run(kind, text, data, **kwargs)


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("bpf_skb_load_bytes", (0, "fp", 4), 0),
        ("bpf_skb_load_bytes", (61, "fp", 4), -14),
        ("bpf_skb_load_bytes_relative", (0, "fp", 4, 1), 0),
        ("bpf_skb_load_bytes_relative", (0, "fp", 4, 2), -14),
        ("bpf_skb_store_bytes", (60, "fp", 4, 0), 0),
        ("bpf_skb_store_bytes", (60, "fp", 4, 4), -22),
        ("bpf_skb_store_bytes", (61, "fp", 4, 0), -14),
        ("bpf_l3_csum_replace", (25, 0, 0, 2), -14),
        ("bpf_l3_csum_replace", (24, 1, 0, 0), -22),
        ("bpf_l3_csum_replace", (24, 1, 0, 3), -22),
        ("bpf_l4_csum_replace", (24, 1, 0, 0x200), -22),
        ("bpf_skb_change_tail", (13, 0), -22),
        ("bpf_skb_change_tail", (100, 0), 0),
        ("bpf_skb_change_tail", (16065, 0), -22),
        ("bpf_skb_change_tail", (64, 1), -22),
        ("bpf_skb_change_head", (20, 0), 0),
        ("bpf_skb_change_head", (20, 1), -22),
        ("bpf_skb_change_type", (3,), 0),
        ("bpf_skb_change_type", (4,), -22),
        ("bpf_skb_pull_data", (64,), 0),
        ("bpf_skb_pull_data", (65,), -12),
        ("bpf_skb_adjust_room", (4, 0, 0), 0),
        ("bpf_skb_adjust_room", (-40, 0, 0), -524),
        ("bpf_skb_adjust_room", (0x1000, 0, 0), -14),
        ("bpf_skb_adjust_room", (4, 2, 0), -524),
        ("bpf_skb_adjust_room", (-4, 0, 64), -22),
        ("bpf_skb_adjust_room", (4, 0, 128), -22),
        ("bpf_csum_level", (0,), -13),
        ("bpf_csum_update", (5,), -524),
        ("bpf_clone_redirect", (1, 0), 0),
        ("bpf_clone_redirect", (2, 0), -22),
    ],
)
def test_what_a_helper_returns(name, arguments, result):
    assert signed(call(name, *arguments).retval) == result


def test_what_helpers_make_of_a_packet():
    stored = call("bpf_skb_store_bytes", 20, "fp", 4, 0).packet
    assert stored == PACKET[:20] + bytes([4, 3, 2, 1]) + PACKET[24:]
    assert call("bpf_skb_change_tail", 70, 0).packet == PACKET + bytes(6)
    assert call("bpf_skb_change_head", 3, 0).packet == bytes(3) + PACKET
    assert call("bpf_skb_adjust_room", 4, 0, 0).packet == PACKET[:34] + bytes(4) + PACKET[34:]
    assert call("bpf_skb_adjust_room", -4, 1, 0).packet == PACKET[:14] + PACKET[18:]
    assert call("bpf_xdp_store_bytes", 0, "fp", 4, kind=XDP).packet == (
        bytes([4, 3, 2, 1]) + PACKET[4:]
    )


def test_a_packet_in_a_packet_is_not_put_in_another():
    again = "r1 = r6; r2 = 20; r3 = 0; r4 = 2; call bpf_skb_adjust_room"

    assert signed(call("bpf_skb_adjust_room", 20, 0, 2, after=again).retval) == -114


TAG = "r0 = *(u32 *)(r6 + {}); exit"


def test_the_first_tag_is_beside_the_packet_and_the_second_in_it():
    again = "r1 = r6; r2 = 0x81; r3 = 5; call bpf_skb_vlan_push;"
    one = call("bpf_skb_vlan_push", 0x81, 0x123)
    two = call("bpf_skb_vlan_push", 0x81, 0x123, after=again)

    assert one.packet == PACKET
    assert two.packet == PACKET[:12] + bytes.fromhex("81000123") + PACKET[12:]
    for field, value in ((0, 68), (16, 0x81), (20, 1), (24, 5), (28, 0x81)):
        after = again + TAG.format(field)
        assert call("bpf_skb_vlan_push", 0x81, 0x123, after=after).r0 == value


@pytest.mark.parametrize(("release", "left", "limit"), [((6, 1), 5, -13), ((6, 12), 0, 0)])
def test_releases_differ_in_tags_and_metadata(release, left, limit):
    push, pop = "r2 = 0x81; r3 = 5; call bpf_skb_vlan_push", "r1 = r6; call bpf_skb_vlan_pop"
    tag = f"r6 = r1; {push}; {pop}; r0 = *(u32 *)(r6 + 24); exit"
    assert run(CLS, tag, machine=Machine(world=World(release=release))).r0 == left
    meta = MOVE.format(-36, "bpf_xdp_adjust_meta", "r0 = r0")
    assert signed(run(XDP, meta, machine=Machine(world=World(release=release))).retval) == limit


def test_taking_tags_away():
    popped = call("bpf_skb_vlan_pop", data=TAGGED)

    assert popped.packet == TAGGED[:12] + TAGGED[16:]
    assert call("bpf_skb_vlan_pop", data=TAGGED, after=TAG.format(16)).r0 == 0x08
    assert call("bpf_skb_vlan_pop").packet == PACKET


@pytest.mark.parametrize("flags", [2, 4])
def test_a_checksum_follows_a_change(flags):
    """The checksum of the header is right before and after."""

    def whole(packet):
        header = bytearray(packet[14:34])
        return checksums.fold(checksums.partial(bytes(header)))

    good = bytearray(PACKET)
    good[24:26] = bytes(2)
    good[24:26] = whole(good).to_bytes(2, "little")
    assert whole(good) == 0
    text = f"""
        r6 = r1
        r0 = *(u32 *)(r1 + 76)
        r7 = *(u{flags * 8} *)(r0 + 30)
        r8 = 0x4321
        *(u{flags * 8} *)(r0 + 30) = r8
        r2 = 24
        r3 = r7
        r4 = r8
        r5 = {flags}
        call bpf_l3_csum_replace
        exit
    """
    assert whole(run(CLS, text, bytes(good)).packet) == 0


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_sums_do_not_depend_on_how_bytes_are_cut(a, b):
    a += bytes(-len(a) % 2)
    together = checksums.fold(checksums.partial(a + b))
    apart = checksums.fold(checksums.add(checksums.partial(a), checksums.partial(b)))

    # Nought has two forms.
    assert (together - apart) % 0xFFFF == 0


@pytest.mark.parametrize(
    ("release", "result"), [((6, 12), 0x01020304 + 5), ((6, 18), 0x0102 + 0x0304 + 5)]
)
def test_releases_differ_in_what_csum_diff_folds(release, result):
    text = """
        *(u64 *)(r10 - 8) = 0x01020304
        r1 = 0
        r2 = 0
        r3 = r10
        r3 += -8
        r4 = 4
        r5 = 5
        call bpf_csum_diff
        exit
    """
    assert run(CLS, text, machine=Machine(world=World(release=release))).r0 == result


@pytest.mark.parametrize(
    ("kind", "text", "result", "asked"),
    [
        (XDP, "r1 = 3; r2 = 0; call bpf_redirect; exit", 4, Redirect("redirect", 3)),
        (XDP, "r1 = 3; r2 = 1; call bpf_redirect; exit", 0, None),
        (CLS, "r1 = 3; r2 = 1; call bpf_redirect; exit", 7, Redirect("redirect", 3, 1)),
        (CLS, "r1 = 3; r2 = 2; call bpf_redirect; exit", 2, None),
        (CLS, "r1 = 3; r2 = 0; call bpf_redirect_peer; exit", 7, Redirect("redirect_peer", 3)),
        (
            XDP, "r1 = map:d ll; r2 = 1; r3 = 2; call bpf_redirect_map; exit", 4,
            Redirect("redirect_map", 1, 2, "d"),
        ),
        (XDP, "r1 = map:d ll; r2 = 2; r3 = 2; call bpf_redirect_map; exit", 2, None),
        (XDP, "r1 = map:d ll; r2 = 2; r3 = 64; call bpf_redirect_map; exit", 0, None),
    ],
)  # fmt: skip
def test_sending_a_packet_elsewhere(kind, text, result, asked):
    machine = Machine([MapSpec("d", MapRole.MAP, MapType.DEVMAP, 4, 4, 4)])
    machine.maps["d"].put((1).to_bytes(4, "little"), (7).to_bytes(4, "little"))

    assert run(kind, text, machine=machine).r0 == result
    assert machine.redirects == ([] if asked is None else [asked])


@pytest.mark.parametrize(
    ("flags", "result", "samples"),
    [
        (0, 0, [(0, b"\4\3")]),
        (3 << 32, 0, [(0, b"\4\3" + PACKET[:3])]),
        (65 << 32, -14, []),
        (1 << 52, -22, []),
    ],
)
def test_a_sample_with_bytes_of_the_packet(flags, result, samples):
    machine = Machine([MapSpec("p", MapRole.MAP, MapType.PERF_EVENT_ARRAY, 4, 4, 4)])
    text = f"""
        *(u64 *)(r10 - 8) = 0x0304
        r2 = map:p ll
        r3 = {flags} ll
        r4 = r10
        r4 += -8
        r5 = 2
        call bpf_perf_event_output
        exit
    """
    for kind in (XDP, CLS):
        assert signed(run(kind, text, machine=machine).retval) == result
        assert machine.maps["p"].drain() == samples


@pytest.mark.parametrize(
    ("kind", "offset", "value"),
    [
        (FILTER, 0, 0x45), (CLS, 0, 0), (CLS, 6, 0x02), (FILTER, -0x200000 + 6, 0x02),
        (FILTER, -0x100000, 0x45), (CLS, -0x100000, 0x45), (FILTER, 49, 29), (FILTER, 50, 0),
        (FILTER, -1, 0), (FILTER, -0x1000, 0),
    ],
)  # fmt: skip
def test_what_classic_packet_loads_find(kind, offset, value):
    assert run(kind, f"r6 = r1; r0 = *(u8 *)skb[{offset}]; exit").r0 == value


def test_a_program_looks_at_a_packet_by_its_pointers():
    text = """
        r2 = *(u32 *)(r1 + 0)
        r3 = *(u32 *)(r1 + 4)
        r0 = 0
        r4 = r2
        r4 += 14
        if r4 > r3 goto out
        r0 = *(u16 *)(r2 + 12)
        *(u8 *)(r2 + 0) = 9
    out:
        exit
    """
    found = run(XDP, text)
    assert (found.r0, found.packet[0]) == (0x0008, 9)
    beyond = testrun.run(
        Machine(), assemble("r2 = *(u32 *)(r1 + 0); r0 = *(u8 *)(r2 + 64); exit"), PACKET,
        prog_type=XDP,
    )  # fmt: skip
    assert str(beyond.fault) == (
        "1: r0 = *(u8 *)(r2 + 64): cannot load 1 byte at offset 64 of the packet:"
        " outside its 64 bytes"
    )


@given(st.lists(st.tuples(st.sampled_from("htm"), st.integers(-8, 8)), max_size=12))
def test_a_packet_keeps_what_its_ends_leave(moves):
    """Moving the ends is cutting a long line of bytes at other places."""
    packet = Packet(AddressSpace(), bytes(range(100, 140)), room=100, tail=100, metadata=8)
    for what, by in moves:
        length, meta = packet.length, packet.metadata
        if what == "h" and by < length:
            packet.move_head(by)
            assert (packet.length, packet.metadata) == (length - by, meta)
        elif what == "t" and length + by > 0:
            packet.move_tail(by)
            assert packet.length == length + by
        elif what == "m" and meta - by >= 0:
            before = packet.content()
            packet.move_metadata(by)
            assert (packet.content(), packet.metadata) == (before, meta - by)
        assert packet.end - packet.data == packet.length
        assert packet.data - packet.meta == packet.metadata
