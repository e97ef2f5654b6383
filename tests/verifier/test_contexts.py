"""What programs may load and store of their contexts, and return."""

import itertools

import pytest

from pybpf.isa.abi import AttachType, ProgType
from pybpf.target.profile import NAMES, profile
from pybpf.verifier.contexts import ContextAccess, context, layout
from pybpf.verifier.results import lsm_result_range, refusal, result_range

PROFILES = [profile(name) for name in NAMES]


def load(prog_type, offset, size, version=(6, 12), attach=0, **options):
    """Return what a loaded value is taken for, or None where the load is refused."""
    answer = context(version, prog_type, attach, **options).access(offset, size, write=False)
    return answer.kind if isinstance(answer, ContextAccess) else None


def store(prog_type, offset, size, version=(6, 12), attach=0, **options):
    answer = context(version, prog_type, attach, **options).access(offset, size, write=True)
    return isinstance(answer, ContextAccess)


@pytest.mark.parametrize(
    ("prog_type", "offset", "size", "kind"),
    [
        (ProgType.XDP, 0, 4, "pkt"),
        (ProgType.XDP, 4, 4, "pkt_end"),
        (ProgType.XDP, 8, 4, "pkt_meta"),
        (ProgType.XDP, 0, 8, None),
        (ProgType.XDP, 2, 2, None),
        (ProgType.XDP, 12, 4, "scalar"),
        (ProgType.XDP, 20, 4, None),  # of a devmap's programs only
        (ProgType.XDP, 24, 4, None),
        (ProgType.SOCKET_FILTER, 0, 4, "scalar"),
        (ProgType.SOCKET_FILTER, 3, 1, "scalar"),
        (ProgType.SOCKET_FILTER, 2, 2, "scalar"),
        (ProgType.SOCKET_FILTER, 0, 8, None),
        (ProgType.SOCKET_FILTER, 76, 4, None),
        (ProgType.SCHED_CLS, 76, 4, "pkt"),
        (ProgType.SCHED_CLS, 168, 8, "sock_common_or_null"),
        (ProgType.SCHED_CLS, 168, 4, None),
        (ProgType.SCHED_CLS, 180, 1, "scalar"),
        (ProgType.FLOW_DISSECTOR, 144, 8, "flow_keys"),
        (ProgType.FLOW_DISSECTOR, 0, 4, None),
        (ProgType.SK_MSG, 0, 8, "pkt"),
        (ProgType.SK_MSG, 0, 4, None),
        (ProgType.SOCK_OPS, 184, 8, "sock_or_null"),
        (ProgType.KPROBE, 160, 8, "scalar"),
        (ProgType.KPROBE, 168, 8, None),
        (ProgType.TRACEPOINT, 0, 8, None),
        (ProgType.TRACEPOINT, 8, 8, "scalar"),
        (ProgType.TRACEPOINT, 8184, 8, "scalar"),
        (ProgType.TRACEPOINT, 8192, 1, None),
        (ProgType.TRACEPOINT, -8, 8, "scalar"),  # a gap in the kernel's check
        (ProgType.RAW_TRACEPOINT, 88, 8, "scalar"),
        (ProgType.RAW_TRACEPOINT, 96, 8, None),
        (ProgType.RAW_TRACEPOINT_WRITABLE, 0, 8, "tp_buffer"),
        (ProgType.RAW_TRACEPOINT_WRITABLE, 0, 4, None),
        (ProgType.PERF_EVENT, 0, 8, "scalar"),
        (ProgType.PERF_EVENT, 0, 4, None),
        (ProgType.PERF_EVENT, 168, 4, "scalar"),
        (ProgType.NETFILTER, 8, 8, "trusted_ptr_sk_buff"),
    ],
)
def test_loads(prog_type, offset, size, kind):
    assert load(prog_type, offset, size) == kind


def test_the_kernels_words_for_a_refusal():
    answer = context((6, 12), ProgType.XDP).access(24, 4, write=False)

    assert answer == "invalid bpf_context access off=24 size=4"


@pytest.mark.parametrize(
    ("prog_type", "offset", "size", "allowed"),
    [
        (ProgType.SOCKET_FILTER, 48, 4, True),
        (ProgType.SOCKET_FILTER, 48, 8, True),
        (ProgType.SOCKET_FILTER, 64, 8, False),
        (ProgType.SOCKET_FILTER, 67, 1, True),
        (ProgType.SOCKET_FILTER, 8, 4, False),
        (ProgType.SCHED_CLS, 8, 4, True),
        (ProgType.SCHED_CLS, 8, 1, False),
        (ProgType.SCHED_CLS, 76, 4, False),
        (ProgType.XDP, 16, 4, False),
        (ProgType.KPROBE, 0, 8, False),
    ],
)
def test_stores(prog_type, offset, size, allowed):
    assert store(prog_type, offset, size) is allowed


