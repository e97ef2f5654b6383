"""Reading memory the way the probe_read helpers do: an address and a size in, bytes or None out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybpf.vm.memory import Trap
from pybpf.vm.world import is_kernel_address

if TYPE_CHECKING:
    from pybpf.vm.machine import Machine


def read_kernel(vm: Machine, address: int, size: int) -> bytes | None:
    """Return kernel memory: the program's own regions, or the upper half of the world's."""
    if vm.memory.find(address) is not None:
        try:
            return vm.memory.read(address, size)
        except Trap:
            return None
    return vm.world.read(address, size) if is_kernel_address(address) else None


def read_user(vm: Machine, address: int, size: int) -> bytes | None:
    """Return user memory: the lower half of the world's."""
    return None if _is_kernel(vm, address) else vm.world.read(address, size)


def read_any(vm: Machine, address: int, size: int) -> bytes | None:
    """Return kernel or user memory by the address alone, as bpf_probe_read did before 5.5."""
    reader = read_kernel if _is_kernel(vm, address) else read_user
    return reader(vm, address, size)


def read_kernel_string(vm: Machine, address: int, limit: int) -> bytes | None:
    """Return the bytes before the first NUL, at most ``limit``."""
    region = vm.memory.find(address)
    if region is not None:
        rest = read_kernel(vm, address, max(0, region.end - address)) or b""
        text, nul, _ = rest.partition(b"\0")
        return text[:limit] if nul or len(text) >= limit else None
    return vm.world.read_string(address, limit) if is_kernel_address(address) else None


def read_user_string(vm: Machine, address: int, limit: int) -> bytes | None:
    """Return the bytes before the first NUL, at most ``limit``."""
    return None if _is_kernel(vm, address) else vm.world.read_string(address, limit)


def read_any_string(vm: Machine, address: int, limit: int) -> bytes | None:
    """Return the bytes before the first NUL, by the address alone."""
    reader = read_kernel_string if _is_kernel(vm, address) else read_user_string
    return reader(vm, address, limit)


def _is_kernel(vm: Machine, address: int) -> bool:
    return is_kernel_address(address) or vm.memory.find(address) is not None
