"""Which maps helpers and programs take, and which can be made."""

import errno

import pytest

from pybpf.isa.abi import AttachType, MapFlag, MapType, ProgType
from pybpf.isa.helpers import HELPERS
from pybpf.verifier.mapcompat import ITERABLE, refuse_helper, refuse_program
from pybpf.verifier.mapcreate import refuse_creation


@pytest.mark.parametrize(
    ("kind", "helper", "fits"),
    [
        (MapType.HASH, "map_lookup_elem", True),
        (MapType.PROG_ARRAY, "map_lookup_elem", False),
        (MapType.PROG_ARRAY, "tail_call", True),
        (MapType.HASH, "tail_call", False),
        (MapType.RINGBUF, "ringbuf_reserve", True),
        (MapType.ARRAY, "ringbuf_output", False),
        (MapType.ARRAY_OF_MAPS, "map_lookup_elem", True),
        (MapType.ARRAY_OF_MAPS, "map_update_elem", False),
        (MapType.QUEUE, "map_pop_elem", True),
        (MapType.BLOOM_FILTER, "map_pop_elem", False),
        (MapType.BLOOM_FILTER, "map_peek_elem", True),
        (MapType.PERCPU_HASH, "map_lookup_percpu_elem", True),
        (MapType.HASH, "map_lookup_percpu_elem", False),
    ],
)
def test_helpers(kind, helper, fits):
    number = HELPERS[f"bpf_{helper}"]
    words = None if fits else f"cannot pass map_type {kind.value} into func bpf_{helper}#{number}"

    assert refuse_helper(kind, number, (6, 12), ProgType.XDP) == words


@pytest.mark.parametrize(
    ("helper", "version", "prog_type", "attach", "fits"),
    [
        ("map_update_elem", (6, 12), ProgType.SCHED_CLS, 0, True),
        ("map_update_elem", (6, 12), ProgType.KPROBE, 0, False),
        ("map_update_elem", (6, 12), ProgType.TRACING, AttachType.TRACE_ITER, True),
        ("map_update_elem", (6, 12), ProgType.TRACING, AttachType.TRACE_FENTRY, False),
        ("map_update_elem", (6, 12), ProgType.SOCK_OPS, 0, False),
        ("map_delete_elem", (6, 12), ProgType.SOCK_OPS, 0, True),
        ("map_delete_elem", (6, 12), ProgType.KPROBE, 0, False),
        ("map_delete_elem", (5, 10), ProgType.KPROBE, 0, True),
        ("map_delete_elem", (6, 12), ProgType.XDP, 0, True),
        ("map_delete_elem", (7, 3), ProgType.XDP, 0, False),
        ("map_delete_elem", (7, 3), ProgType.SK_LOOKUP, 0, True),
        ("map_update_elem", (7, 3), ProgType.XDP, 0, False),
    ],
)
def test_sockets_in_maps(helper, version, prog_type, attach, fits):
    number = HELPERS[f"bpf_{helper}"]
    answer = refuse_helper(MapType.SOCKMAP, number, version, prog_type, attach)

    assert (answer is None) is fits


@pytest.mark.parametrize(
    ("kind", "version", "prog_type", "options", "words"),
    [
        (MapType.HASH, (6, 12), ProgType.KPROBE, {}, None),
        (
            MapType.STRUCT_OPS,
            (6, 12),
            ProgType.XDP,
            {},
            "bpf_struct_ops map cannot be used in prog",
        ),
        (
            MapType.HASH,
            (6, 12),
            ProgType.KPROBE,
            {"fields": ["spin_lock"]},
            "tracing progs cannot use bpf_spin_lock yet",
        ),
        (MapType.HASH, (6, 12), ProgType.XDP, {"fields": ["spin_lock"]}, None),
        (
            MapType.HASH,
            (6, 12),
            ProgType.SOCKET_FILTER,
            {"fields": ["spin_lock"]},
            "socket filter progs cannot use bpf_spin_lock yet",
        ),
        (
            MapType.HASH,
            (5, 10),
            ProgType.PERF_EVENT,
            {"map_flags": MapFlag.NO_PREALLOC},
            "perf_event programs can only use preallocated hash map",
        ),
        (MapType.HASH, (6, 12), ProgType.PERF_EVENT, {"map_flags": MapFlag.NO_PREALLOC}, None),
        (MapType.ARRAY, (6, 12), ProgType.SYSCALL, {"sleepable": True}, None),
        (
            MapType.SOCKMAP,
            (6, 12),
            ProgType.SYSCALL,
            {"sleepable": True},
            "Sleepable programs can only use array, hash, ringbuf and local storage maps",
        ),
    ],
)
def test_programs(kind, version, prog_type, options, words):
    assert refuse_program(kind, version, prog_type, **options) == words


def test_hashes_and_arrays_can_be_gone_through():
    assert MapType.HASH in ITERABLE
    assert MapType.ARRAY_OF_MAPS not in ITERABLE


@pytest.mark.parametrize(
    ("case", "answer"),
    [
        ((MapType.HASH, 4, 8, 1), None),
        ((MapType.HASH, 0, 8, 1), errno.EINVAL),
        ((MapType.HASH, 4, 8, 0), errno.EINVAL),
        ((MapType.LRU_HASH, 4, 8, 1, MapFlag.NO_PREALLOC), 524),
        ((MapType.ARRAY, 8, 8, 1), errno.EINVAL),
        ((MapType.ARRAY, 4, 8, 1, MapFlag.RDONLY | MapFlag.WRONLY), errno.EINVAL),
        ((MapType.PERCPU_ARRAY, 4, 32768, 1), None),
        ((MapType.PERCPU_ARRAY, 4, 32769, 1), errno.E2BIG),
        ((MapType.RINGBUF, 0, 0, 4096), None),
        ((MapType.RINGBUF, 0, 0, 6144), errno.EINVAL),
        ((MapType.LPM_TRIE, 8, 8, 1), errno.EINVAL),
        ((MapType.LPM_TRIE, 8, 8, 1, MapFlag.NO_PREALLOC), None),
        ((MapType.STACK_TRACE, 4, 1016, 1), None),
        ((MapType.STACK_TRACE, 4, 1024, 1), errno.EINVAL),
        ((MapType.CGROUP_STORAGE, 8, 8, 0), None),
        ((MapType.CGROUP_STORAGE, 8, 8, 1), errno.EINVAL),
        ((MapType.TASK_STORAGE, 4, 8, 0), None),  # not known from these
    ],
)
def test_creation(case, answer):
    assert refuse_creation(*case) == answer