def test_attach_types_decide():
    assert load(ProgType.XDP, 20, 4, attach=AttachType.XDP_DEVMAP) == "scalar"
    ip4, ip6 = AttachType.CGROUP_INET4_CONNECT, AttachType.CGROUP_INET6_CONNECT
    assert load(ProgType.CGROUP_SOCK_ADDR, 4, 4, attach=ip4) == "scalar"
    assert load(ProgType.CGROUP_SOCK_ADDR, 4, 4, attach=ip6) is None
    assert load(ProgType.CGROUP_SOCK_ADDR, 8, 8, attach=ip6) == "scalar"
    assert load(ProgType.CGROUP_SOCK_ADDR, 12, 8, attach=ip6) is None
    assert store(ProgType.CGROUP_SOCK_ADDR, 16, 8, attach=ip6)
    assert not store(ProgType.CGROUP_SOCK_ADDR, 16, 2, attach=ip6)


def test_releases_decide():
    assert load(ProgType.SCHED_CLS, 184, 8, (5, 15)) is None
    assert load(ProgType.SCHED_CLS, 184, 8, (6, 1)) == "scalar"
    assert context((5, 15), ProgType.SCHED_CLS).size == 184
    assert context((6, 1), ProgType.SCHED_CLS).size == 192
    assert load(ProgType.SK_REUSEPORT, 40, 8, (5, 10)) is None
    assert load(ProgType.SK_REUSEPORT, 40, 8, (5, 15)) == "sock"


def test_unprivileged_users_see_less():
    assert load(ProgType.CGROUP_SKB, 76, 4) == "pkt"
    assert load(ProgType.CGROUP_SKB, 76, 4, privileged=False) is None
    assert store(ProgType.CGROUP_SKB, 152, 8)
    assert not store(ProgType.CGROUP_SKB, 152, 8, privileged=False)
    assert load(ProgType.CGROUP_SKB, 152, 8, privileged=False) == "scalar"


@pytest.mark.parametrize("known", PROFILES, ids=NAMES)
def test_every_type_has_a_context(known):
    for prog_type in known.program_types:
        for attach in known.attach_types(prog_type) - {0} or {0}:
            assert context(known.version, prog_type, attach) is not None, (prog_type, attach)


@pytest.mark.parametrize("known", PROFILES, ids=NAMES)
def test_fields_lie_within_their_structure_and_apart(known):
    for prog_type in known.program_types:
        seen = context(known.version, prog_type, max(known.attach_types(prog_type), default=0))
        ends = [(field.offset, field.offset + field.size) for field in seen.fields]
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ends))
        assert all(end <= seen.size for _, end in ends)


@pytest.mark.parametrize(
    ("prog_type", "attach", "allowed"),
    [
        (ProgType.XDP, 0, None),
        (ProgType.CGROUP_SKB, AttachType.CGROUP_INET_INGRESS, (0, 1)),
        (ProgType.CGROUP_SKB, AttachType.CGROUP_INET_EGRESS, (0, 3)),
        (ProgType.CGROUP_SOCK_ADDR, AttachType.CGROUP_UDP4_RECVMSG, (1, 1)),
        (ProgType.CGROUP_SOCK_ADDR, AttachType.CGROUP_INET4_BIND, (0, 3)),
        (ProgType.TRACING, AttachType.TRACE_FENTRY, (0, 0)),
        (ProgType.TRACING, AttachType.MODIFY_RETURN, None),
        (ProgType.KPROBE, AttachType.TRACE_KPROBE_SESSION, (0, 1)),
    ],
)
def test_results(prog_type, attach, allowed):
    assert result_range((6, 12), prog_type, attach) == allowed


def test_results_of_lsm_programs_depend_on_the_hook_since_6_12():
    assert lsm_result_range((6, 6), returns_bool=False, returns_void=False) is None
    assert lsm_result_range((6, 12), returns_bool=False, returns_void=False) == (-4095, 0)
    assert lsm_result_range((6, 12), returns_bool=True, returns_void=False) == (0, 1)
    assert lsm_result_range((6, 12), returns_bool=False, returns_void=True) is None


def test_the_kernels_words_for_a_result():
    assert refusal((6, 12), (0, 1), 1000, 1000) == (
        "At program exit the register R0 has smin=1000 smax=1000 should have been in [0, 1]"
    )
    assert refusal((6, 1), (0, 1), 1000, 1000) == (
        "At program exit the register R0 has value (0x3e8; 0x0) should have been in (0x0; 0x1)"
    )


def test_layouts_are_all_that_can_be_loaded():
    sock = layout("bpf_sock", (6, 12))

    assert sock.access(24, 4, write=False).field.name == "src_ip4"
    assert sock.access(24, 4, write=True) == "invalid bpf_context access off=24 size=4"
    with pytest.raises(KeyError):
        layout("nonsense", (6, 12))
