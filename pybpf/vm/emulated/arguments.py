"""What arguments and results of helpers mean: integers in; contexts and maps out."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pybpf.isa.semantics import MASK32
from pybpf.vm.machine import Helper, Machine
from pybpf.vm.memory import Trap
from pybpf.vm.net.skb import SkBuff
from pybpf.vm.net.xdp import XdpBuff

if TYPE_CHECKING:
    from pybpf.vm.maps import Map

U32 = MASK32
_LONG_RESULTS = (6, 4)

M = TypeVar("M")


def returning(arguments: int, result: int = 0) -> Helper:
    """Make a helper that does nothing but return a constant."""
    return Helper(arguments, lambda *_: result)


def as_released(vm: Machine, result: int) -> int:
    """Return what a map's operation returns: before 6.4 an int, whose high half is zero in r0."""
    return result & U32 if vm.world.release < _LONG_RESULTS else result


def wrong_map(found: Map) -> Trap:
    """Say that a helper has nothing to do with a map."""
    return Trap(
        f"map {found.spec.name} is of type {found.spec.type.name}, which this helper does not take"
    )


def map_of(vm: Machine, address: int, kind: type[M]) -> M:
    """Return the map at an address, of a kind; raises Trap for another."""
    found = vm.map_at(address)
    if isinstance(found, kind):
        return found
    raise wrong_map(found)


def skb_of(vm: Machine, ctx: int) -> SkBuff:
    """Return the sk_buff that the context is; raises Trap."""
    vm.check_context(ctx)
    if isinstance(vm.buff, SkBuff):
        return vm.buff
    raise Trap("the context is no __sk_buff")


def xdp_of(vm: Machine, ctx: int) -> XdpBuff:
    """Return the xdp_buff that the context is; raises Trap."""
    vm.check_context(ctx)
    if isinstance(vm.buff, XdpBuff):
        return vm.buff
    raise Trap("the context is no xdp_md")
