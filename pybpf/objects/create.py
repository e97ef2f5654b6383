"""What an object says of a map in; the map in the kernel out, new, or one that was pinned."""

from __future__ import annotations

import errno
import mmap
from collections.abc import Mapping

from pybpf.errors import KernelError, ObjectError
from pybpf.isa.abi import MapFlag, MapType
from pybpf.kernel import packed
from pybpf.kernel.bpffs import Pins
from pybpf.kernel.fd import Fd
from pybpf.kernel.maps import Map, possible_cpus
from pybpf.objects.table import BpfMap
from pybpf.objfile.corpus import WITHOUT_TYPES
from pybpf.objfile.maps import ObjectMap, Origin

_FROZEN = frozenset({Origin.RODATA, Origin.KCONFIG})
_RINGS = frozenset({MapType.RINGBUF, MapType.USER_RINGBUF})


def create(path: str, table: BpfMap, btf: Fd | None, pins: Pins, folder: str) -> None:
    """Create the map of ``table``, and fill it if it holds variables.

    A map that wants to be pinned by its name is pinned in ``folder``, or is the one that is there.
    ``btf`` are the object's types. Raises KernelError, and ObjectError for a pinned map that is
    another.
    """
    spec = table.spec
    place = f"{folder}/{spec.name}"
    if spec.pinned_by_name and (found := packed.pinned(place)) is not None:
        with found:
            opened = Map.opened(found, spec.name)
        table.hold(opened)
        table.reused = True
        _check_same(path, spec, opened, place)
        return
    made = Map.opened(_made(spec, btf), spec.name)
    table.hold(made)
    if spec.initial is not None:
        _fill(spec, made)
    if spec.pinned_by_name:
        pins.add(made, place)


def _fill(spec: ObjectMap, made: Map) -> None:
    if spec.initial and spec.initial.count(0) < len(spec.initial):
        made.update(bytes(spec.key_size), spec.initial)
    if spec.origin in _FROZEN:
        made.freeze()


def _made(spec: ObjectMap, btf: Fd | None) -> Fd:
    if spec.inner is None:
        return _typed(spec, btf, None)
    with _typed(spec.inner, btf, None) as inner:
        return _typed(spec, btf, inner)


def _typed(spec: ObjectMap, btf: Fd | None, inner: Fd | None) -> Fd:
    """Create a map with its types, or without where the kernel does not want them for it."""
    types = spec.key_type, spec.value_type
    if btf is not None and any(types) and spec.map_type not in WITHOUT_TYPES:
        try:
            return _create(spec, btf, types, inner)
        except KernelError as error:
            if error.errno in {errno.EPERM, errno.ENOMEM, errno.E2BIG}:
                raise
    return _create(spec, None, (0, 0), inner)


def _create(spec: ObjectMap, btf: Fd | None, types: tuple[int, int], inner: Fd | None) -> Fd:
    def attempt(flags: int) -> Fd:
        return packed.map_create(
            spec.map_type, spec.kernel_name or spec.name,
            (spec.key_size, spec.value_size, _entries(spec)), flags=flags, extra=spec.extra,
            numa_node=spec.numa_node or 0, inner=inner, btf=btf, types=types,
        )  # fmt: skip

    try:
        return attempt(spec.flags)
    except KernelError as error:
        error.action = f"cannot create the {spec.type_name} map {spec.name}"
        if error.errno in {errno.E2BIG, errno.ENOMEM}:
            error.hints += (f"{spec.max_entries} entries are too many: see --map-size",)
        if spec.initial is None or error.errno != errno.EINVAL:
            raise
    return attempt(spec.flags & ~MapFlag.MMAPABLE)  # before Linux 5.5


def _entries(spec: ObjectMap) -> int:
    """Return how many entries, or bytes of a ring, a map has: some are for the loader to say."""
    if spec.map_type == MapType.PERF_EVENT_ARRAY and not spec.max_entries:
        return max(possible_cpus()) + 1
    if spec.map_type in _RINGS and spec.max_entries:
        page = mmap.PAGESIZE
        pages = (spec.max_entries + page - 1) // page
        return page << (pages - 1).bit_length()
    return spec.max_entries


def _check_same(path: str, spec: ObjectMap, found: Map, place: str) -> None:
    wanted = {
        "type": (spec.map_type, found.map_type),
        "key size": (spec.key_size, found.key_size),
        "value size": (spec.value_size, found.value_size),
        "entries": (_entries(spec), found.max_entries),
        "flags": (spec.flags, found.flags),
    }
    different = [f"{what} {here}, not {want}" for what, (want, here) in wanted.items()
                 if want != here]  # fmt: skip
    if different:
        hints = (f"remove {place}, if nobody needs it", "or choose another folder: --pin-root DIR")
        reason = f"the map that is pinned at {place} is another: {'; '.join(different)}"
        raise ObjectError(path, reason, hints=hints)


def fill_with_maps(path: str, table: BpfMap, maps: Mapping[str, BpfMap]) -> None:
    """Put the maps that an array or hash of maps holds from the start into it."""
    for index, name in table.spec.values:
        if table.spec.map_type == MapType.PROG_ARRAY:
            return
        if name not in maps:
            raise ObjectError(path, f"map {table.name} holds {name}, which is no map of it")
        table[index] = maps[name]
