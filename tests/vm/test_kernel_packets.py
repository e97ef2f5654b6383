"""Hand-written programs that see packets, on this machine's kernel and in the VM: same results."""

import os

import pytest

from pybpf.errors import KernelError
from pybpf.isa.abi import ProgType
from pybpf.isa.assembler import assemble
from pybpf.vm import testrun
from pybpf.vm.machine import Machine
from pybpf.vm.net.refusal import Refused
from pybpf.vm.world import World

try:
    from pybpf.kernel import features, programs

    WHY_NOT = features.why_unavailable()
except (ImportError, KernelError) as error:
    WHY_NOT = error

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(WHY_NOT is not None, reason=f"no BPF here: {WHY_NOT}"),
]

RELEASE = tuple(map(int, os.uname().release.split("-")[0].split(".")[:2]))
CLS, XDP, FILTER = ProgType.SCHED_CLS, ProgType.XDP, ProgType.SOCKET_FILTER
ETHERNET = bytes.fromhex("000000000000021122334455")
IP = bytes.fromhex("45000030123440004006abcd0a0000010a000002")
TCP = bytes.fromhex("1f9000500000000100000000500210001234000000112233445566778899")
IPV6 = bytes.fromhex("6000000000140640") + bytes(range(32))
PACKETS = {
    "ip": ETHERNET + b"\x08\x00" + IP + TCP,
    "ipv6": ETHERNET + b"\x86\xdd" + IPV6 + TCP,
    "vlan": ETHERNET + bytes.fromhex("810000640800") + IP + TCP,
    "llc": ETHERNET + b"\x00\x07\xff\xff" + bytes(40),
    "group": b"\x01" + ETHERNET[1:] + b"\x00\x07" + bytes(42),
}
FIELDS = {
    "len": 0, "pkt_type": 4, "mark": 8, "queue_mapping": 12, "protocol": 16, "vlan_present": 20,
    "vlan_tci": 24, "vlan_proto": 28, "priority": 32, "ingress_ifindex": 36, "ifindex": 40,
    "tc_index": 44, "cb": 48, "hash": 68, "tc_classid": 72, "napi_id": 84, "wire_len": 160,
    "gso_segs": 164, "gso_size": 176,
}  # fmt: skip


def theirs(program, kind, data, ctx):
    try:
        with programs.load(bytes(program), kind) as loaded:
            found = loaded.test_run(ctx, data)
    except KernelError as refused:
        if "verifier" in str(refused) or refused.log:
            pytest.skip(f"this kernel does not load it: {refused}")
        return refused.errno
    return found.retval, found.data


def ours(program, kind, data, ctx):
    try:
        found = testrun.run(
            Machine(world=World(release=RELEASE)), program, data, ctx, prog_type=kind
        )
    except Refused as refused:
        return refused.errno
    assert found.fault is None, found.fault
    return found.retval, found.packet


def compare(kind, text, data=PACKETS["ip"], ctx=b""):
    program = assemble(text)

    assert ours(program, kind, data, ctx) == theirs(program, kind, data, ctx), text


@pytest.mark.parametrize("packet", PACKETS)
def test_fields(packet):
    data = PACKETS[packet]
    for place in FIELDS.values():
        compare(CLS, f"r0 = *(u32 *)(r1 + {place}); exit", data)
    for name in ("len", "pkt_type", "protocol", "ifindex", "mark"):
        compare(FILTER, f"r0 = *(u32 *)(r1 + {FIELDS[name]}); exit", data)


@pytest.mark.parametrize("packet", PACKETS)
def test_classic_loads(packet):
    for kind in (FILTER, CLS):
        for place in (0, 1, 13, 40, 60, -0x100000 + 9, -0x200000 + 12, -0x1000, -1):
            for size in ("u8", "u16", "u32"):
                text = f"r6 = r1; r0 = *({size} *)skb[{place}]; exit"
                compare(kind, text, PACKETS[packet])


@pytest.mark.parametrize(
    "name", ["mark", "queue_mapping", "priority", "tc_index", "cb", "tc_classid"]
)
def test_writing_fields(name):
    for value in (0x12345678, 0x1234, 0xFFFF, -1):
        place = FIELDS[name]
        text = f"w2 = {value}; *(u32 *)(r1 + {place}) = r2; r0 = *(u32 *)(r1 + {place}); exit"
        compare(CLS, text)


@pytest.mark.parametrize(
    ("place", "value"),
    [(8, 5), (32, 7), (36, 1), (36, 11), (40, 1), (48, 9), (160, 100), (160, 3), (164, 3),
     (164, 70000), (176, 10), (0, 3), (12, 4), (80, 40), (44, 4)],
)  # fmt: skip
def test_contexts_that_are_given(place, value):
    ctx = bytearray(192)
    ctx[place : place + 4] = value.to_bytes(4, "little")
    compare(CLS, "r0 = *(u32 *)(r1 + 160); exit", ctx=bytes(ctx))
    compare(CLS, "r2 = *(u32 *)(r1 + 8); r0 = *(u32 *)(r1 + 36); r0 += r2; exit", ctx=bytes(ctx))


CALL = """
    r6 = r1
    *(u64 *)(r10 - 8) = 0x01020304
    r1 = r6
    {arguments}
    call bpf_{name}
    {after}
    exit
"""
LENGTH = "r0 = *(u32 *)(r6 + 0)"
LOADED = "r0 = *(u32 *)(r10 - 8)"
FRAME = "r2 = *(u32 *)(r6 + {}); r0 = *(u32 *)(r6 + {}); r0 -= r2"


