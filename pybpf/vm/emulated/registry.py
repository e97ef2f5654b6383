"""All emulated helpers by name, and by number."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from pybpf.isa.helpers import HELPERS
from pybpf.vm import helpers
from pybpf.vm.emulated import (
    collections,
    dynptrs,
    headers,
    redirects,
    skb,
    sockets,
    strings,
    tracing,
    xdp,
)

if TYPE_CHECKING:
    from pybpf.vm.machine import Helper

EMULATED: Mapping[str, Helper] = MappingProxyType(
    {
        **helpers.EMULATED,
        **collections.TABLE,
        **dynptrs.TABLE,
        **headers.TABLE,
        **redirects.TABLE,
        **skb.TABLE,
        **sockets.TABLE,
        **strings.TABLE,
        **tracing.TABLE,
        **xdp.TABLE,
    }
)
NUMBERED: MappingProxyType[int, Helper] = MappingProxyType(
    {HELPERS[name]: row for name, row in EMULATED.items()}
)
