"""Prototypes of helpers: each has one in every kernel, and it is the one that the kernel has."""

import pytest

from pybpf.isa.abi import ProgType
from pybpf.isa.helpers import HELPERS
from pybpf.target.profile import NAMES, profile
from pybpf.verifier.protos import Arg, CallFlag, Ret, TypeFlag, proto

VERSIONS = [profile(name).version for name in NAMES]


def show(name, version, prog_type=ProgType.UNSPEC):
    """Write a prototype as the table does."""
    found = proto(HELPERS[f"bpf_{name}"], version, prog_type)

    def word(kind, flags, inner):
        names = [flag.name.lower() for flag in TypeFlag if flag in flags]
        return "|".join([kind.value + (f"<{inner}>" if inner else ""), *names])

    args = [word(arg.kind, arg.flags, arg.btf or arg.size) for arg in found.args]
    flags = [f"!{flag.name.lower()}" for flag in CallFlag if flag in found.flags]
    return " ".join([*args, "->", word(found.ret.kind, found.ret.flags, found.ret.btf), *flags])


@pytest.mark.parametrize("version", VERSIONS)
def test_every_helper_has_a_prototype_for_every_type(version):
    for prog_type in ProgType:
        for number in HELPERS.values():
            found = proto(number, version, prog_type)

            assert found.number == number
            assert HELPERS[f"bpf_{found.name}"] == number
            assert len(found.args) <= 5


def test_what_is_no_helper_has_none():
    assert proto(0, (6, 12)) is None
    assert proto(212, (6, 12)) is None


@pytest.mark.parametrize(
    ("name", "version", "prog_type", "text"),
    [
        ("map_lookup_elem", (6, 12), 0, "map key -> value|null !pkt"),
        ("map_update_elem", (5, 10), 0, "map key value any -> int !pkt"),
        ("ringbuf_reserve", (6, 1), 0, "map alloc_size0 any -> mem|null|ringbuf !acquire"),
        ("ringbuf_submit", (6, 1), 0, "ringbuf_mem|release any -> void"),
        ("probe_read_kernel", (6, 12), 0, "mem|uninit|write size0 any -> int !gpl"),
        ("probe_read_kernel", (5, 15), 0, "mem|uninit size0 any -> int !gpl"),
        ("strtol", (5, 10), 0, "mem|rdonly size any mem<8>|aligned -> int"),
        ("strtol", (6, 1), 0, "mem|rdonly size any mem<8>|uninit|write|aligned -> int"),
        ("sk_lookup_tcp", (6, 1), 0, "ctx mem|rdonly size any any -> socket|null !pkt !acquire"),
        ("sk_lookup_tcp", (6, 6), 0, "ctx mem|rdonly size0 any any -> socket|null !pkt !acquire"),
        (
            "sk_lookup_tcp",
            (6, 6),
            ProgType.CGROUP_SOCK_ADDR,
            "ctx mem|rdonly size0 any any -> socket|null !acquire",
        ),
        ("get_socket_cookie", (6, 12), ProgType.XDP, "ctx -> int"),
        ("get_socket_cookie", (6, 12), ProgType.TRACING, "sk|null -> int"),
        ("get_socket_cookie", (6, 1), ProgType.TRACING, "sk -> int"),
        (
            "sk_storage_get",
            (6, 12),
            ProgType.CGROUP_SOCK,
            "map ctx value|null any -> value|null",
        ),
        ("get_smp_processor_id", (6, 12), ProgType.XDP, "-> int !fast"),
        ("get_smp_processor_id", (6, 12), ProgType.SOCKET_FILTER, "-> int"),
        ("get_current_task_btf", (6, 12), 0, "-> btf<task_struct>|trusted !gpl"),
        ("skb_store_bytes", (6, 12), 0, "ctx any mem|rdonly size any -> int !packet"),
        ("tail_call", (6, 12), 0, "ctx map any -> void"),
        ("loop", (6, 12), 0, "scalar func stack|null any -> int"),
    ],
)
def test_prototypes(name, version, prog_type, text):
    assert show(name, version, ProgType(prog_type)) == text


def test_all_words_of_the_table_are_used():
    seen = [proto(n, v, t) for n in HELPERS.values() for v in VERSIONS for t in ProgType]

    assert {arg.kind for found in seen for arg in found.args} == set(Arg)
    assert {found.ret.kind for found in seen} == set(Ret)