def call(kind, name, *arguments, after="", data=PACKETS["ip"], ctx=b""):
    lines = []
    for number, value in enumerate(arguments, start=2):
        stack = [f"r{number} = r10", f"r{number} += -8"]
        lines += stack if value == "fp" else [f"r{number} = {value}"]
    text = CALL.format(arguments="\n".join(lines), name=name, after=after)
    compare(kind, text, data, ctx)


@pytest.mark.parametrize("kind", [CLS, FILTER], ids=lambda kind: kind.name)
def test_loading_bytes(kind):
    for place in (0, 1, 30, 56, 60, 61, 64, -1):
        for after in ("", LOADED):
            call(kind, "skb_load_bytes", place, "fp", 4, after=after)
            for start in (0, 1, 2):
                call(kind, "skb_load_bytes_relative", place, "fp", 4, start, after=after)


def test_storing_bytes():
    for place in (0, 13, 60, 61, -1):
        for flags in range(5):
            call(CLS, "skb_store_bytes", place, "fp", 4, flags)


@pytest.mark.parametrize("flags", [0, 2, 4, 3, 0x10, 0x12, 0x24, 0x64, 0x20, 0x60, 0x100])
def test_checksums(flags):
    for place in (24, 25, 50, 62, 63):
        for old, new in ((0, 0x1234), (0x1234, 0x4321), (0, 0), (-0x21524111, 0x12345678)):
            call(CLS, "l3_csum_replace", place, old, new, flags)
            call(CLS, "l4_csum_replace", place, old, new, flags)


def test_differences_of_checksums():
    for old_size in (0, 4, 8):
        for new_size in (0, 4, 8):
            for seed in (0, 1, -1, 0x12345678):
                compare(CLS, f"""
                    *(u64 *)(r10 - 8) = 0x01020304
                    *(u64 *)(r10 - 16) = -7
                    r1 = r10
                    r1 += -16
                    r2 = {old_size}
                    r3 = r10
                    r3 += -8
                    r4 = {new_size}
                    r5 = {seed}
                    call bpf_csum_diff
                    exit
                """)  # fmt: skip


@pytest.mark.parametrize("after", ["", LENGTH])
def test_ends_of_an_skb(after):
    for size in (0, 13, 14, 20, 64, 65, 100, 16065):
        call(CLS, "skb_change_tail", size, 0, after=after)
        call(CLS, "skb_pull_data", size, after=after)
    for size in (0, 1, 14, 65, 100, 20000):
        call(CLS, "skb_change_head", size, 0, after=after)


@pytest.mark.parametrize("packet", ["ip", "ipv6", "vlan", "llc"])
def test_tags_and_rooms(packet):
    data = PACKETS[packet]
    again = "r1 = r6; r2 = 0x81; r3 = 5; call bpf_skb_vlan_push;"
    pop = "r1 = r6; call bpf_skb_vlan_pop;"
    for then in ("", again, again + pop, pop, again + pop + pop):
        for name in ("len", "vlan_present", "vlan_tci", "vlan_proto", "protocol"):
            after = then + f"r0 = *(u32 *)(r6 + {FIELDS[name]})"
            call(CLS, "skb_vlan_push", 0xA888, 0x123, after=after, data=data)
            call(CLS, "skb_vlan_pop", after=after, data=data)
    for change in (0, 4, -4, 20, -20, -40, 100, 5000):
        for mode in (0, 1, 2):
            for flags in (0, 1, 32, 64):
                call(CLS, "skb_adjust_room", change, mode, flags, data=data)
    call(CLS, "skb_ecn_set_ce", data=data)


@pytest.mark.parametrize("metadata", [0, 8])
@pytest.mark.parametrize("which", ["head", "meta", "tail"])
def test_ends_of_a_frame(which, metadata):
    data = PACKETS["ip"]
    ctx = b""
    if metadata:
        ctx = (metadata.to_bytes(4, "little") + len(data).to_bytes(4, "little")).ljust(24, b"\0")
    for by in (0, 1, 14, -1, -8, -100, -209, -216, -217, 30, 49, 50, 51, 60):
        for after in ("", FRAME.format(0, 4), FRAME.format(8, 0)):
            call(XDP, f"xdp_adjust_{which}", by, after=after, ctx=ctx)


def test_frames():
    data = PACKETS["ip"]
    for place in (0, 60, 61, 0xFFFF, 0x10000, -1):
        call(XDP, "xdp_load_bytes", place, "fp", 4, after=LOADED)
        call(XDP, "xdp_store_bytes", place, "fp", 4)
    for words in ((0, 64), (3, 64), (32, 64), (36, 64), (64, 64), (4, 64, 0, 1),
                  (4, 64, 0, 1, 5), (4, 64, 0, 0, 1), (0, 64, 4)):  # fmt: skip
        ctx = b"".join(word.to_bytes(4, "little") for word in words).ljust(24, b"\0")
        for after in (FRAME.format(0, 4), FRAME.format(8, 0), "r0 = *(u32 *)(r6 + 12)"):
            compare(XDP, f"r6 = r1; {after}; exit", data, ctx)
    for kind in (XDP, CLS, FILTER):
        for name, least in (("ip", 34), ("ipv6", 54), ("llc", 14)):
            for size in (13, 14, least - 1, least):
                compare(kind, "r0 = 2; exit", PACKETS[name][:size])
