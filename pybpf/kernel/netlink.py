"""Network interfaces, and filters of theirs by netlink: what ``tc filter add … bpf da`` does.

For kernels older than 6.6, which have no links for it. A message is

    u32 length | u16 type | u16 flags | u32 sequence | u32 port | body | attributes
    attribute: u16 length | u16 type | value, padded to 4 bytes

Sources: rtnetlink(7), include/uapi/linux/rtnetlink.h, pkt_sched.h and pkt_cls.h.
"""

from __future__ import annotations

import errno
import socket
import struct

from pybpf.errors import KernelError
from pybpf.kernel.fd import Fd

_NEW_QDISC, _DELETE_QDISC = 36, 37
_NEW_FILTER, _DELETE_FILTER = 44, 45
_REQUEST, _ACK, _CREATE, _EXCLUSIVE = 1, 4, 0x400, 0x200
_KIND, _OPTIONS = 1, 2  # TCA_KIND, TCA_OPTIONS
_BPF_FD, _BPF_NAME, _BPF_FLAGS = 6, 7, 8  # TCA_BPF_*
_DIRECT = 1  # TCA_BPF_FLAG_ACT_DIRECT
_CLSACT, _CLSACT_HANDLE = 0xFFFFFFF1, 0xFFFF0000
_INGRESS, _EGRESS = 0xFFFFFFF2, 0xFFFFFFF3
_ALL_PROTOCOLS = 3
_ERROR = 2  # NLMSG_ERROR
_PRIORITIES = range(49152, 1, -1)
"""Where the kernel itself begins to count for filters that do not say."""


def interface(name: str) -> int:
    """Return the number of a network interface; raises KernelError that says which there are."""
    try:
        return socket.if_nametoindex(name)
    except OSError:
        known = ", ".join(each for _, each in socket.if_nameindex())
        hint = f"there are {known}" if known else "there is none"
        raise KernelError(
            errno.ENODEV, f"cannot use the network interface {name}", hints=(hint,)
        ) from None


class Classifier:
    """A program that sees the packets of an interface, until this is closed."""

    def __init__(self, device: int, program: Fd, name: str, *, ingress: bool) -> None:
        """Add the filter, and the queueing discipline for it where there is none.

        Raises KernelError.
        """
        self._device = device
        self._parent = _INGRESS if ingress else _EGRESS
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._own_qdisc = False
        self._priority = 0
        try:
            self._add_qdisc()
            self._add_filter(program, name)
        except BaseException:
            self.close()
            raise

    def _add_qdisc(self) -> None:
        body = struct.pack("=BxxxiIII", 0, self._device, _CLSACT_HANDLE, _CLSACT, 0)
        body += _attribute(_KIND, b"clsact\0")
        number = self._request(_NEW_QDISC, _CREATE | _EXCLUSIVE, body)
        if number and number != errno.EEXIST:
            raise KernelError(number, "cannot add the queueing discipline clsact")
        self._own_qdisc = not number

    def _filter(self, options: bytes) -> bytes:
        info = self._priority << 16 | socket.htons(_ALL_PROTOCOLS)
        body = struct.pack("=BxxxiIII", 0, self._device, 1, self._parent, info)
        return body + _attribute(_KIND, b"bpf\0") + options

    def _add_filter(self, program: Fd, name: str) -> None:
        options = _attribute(_BPF_FD, struct.pack("=I", program.fileno()))
        options += _attribute(_BPF_NAME, name.encode() + b"\0")
        options += _attribute(_BPF_FLAGS, struct.pack("=I", _DIRECT))
        number = 0
        for priority in _PRIORITIES:
            self._priority = priority
            body = self._filter(_attribute(_OPTIONS, options))
            number = self._request(_NEW_FILTER, _CREATE | _EXCLUSIVE, body)
            if number != errno.EEXIST:
                break
        if number:
            self._priority = 0
            raise KernelError(number, f"cannot attach {name} to the interface")

    def _request(self, kind: int, flags: int, body: bytes) -> int:
        """Send a message; return the errno that the kernel answers with, 0 for none."""
        size = 16 + len(body)
        self._socket.send(struct.pack("=IHHII", size, kind, _REQUEST | _ACK | flags, 1, 0) + body)
        answer = self._socket.recv(1 << 16)
        _, what, _, _, _, number = struct.unpack_from("=IHHIIi", answer)
        return -number if what == _ERROR else 0

    def close(self) -> None:
        """Remove the filter, and the discipline if it was added for it; twice is allowed."""
        if self._socket.fileno() < 0:
            return
        if self._priority:
            self._request(_DELETE_FILTER, 0, self._filter(b""))
        if self._own_qdisc:
            body = struct.pack("=BxxxiIII", 0, self._device, _CLSACT_HANDLE, _CLSACT, 0)
            self._request(_DELETE_QDISC, 0, body + _attribute(_KIND, b"clsact\0"))
        self._socket.close()


def _attribute(kind: int, value: bytes) -> bytes:
    size = 4 + len(value)
    return struct.pack("=HH", size, kind) + value + bytes(-size % 4)
