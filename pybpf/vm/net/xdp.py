"""The context of an XDP program: a packet and, maybe, a struct xdp_md in; both out.

     0            4            8            12                  16                20
    +------------+------------+------------+-------------------+-----------------+----------------+
    |    data    |  data_end  | data_meta  |  ingress_ifindex  | rx_queue_index  | egress_ifindex |
    +------------+------------+------------+-------------------+-----------------+----------------+

Source: bpf_prog_test_run_xdp in net/bpf/test_run.c.
"""

from __future__ import annotations

from errno import E2BIG, EACCES, EINVAL, ENODEV
from typing import TYPE_CHECKING

from pybpf.vm.net.refusal import Refused
from pybpf.vm.packet import Packet

if TYPE_CHECKING:
    from pybpf.vm.memory import AddressSpace, Region
    from pybpf.vm.world import World

SIZE = 24
HEADER = 14
"""The bytes of an Ethernet header, which a packet never gets shorter than."""
FRAME = 40
"""What the kernel keeps at the front of the headroom: sizeof(struct xdp_frame)."""
_HEADROOM = 256
_TAILROOM = 320
_PAGE = 4096
_METADATA_LIMIT, _OLD_METADATA_LIMIT = 255, 32
_LONG_METADATA = (6, 8)
"""The release from which on metadata may be longer."""


class XdpBuff:
    """An xdp_buff: its packet, and the region that holds its struct xdp_md.

    ``ctx`` is what BPF_PROG_TEST_RUN takes: ``data`` is the size of the metadata the packet begins
    with, ``data_end`` that of all. Raises Refused where the kernel would.
    """

    def __init__(self, memory: AddressSpace, world: World, data: bytes, ctx: bytes = b"") -> None:
        self._release = world.release
        given = _words(ctx)
        metadata = given[0] if ctx else 0
        limit = _PAGE - (_HEADROOM - metadata) - _TAILROOM
        if len(data) < metadata + HEADER:
            raise Refused(EINVAL, f"a packet of {len(data)} bytes has no Ethernet header")
        if len(data) > limit:
            raise Refused(EINVAL, f"a packet of more than {limit} bytes would be in fragments")
        if ctx:
            _check(given, len(data), world)
        room = _HEADROOM - metadata
        self.packet = Packet(memory, data, room=room, tail=limit - len(data), metadata=metadata)
        device = given[3] if ctx and given[3] else world.ifindex
        self._words = [0, 0, 0, device, given[4] if ctx else 0, 0]
        self._given = bool(ctx), given
        self.region: Region = memory.add(bytearray(SIZE), "the context", writable=False)
        self.moved()

    def moved(self) -> None:
        """Tell the program where the packet is now."""
        packet = self.packet
        self._words[:3] = packet.data, packet.end, packet.meta
        self.region.data[:] = b"".join(word.to_bytes(4, "little") for word in self._words)

    def output(self) -> bytes:
        """Return the packet as the kernel gives it back: metadata included."""
        return bytes(self.packet.region.data)

    def context(self) -> bytes:
        """Return the struct xdp_md that the kernel gives back; nothing where none was given."""
        present, given = self._given
        if not present:
            return b""
        packet = self.packet
        words = [packet.metadata, packet.metadata + packet.length, *given[2:]]
        return b"".join(word.to_bytes(4, "little") for word in words)

    def move_head(self, offset: int) -> int:
        """bpf_xdp_adjust_head."""
        packet = self.packet
        room = len(packet.head) - FRAME
        if offset < -room or offset > packet.length - HEADER:
            return -EINVAL
        packet.move_head(offset)
        self.moved()
        return 0

    def move_metadata(self, offset: int) -> int:
        """bpf_xdp_adjust_meta."""
        packet = self.packet
        size = packet.metadata - offset
        if offset < FRAME - len(packet.head) or size < 0:
            return -EINVAL
        if invalid_metadata(size, self._release):
            return -EACCES
        packet.move_metadata(offset)
        self.moved()
        return 0

    def move_tail(self, offset: int) -> int:
        """bpf_xdp_adjust_tail."""
        packet = self.packet
        if offset > packet.tail or packet.length + offset < HEADER:
            return -EINVAL
        packet.move_tail(offset)
        self.moved()
        return 0


def invalid_metadata(size: int, release: tuple[int, int]) -> bool:
    """Whether there is no metadata of this size."""
    limit = _METADATA_LIMIT if release >= _LONG_METADATA else _OLD_METADATA_LIMIT
    return size % 4 != 0 or size > limit


def _words(ctx: bytes) -> list[int]:
    padded = ctx.ljust(SIZE, b"\0")
    if any(padded[SIZE:]):
        raise Refused(E2BIG, "the context is longer than a struct xdp_md")
    return [int.from_bytes(padded[at : at + 4], "little") for at in range(0, SIZE, 4)]


def _check(given: list[int], size: int, world: World) -> None:
    data, end, meta, device, queue, egress = given
    if meta or end != size or data > end or invalid_metadata(data, world.release):
        raise Refused(EINVAL, "data is the size of the metadata, data_end that of the packet")
    if egress or (queue and not device):
        raise Refused(EINVAL, "an egress_ifindex, or a rx_queue_index without an ingress_ifindex")
    if device not in {0, world.ifindex}:
        raise Refused(ENODEV, f"there is no device {device}")
    if queue:
        raise Refused(EINVAL, "the device has one queue")
