"""The context of programs that see an sk_buff: a packet and a struct __sk_buff in; both out.

Programs for link layer hooks (SCHED_CLS, SCHED_ACT) see the Ethernet header; for the others it is
in front of the packet, and comes back as zeros. Source: bpf_prog_test_run_skb in
net/bpf/test_run.c, and for what programs may write the is_valid_access functions and
bpf_convert_ctx_access in net/core/filter.c.
"""

from __future__ import annotations

from collections.abc import Mapping
from errno import E2BIG, EINVAL
from types import MappingProxyType
from typing import TYPE_CHECKING

from pybpf.isa.abi import ProgType
from pybpf.isa.semantics import byte_swap
from pybpf.vm.net.refusal import Refused
from pybpf.vm.packet import Packet

if TYPE_CHECKING:
    from pybpf.vm.memory import AddressSpace, Region
    from pybpf.vm.world import World

SIZE = 192
HEADER = 14
_HEADROOM = 64
_TAIL = 4096
ETH_P_IP, ETH_P_IPV6 = 0x0800, 0x86DD
ETH_P_8021Q, ETH_P_8021AD = 0x8100, 0x88A8
_ETH_P_802_3, _ETH_P_802_2 = 0x0001, 0x0004
_HOST, _MULTICAST, _OTHER = 0, 2, 3
NETWORK_HEADER: Mapping[int, int] = MappingProxyType({ETH_P_IP: 20, ETH_P_IPV6: 40})
_AF_INET, _AF_INET6 = 2, 10
_NO_QUEUE = 0xFFFF
_MAX_SEGMENTS = 65535
_TCP_CLOSE, _NO_QUEUE_KNOWN = 7, 0xFFFF_FFFF

# Where the fields of struct __sk_buff are, and how long; source: include/uapi/linux/bpf.h.
FIELDS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "len": (0, 4), "pkt_type": (4, 4), "mark": (8, 4), "queue_mapping": (12, 4),
        "protocol": (16, 4), "vlan_present": (20, 4), "vlan_tci": (24, 4), "vlan_proto": (28, 4),
        "priority": (32, 4), "ingress_ifindex": (36, 4), "ifindex": (40, 4), "tc_index": (44, 4),
        "cb": (48, 20), "hash": (68, 4), "tc_classid": (72, 4), "data": (76, 4),
        "data_end": (80, 4), "napi_id": (84, 4), "data_meta": (140, 4), "tstamp": (152, 8),
        "wire_len": (160, 4), "gso_segs": (164, 4), "sk": (168, 8), "gso_size": (176, 4),
        "tstamp_type": (180, 1), "hwtstamp": (184, 8),
    }
)  # fmt: skip
_GIVEN = frozenset(
    {
        "mark", "priority", "ingress_ifindex", "ifindex", "cb", "tstamp", "wire_len", "gso_segs",
        "gso_size", "hwtstamp",
    }
)  # fmt: skip
"""The fields that a given context may have."""
_SHORT = frozenset({"tc_index", "tc_classid", "queue_mapping"})
"""The fields that the kernel keeps in 16 bits."""
_TC = frozenset(
    {"mark", "tc_index", "priority", "cb", "tc_classid", "queue_mapping", "tstamp"}
)  # fmt: skip
_WRITABLE: Mapping[ProgType, frozenset[str]] = MappingProxyType(
    {
        ProgType.SOCKET_FILTER: frozenset({"cb"}),
        ProgType.SCHED_CLS: _TC,
        ProgType.SCHED_ACT: _TC,
        ProgType.CGROUP_SKB: frozenset({"mark", "priority", "cb", "tstamp"}),
        ProgType.LWT_XMIT: frozenset({"mark", "priority", "cb"}),
        ProgType.LWT_IN: frozenset({"mark", "priority", "cb"}),
        ProgType.LWT_OUT: frozenset({"mark", "priority", "cb"}),
        ProgType.SK_SKB: frozenset({"tc_index", "priority"}),
    }
)
_LINK = frozenset({ProgType.SCHED_CLS, ProgType.SCHED_ACT})
TYPES = frozenset({*_WRITABLE, ProgType.LWT_SEG6LOCAL})


