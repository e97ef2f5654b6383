"""A packet that programs read and change: the bytes of a frame in, those that are left of it out.

The context of a program holds the packet's addresses in 32 bits each, so its region is the one
below 4 GiB. What lies before and behind it can be taken in by moving its ends:

    +----------+------------+--------------------+----------+
    |   head   |  metadata  |        data        |   tail   |
    +----------+------------+--------------------+----------+
               ^ region.address                  ^ region.end
"""

from __future__ import annotations

from pybpf.vm.memory import AddressSpace, Region, Trap

SKF_NET_OFF, SKF_LL_OFF = -0x100000, -0x200000
"""Where classic BPF's packet loads count from the network and the link layer's header."""


class Packet:
    """A packet with ``room`` bytes before and ``tail`` bytes behind it.

    ``mac`` and ``network`` say where its headers begin, counted from the front of the whole room.
    """

    def __init__(
        self, memory: AddressSpace, data: bytes, *, room: int, tail: int, metadata: int = 0
    ) -> None:
        self.region: Region = memory.add_low(bytearray(data), "the packet")
        self.head = bytearray(room)
        self.tail = tail
        self.metadata = metadata
        self.mac = self.network = room

    @property
    def meta(self) -> int:
        """The address of the metadata, which end where the data begin."""
        return self.region.address

    @property
    def data(self) -> int:
        """The address of the first byte."""
        return self.region.address + self.metadata

    @property
    def end(self) -> int:
        """The address behind the last byte."""
        return self.region.end

    @property
    def length(self) -> int:
        """The number of bytes, without the metadata."""
        return self.region.size - self.metadata

    def content(self) -> bytes:
        """Return the data."""
        return bytes(self.region.data[self.metadata :])

    def move_head(self, offset: int) -> None:
        """Move the front, and the metadata with it, by ``offset`` bytes towards the end."""
        content = self.region.data
        kept = bytes(content[: self.metadata])
        self.head += kept
        del content[: self.metadata]
        self._move_front(offset)
        if self.metadata:
            content[:0] = kept
            del self.head[len(self.head) - self.metadata :]
        self.region.size = len(content)

    def move_metadata(self, offset: int) -> None:
        """Move the front of the metadata alone."""
        self._move_front(offset)
        self.metadata -= offset
        self.region.size = len(self.region.data)

    def _move_front(self, offset: int) -> None:
        """Take bytes from the end of the head, or give it some."""
        content = self.region.data
        if offset < 0:
            content[:0] = self.head[offset:]
            del self.head[offset:]
        else:
            self.head += content[:offset]
            del content[:offset]

    def move_tail(self, offset: int) -> None:
        """Move the end by ``offset`` bytes; new ones are zero."""
        content = self.region.data
        if offset < 0:
            del content[offset:]
        else:
            content += bytes(offset)
        self.tail -= offset
        self.region.size = len(content)

    def insert(self, at: int, count: int) -> None:
        """Make room for ``count`` zero bytes before byte ``at``; what precedes it moves forward."""
        self.move_head(-count)
        content, start = self.region.data, self.metadata
        content[start : start + at] = content[start + count : start + count + at]
        content[start + at : start + at + count] = bytes(count)

    def remove(self, at: int, count: int) -> None:
        """Take ``count`` bytes out from byte ``at`` on; what precedes them moves back."""
        content, start = self.region.data, self.metadata
        content[start + count : start + count + at] = content[start : start + at]
        self.move_head(count)

    def load(self, start: int, size: int) -> bytes:
        """Return bytes as classic BPF's loads find them; none where there are not as many."""
        if start >= 0:
            begin = self.metadata + start
            return bytes(self.region.data[begin : begin + size])
        if start >= SKF_NET_OFF:
            place = self.network + start - SKF_NET_OFF
        else:
            place = self.mac + start - SKF_LL_OFF
        whole = self.head + self.region.data
        return bytes(whole[place : place + size]) if place >= 0 else b""

    def at(self, offset: int, size: int) -> int:
        """Return the address of ``size`` bytes at an offset; raises Trap beyond the end."""
        if not 0 <= offset <= self.length - size:
            raise Trap(f"cannot reach {size} bytes at offset {offset} of the packet")
        return self.data + offset
