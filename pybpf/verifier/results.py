"""What programs may return: a kernel, a program's and an attach type in; a range or None out.

Source: check_return_code in kernel/bpf/verifier.c; tests/guest/test_verifier_tables.py holds the
plain types to kernels. What subprograms and callbacks may return is not among it.
"""

from __future__ import annotations

from collections.abc import Mapping

from pybpf.isa.abi import AttachType, ProgType

Version = tuple[int, int]
Range = tuple[int, int]
_MAX_ERRNO = 4095

_TWO_VALUES = frozenset(
    {
        ProgType.CGROUP_SKB,
        ProgType.CGROUP_SOCK,
        ProgType.CGROUP_SOCK_ADDR,
        ProgType.SOCK_OPS,
        ProgType.CGROUP_DEVICE,
        ProgType.CGROUP_SYSCTL,
        ProgType.CGROUP_SOCKOPT,
        ProgType.SK_LOOKUP,
        ProgType.NETFILTER,
    }
)
_ALWAYS_ONE = frozenset(
    {
        AttachType.CGROUP_UDP4_RECVMSG,
        AttachType.CGROUP_UDP6_RECVMSG,
        AttachType.CGROUP_UNIX_RECVMSG,
        AttachType.CGROUP_INET4_GETPEERNAME,
        AttachType.CGROUP_INET6_GETPEERNAME,
        AttachType.CGROUP_UNIX_GETPEERNAME,
        AttachType.CGROUP_INET4_GETSOCKNAME,
        AttachType.CGROUP_INET6_GETSOCKNAME,
        AttachType.CGROUP_UNIX_GETSOCKNAME,
    }
)
_TWO_BITS = frozenset({AttachType.CGROUP_INET4_BIND, AttachType.CGROUP_INET6_BIND})

# Attach types of KPROBE programs whose result says whether the return is traced, too.
_SESSIONS: Mapping[int, Version] = {
    AttachType.TRACE_KPROBE_SESSION: (6, 10),
    AttachType.TRACE_UPROBE_SESSION: (6, 13),
}


def result_range(version: Version, prog_type: int, attach_type: int = 0) -> Range | None:
    """Return the least and the greatest result of a program, signed; None where any will do.

    Of LSM programs the range depends on the hook too (``lsm_result_range``), of RAW_TRACEPOINT
    ones on whether they have an ``attach_btf_id``: those that have return 0.
    """
    kind = ProgType(prog_type)
    if kind is ProgType.CGROUP_SOCK_ADDR and attach_type in _ALWAYS_ONE:
        return 1, 1
    if kind is ProgType.CGROUP_SOCK_ADDR and attach_type in _TWO_BITS and version >= (5, 12):
        return 0, 3
    if kind is ProgType.CGROUP_SKB and attach_type == AttachType.CGROUP_INET_EGRESS:
        return 0, 3
    if kind in _TWO_VALUES:
        return 0, 1
    if kind is ProgType.KPROBE and version >= _SESSIONS.get(attach_type, (99, 0)):
        return 0, 1
    if kind is ProgType.TRACING:
        return _of_tracing(attach_type)
    if kind is ProgType.LSM and attach_type == AttachType.LSM_CGROUP:
        return 0, 1
    return None


def _of_tracing(attach_type: int) -> Range | None:
    match attach_type:
        case AttachType.TRACE_FENTRY | AttachType.TRACE_FEXIT:
            return 0, 0
        case AttachType.TRACE_ITER:
            return 0, 1
        case _:
            return None


def lsm_result_range(version: Version, *, returns_bool: bool, returns_void: bool) -> Range | None:
    """Return what a program of the LSM_MAC kind may return, by what its hook returns.

    Linux 6.12 began to look at that.
    """
    if version < (6, 12) or returns_void:
        return None
    return (0, 1) if returns_bool else (-_MAX_ERRNO, 0)


def refusal(
    version: Version, allowed: Range, smin: int, smax: int, *, at: str = "At program exit"
) -> str:
    """Return the kernel's words for a result between two numbers outside of the allowed range."""
    low, high = allowed
    if version >= (6, 8):
        return (
            f"{at} the register R0 has smin={smin} smax={smax} should have been in [{low}, {high}]"
        )
    value, mask = (smin & (1 << 64) - 1, 0) if smin == smax else (0, (1 << 64) - 1)
    return (
        f"{at} the register R0 has value ({value:#x}; {mask:#x}) "
        f"should have been in ({low:#x}; {high - low:#x})"
    )