class SkBuff:
    """An sk_buff: its packet, and the region that holds its struct __sk_buff.

    Raises Refused where the kernel would.
    """

    def __init__(
        self, memory: AddressSpace, world: World, prog_type: ProgType, data: bytes, ctx: bytes = b""
    ) -> None:
        if len(data) < HEADER:
            raise Refused(EINVAL, f"a packet of {len(data)} bytes has no Ethernet header")
        if len(data) - HEADER < NETWORK_HEADER.get(protocol_of(data), 0):
            raise Refused(EINVAL, "the packet ends within its IP header")
        self.link = prog_type in _LINK
        self.encapsulated = False
        self.packet = Packet(memory, data, room=_HEADROOM, tail=_TAIL)
        self.packet.network += HEADER
        self.region: Region = memory.add(bytearray(SIZE), "the context", writable=False)
        self.region.guard = self._store
        self._writable = _WRITABLE.get(prog_type, frozenset())
        self.protocol = protocol_of(data)
        self["pkt_type"] = _packet_type(data)
        self["ifindex"] = world.ifindex
        self["sk"] = memory.add(bytearray(self._socket()), "a socket", writable=False).address
        if not self.link:
            self.packet.move_head(HEADER)
        self._given = self._take(ctx) if ctx else b""
        self.moved()

    def __getitem__(self, name: str) -> int:
        offset, size = FIELDS[name]
        return int.from_bytes(self.region.data[offset : offset + size], "little")

    def __setitem__(self, name: str, value: int) -> None:
        offset, size = FIELDS[name]
        self.region.data[offset : offset + size] = value.to_bytes(size, "little")

    @property
    def protocol(self) -> int:
        """The protocol in the byte order of the machine, such as 0x0800."""
        return byte_swap(self["protocol"], 16)

    @protocol.setter
    def protocol(self, value: int) -> None:
        self["protocol"] = byte_swap(value, 16)

    @property
    def network(self) -> int:
        """Where the network header begins, counted from the first byte."""
        return self.packet.network - len(self.packet.head)

    def moved(self) -> None:
        """Tell the program where the packet is now."""
        packet = self.packet
        self["len"] = packet.length
        self["data"], self["data_end"], self["data_meta"] = packet.data, packet.end, packet.meta

    def output(self) -> bytes:
        """Return the packet as the kernel gives it back."""
        return (b"" if self.link else bytes(HEADER)) + self.packet.content()

    def context(self) -> bytes:
        """Return the struct __sk_buff that the kernel gives back; nothing where none was given."""
        given = bytearray(self._given)
        for name in _GIVEN if given else ():
            offset, size = FIELDS[name]
            given[offset : offset + size] = self.region.data[offset : offset + size]
        return bytes(given)

    def _take(self, ctx: bytes) -> bytes:
        given = ctx.ljust(SIZE, b"\0")
        if any(given[SIZE:]):
            raise Refused(E2BIG, "the context is longer than a struct __sk_buff")
        rest = bytearray(given[:SIZE])
        for name in _GIVEN:
            offset, size = FIELDS[name]
            rest[offset : offset + size] = bytes(size)
        if any(rest):
            raise Refused(EINVAL, "a field is given that a run cannot begin with")
        device = self["ifindex"]
        for name in _GIVEN:
            offset, size = FIELDS[name]
            self.region.data[offset : offset + size] = given[offset : offset + size]
        self["ifindex"] = self["ifindex"] or device
        if self["wire_len"] == 0:
            self["wire_len"] = self.packet.length
        elif self["wire_len"] < self.packet.length:
            raise Refused(EINVAL, "wire_len is less than the length of the packet")
        if self["gso_segs"] > _MAX_SEGMENTS:
            raise Refused(EINVAL, f"gso_segs is more than {_MAX_SEGMENTS}")
        return given[:SIZE]

    def _socket(self) -> bytes:
        """Return the struct bpf_sock that the packet belongs to."""
        words = [0] * 20
        data = self.packet.content()[HEADER:]
        if self.protocol == ETH_P_IP:
            words[1] = _AF_INET
            words[6], words[13] = _word(data, 12), _word(data, 16)
        elif self.protocol == ETH_P_IPV6:
            words[1] = _AF_INET6
            words[7:11] = [_word(data, at) for at in range(8, 24, 4)]
            words[14:18] = [_word(data, at) for at in range(24, 40, 4)]
        words[18], words[19] = _TCP_CLOSE, _NO_QUEUE_KNOWN
        return b"".join(word.to_bytes(4, "little") for word in words)

    def _store(self, offset: int, size: int, value: int) -> bool:
        """Do what the program may do to its context."""
        for name in self._writable:
            start, length = FIELDS[name]
            if not start <= offset <= start + length - size:
                continue
            if name == "queue_mapping" and value >= _NO_QUEUE:
                return True
            if name in _SHORT:
                value &= 0xFFFF
            self.region.data[offset : offset + size] = value.to_bytes(size, "little")
            return True
        return False


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def protocol_of(data: bytes) -> int:
    """Return the protocol of a packet that begins with its Ethernet header."""
    number = int.from_bytes(data[12:14], "big")
    if number >= 0x600:
        return number
    return _ETH_P_802_3 if data[14:16] == b"\xff\xff" else _ETH_P_802_2


def _packet_type(data: bytes) -> int:
    """Return who the packet is for: the loopback device's address is all zeros."""
    if not any(data[:6]):
        return _HOST
    return _MULTICAST if data[0] & 1 else _OTHER
