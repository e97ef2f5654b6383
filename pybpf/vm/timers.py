"""Timers of programs: when they expire is up to whoever runs the machine, as is time itself."""

from __future__ import annotations

from errno import EINVAL
from typing import TYPE_CHECKING

from pybpf.dataclass import dataclass
from pybpf.vm.maps import ArrayMap, HashMap

if TYPE_CHECKING:
    from pybpf.vm.maps import Map
    from pybpf.vm.memory import Region


@dataclass(slots=True)
class Timer:
    """A struct bpf_timer at ``address`` in a value of ``table``; ``due`` in ns while it runs."""

    address: int
    table: Map
    function: int = 0
    due: int | None = None


class Timers:
    """The timers of a machine."""

    def __init__(self) -> None:
        self._timers: dict[int, Timer] = {}

    def __contains__(self, address: int) -> bool:
        return address in self._timers

    def prepare(self, address: int, table: Map) -> None:
        """bpf_timer_init."""
        self._timers[address] = Timer(address, table)

    def set_callback(self, address: int, function: int) -> int:
        """bpf_timer_set_callback."""
        timer = self._timers.get(address)
        if timer is None:
            return -EINVAL
        timer.function = function
        return 0

    def start(self, address: int, due: int) -> int:
        """bpf_timer_start."""
        timer = self._timers.get(address)
        if timer is None or not timer.function:
            return -EINVAL
        timer.due = due
        return 0

    def cancel(self, address: int) -> int:
        """bpf_timer_cancel."""
        timer = self._timers.get(address)
        if timer is None:
            return -EINVAL
        running = timer.due is not None
        timer.due = None
        return int(running)

    def expired(self, now: int) -> Timer | None:
        """Stop the timer that expired first, by now, and return it."""
        running = [t for t in self._timers.values() if t.due is not None and t.due <= now]
        if not running:
            return None
        first = min(running, key=lambda timer: timer.due or 0)
        first.due = None
        return first


def key_of(table: Map, value: Region) -> bytes:
    """Return the key whose value a region is; nothing for one that is gone."""
    if not isinstance(table, HashMap | ArrayMap):
        return b""
    keys = (key for key, _ in table.items())
    return next((key for key in keys if table.lookup(key, 0) == value.address), b"")
