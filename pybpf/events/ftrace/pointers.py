"""The kernel's ``%p`` extensions: bytes of a record in, text out.

Source: Documentation/core-api/printk-formats.rst.
"""

from __future__ import annotations

from collections.abc import Callable

from pybpf.events.ftrace.cexpr import Unprintable

Show = Callable[[bytes], str]
"""Makes the text of the bytes that a pointer leads to."""


def shown(extension: str) -> tuple[Show, int]:
    """Return what shows the bytes of an extension (``I4`` of ``%pI4``), and how many it takes.

    Raises Unprintable for one that is not known.
    """
    match extension:
        case "I4" | "i4":
            dotted = _ipv4 if extension == "I4" else _ipv4_padded
            return dotted, 4
        case "I6":
            return lambda data: ":".join(_groups(data)), 16
        case "i6":
            return lambda data: "".join(_groups(data)), 16
        case "I6c":
            return _ipv6, 16
        case "M":
            return lambda data: data[:6].hex(":"), 6
        case "MF":
            return lambda data: data[:6].hex("-"), 6
        case "m":
            return lambda data: data[:6].hex(), 6
        case "ISpc" | "ISpcs":
            return _socket, 28
        case "ISc" | "IS":
            return lambda data: _socket(data, port=False), 28
        case "U" | "Ub":
            return lambda data: _uuid(data[:16]), 16
        case "Ul":
            return lambda data: _uuid(_guid(data[:16])), 16
        case "UB":
            return lambda data: _uuid(data[:16]).upper(), 16
        case "UL":
            return lambda data: _uuid(_guid(data[:16])).upper(), 16
        case _:
            raise Unprintable(f"%p{extension}")


_SEPARATORS = {"h": " ", "hC": ":", "hD": "-", "hN": ""}


def hexadecimal(extension: str) -> Callable[[bytes], str] | None:
    """Return what shows bytes for ``%*ph`` and its like; None for another extension."""
    separator = _SEPARATORS.get(extension)
    if separator is None:
        return None
    # 64 bytes are the most that the kernel shows.
    return (lambda data: data[:64].hex(separator)) if separator else (lambda data: data[:64].hex())


def bitmap_list(data: bytes, bits: int) -> str:
    """Return the set bits of words (little endian) as ``%*pbl`` shows them: ``0-3,8``."""
    mask = int.from_bytes(data, "little") & ((1 << min(bits, 8 * len(data))) - 1)
    ranges, at = [], 0
    while mask >> at:
        if mask >> at & 1:
            first = at
            while mask >> (at + 1) & 1:
                at += 1
            ranges.append(f"{first}" if first == at else f"{first}-{at}")
        at += 1
    return ",".join(ranges)


def bitmap(data: bytes) -> str:
    """Return words (little endian) as ``__get_bitmask`` and ``__get_cpumask`` show them."""
    digits = f"{int.from_bytes(data, 'little'):0{2 * len(data)}x}"
    return ",".join(digits[at : at + 8] for at in range(0, len(digits), 8))


def _ipv4(data: bytes) -> str:
    return ".".join(str(byte) for byte in data[:4])


def _ipv4_padded(data: bytes) -> str:
    return ".".join(f"{byte:03}" for byte in data[:4])


def _groups(data: bytes) -> list[str]:
    return [data[at : at + 2].hex() for at in range(0, 16, 2)]


def _ipv6(data: bytes) -> str:
    """Return an IPv6 address with its longest run of zeros as ``::``, as RFC 5952 has it."""
    words = [int.from_bytes(data[at : at + 2], "big") for at in range(0, 16, 2)]
    if words[:5] == [0] * 5 and words[5] == 0xFFFF:
        return f"::ffff:{_ipv4(data[12:])}"
    best, length, at = 0, 1, 0
    while at < 8:
        end = at
        while end < 8 and not words[end]:
            end += 1
        if end - at > length:
            best, length = at, end - at
        at = end + 1
    if length == 1:
        return ":".join(f"{word:x}" for word in words)
    before = ":".join(f"{word:x}" for word in words[:best])
    return f"{before}::{':'.join(f'{word:x}' for word in words[best + length :])}"


_INET, _INET6 = 2, 10


def _socket(data: bytes, *, port: bool = True) -> str:
    """Return the address and port of a struct sockaddr of the internet families."""
    family = int.from_bytes(data[:2], "little")
    number = f":{int.from_bytes(data[2:4], 'big')}" if port else ""
    if family == _INET:
        return _ipv4(data[4:8]) + number
    if family == _INET6 and len(data) >= 24:
        address = _ipv6(data[8:24])
        return f"[{address}]{number}" if port else address
    raise Unprintable(f"an address of family {family}")


def _uuid(data: bytes) -> str:
    digits = data.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _guid(data: bytes) -> bytes:
    return data[3::-1] + data[5:3:-1] + data[7:5:-1] + data[8:]
