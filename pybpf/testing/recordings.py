"""Random events of the probes in ``testing.places``, for the target of ``testing.tracepoints``."""

from __future__ import annotations

from hypothesis import strategies as st

from pybpf.isa.insn import ByteOrder
from pybpf.testing.places import INSIDE, INTERVAL, PROFILE
from pybpf.testing.tracepoints import (
    FIRST,
    FUNCTION,
    INTEGERS,
    KERNEL_NUMBER,
    KERNEL_TEXT,
    SECOND,
    USER_TEXT,
)
from pybpf.vm.recording import Datum, RecordedEvent

_OTHERS = (
    f"kprobe:{FUNCTION}", f"kprobe:{FUNCTION}_more", f"kprobe:{INSIDE}", f"kretprobe:{FUNCTION}",
    INTERVAL, PROFILE, "profile:1:99hz",
)  # fmt: skip
_ADDRESSES = st.sampled_from(
    [KERNEL_TEXT, KERNEL_TEXT + 2, USER_TEXT, USER_TEXT + 1, KERNEL_NUMBER, 0, 0xDEAD, 1 << 63]
)
_STACKS = st.sampled_from([(), (), (0xFFFF_FFFF_8100_0004,), tuple(range(1 << 63, (1 << 63) + 40))])


def integers(size: int, *, signed: bool) -> st.SearchStrategy[int]:
    """Draw integers of ``size`` bytes, often near the ends of their range."""
    low, high = (-(1 << 8 * size - 1), (1 << 8 * size - 1) - 1) if signed else (0, 1 << 8 * size)
    high -= not signed
    edges = st.sampled_from([low, high, 0, 1, min(high, 100), max(low, -1)])
    return edges | st.integers(low, high)


def _texts(size: int) -> st.SearchStrategy[bytes]:
    """Draw texts that fit ``size`` bytes, some with other bytes behind their NUL."""
    words = [b"", b"dd", b"dash", b"exactly7", b"fifteen_letters", b"not terminated!!", b"a\0junk"]
    return st.sampled_from([word for word in words if len(word) <= size])


@st.composite
def _data(draw: st.DrawFn) -> dict[str, Datum]:
    """Draw the fields of a tracepoint."""
    data: dict[str, Datum] = {
        name: draw(integers(size, signed=signed)) for name, (size, signed) in INTEGERS.items()
    }
    data["b"] = draw(_ADDRESSES | st.just(data["b"]))
    data["name"] = draw(_texts(16))
    data["words"] = tuple(draw(st.lists(integers(4, signed=False), min_size=3, max_size=3)))
    data["mac"] = draw(st.binary(min_size=6, max_size=6))
    long = [b"/a/path/that/is/long" * 8, b"not terminated!! at all"]
    data["text"] = draw(_texts(16) | st.sampled_from(long))
    # Elements, unlike a text, get no NUL.
    data["tail"] = draw(_texts(16) | st.just(tuple(b"no NUL")) | st.just(()))
    data["blob"] = draw(st.binary(max_size=140))
    data["kernel_text"] = draw(_ADDRESSES)
    data["user_text"] = draw(_ADDRESSES)
    data["number"] = draw(_ADDRESSES)
    return data


def _probes(text: str) -> list[str]:
    """Return the probes whose events a script may see, and the tracepoints in any case."""
    return [
        *(FIRST, SECOND),
        *(probe for probe in _OTHERS if (FUNCTION if FUNCTION in probe else probe) in text),
    ]


@st.composite
def events(draw: st.DrawFn, text: str, byteorder: ByteOrder = "little") -> RecordedEvent:
    """Draw an event for a script."""
    ids = integers(4, signed=False)
    probe = draw(st.sampled_from(_probes(text)))
    function = not probe.startswith(("tracepoint", "interval", "profile"))
    numbers = _ADDRESSES | integers(8, signed=False)
    return RecordedEvent(
        probe=probe,
        time=draw(st.integers(0, 2**62)),
        cpu=draw(st.integers(0, 1)),
        pid=draw(ids),
        tid=draw(ids),
        uid=draw(ids),
        gid=draw(ids),
        comm=draw(st.sampled_from([b"a", b"dd", b"dash", b"fifteen_letters"])),
        data=draw(_data()) if "tracepoint" in probe else {},
        args=tuple(draw(st.lists(numbers, max_size=12))) if function else (),
        retval=draw(st.none() | numbers) if function else None,
        stack=draw(_STACKS),
        memory={
            KERNEL_TEXT: draw(_texts(16)) + b"\0",
            KERNEL_NUMBER: draw(integers(8, signed=False)).to_bytes(8, byteorder),
            USER_TEXT: draw(_texts(16)) + b"\0",
        },
    )


def recordings(
    text: str, byteorder: ByteOrder = "little"
) -> st.SearchStrategy[list[RecordedEvent]]:
    """Draw a few events for a script, in the order of their times."""
    return st.lists(events(text, byteorder), min_size=1, max_size=5).map(
        lambda e: sorted(e, key=lambda x: x.time)
    )
