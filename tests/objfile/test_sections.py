"""What SEC() says of a program."""

from __future__ import annotations

import pytest

from pybpf.isa.abi import AttachType, ProgType
from pybpf.objfile.sections import Trait, kinds, parse


@pytest.mark.parametrize(
    ("name", "prog_type", "attach_type", "target"),
    [
        ("socket", "SOCKET_FILTER", None, ""),
        ("kprobe/vfs_read", "KPROBE", None, "vfs_read"),
        ("kprobe", "KPROBE", None, ""),
        ("?kprobe/vfs_read", "KPROBE", None, "vfs_read"),
        ("kprobe.multi/tcp_*", "KPROBE", "TRACE_KPROBE_MULTI", "tcp_*"),
        ("uprobe//bin/sh:main+4", "KPROBE", None, "/bin/sh:main+4"),
        ("tp/sched/sched_switch", "TRACEPOINT", None, "sched/sched_switch"),
        ("tp_btf/sched_switch", "TRACING", "TRACE_RAW_TP", "sched_switch"),
        ("fentry.s/x", "TRACING", "TRACE_FENTRY", "x"),
        ("iter/task", "TRACING", "TRACE_ITER", "task"),
        ("lsm_cgroup/socket_bind", "LSM", "LSM_CGROUP", "socket_bind"),
        ("freplace/f", "EXT", None, "f"),
        ("xdp", "XDP", "XDP", ""),
        ("xdp/devmap", "XDP", "XDP_DEVMAP", ""),
        ("xdp.frags/cpumap", "XDP", "XDP_CPUMAP", ""),
        ("tc/ingress", "SCHED_CLS", "TCX_INGRESS", ""),
        ("classifier", "SCHED_CLS", None, ""),
        ("cgroup_skb/egress", "CGROUP_SKB", "CGROUP_INET_EGRESS", ""),
        ("cgroup/dev", "CGROUP_DEVICE", "CGROUP_DEVICE", ""),
        ("cgroup/sock_create", "CGROUP_SOCK", "CGROUP_INET_SOCK_CREATE", ""),
        ("cgroup/getsockname_unix", "CGROUP_SOCK_ADDR", "CGROUP_UNIX_GETSOCKNAME", ""),
        ("sk_reuseport/migrate", "SK_REUSEPORT", "SK_REUSEPORT_SELECT_OR_MIGRATE", ""),
        ("struct_ops.s/init", "STRUCT_OPS", None, "init"),
        ("netfilter", "NETFILTER", "NETFILTER", ""),
    ],
)  # fmt: skip
def test_names(name, prog_type, attach_type, target):
    section = parse(name)
    assert section.kind.prog_type is ProgType[prog_type]
    assert section.kind.attach_type is (AttachType[attach_type] if attach_type else None)
    assert section.target == target


@pytest.mark.parametrize("name", ["", "kprobes", "xdp/", "xdp_prog", "tc/other", ".text", "maps"])
def test_what_is_no_name_of_a_program(name):
    assert parse(name) is None


@pytest.mark.parametrize(
    ("name", "traits"),
    [
        ("fentry.s/x", Trait.ATTACHABLE | Trait.BTF | Trait.SLEEPABLE),
        ("xdp.frags", Trait.ATTACHABLE | Trait.OPTIONAL | Trait.FRAGS),
        ("usdt.s/x", Trait.USDT | Trait.SLEEPABLE),
        ("socket", Trait.NONE),
    ],
)
def test_traits(name, traits):
    assert parse(name).kind.traits == traits


def test_no_row_hides_another():
    for kind in kinds():
        word = kind.name.removesuffix("+")
        assert parse(word).kind is kind, word
