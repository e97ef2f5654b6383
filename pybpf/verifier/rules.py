"""A kernel profile and a program's flags in; the choices that the verifier's steps ask for out."""

from __future__ import annotations

from collections.abc import Mapping

from pybpf.isa.abi import AttachType, ProgFlag, ProgType
from pybpf.target.profile import Profile
from pybpf.verifier import opcodes as op
from pybpf.verifier.arithmetic import arithmetic
from pybpf.verifier.opcodes import known_opcodes
from pybpf.verifier.precision import precision_of

_FLAGS: Mapping[ProgFlag, tuple[int, int]] = {
    ProgFlag.XDP_HAS_FRAGS: (5, 18), ProgFlag.XDP_DEV_BOUND_ONLY: (6, 3),
    ProgFlag.TEST_REG_INVARIANTS: (6, 8), ProgFlag.TOKEN_FD: (6, 9),
}  # fmt: skip
"""The release that first knows a flag, of those that kernels got after BPF_F_SLEEPABLE."""


class Rules:
    """What a kernel release and the caller's rights decide.

    ``version``: (major, minor). ``privileged``: the caller may leak pointers, loop, and more
    (CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN). The other attributes say what the kernel has or does;
    the release that brought it stands beside it. ``math`` computes with scalars as that kernel;
    ``limits`` are the profile's.
    """

    __slots__ = (
        "allow_leaks", "allow_uninit_stack", "checks_all_slots", "folds_offsets", "forgets_dead",
        "has_arena", "has_atomics", "has_btf_id", "has_fd_array", "has_func", "has_gotol",
        "has_kfunc_modules", "has_kfuncs", "has_load_acquire", "has_movsx", "has_signed_division",
        "known_flags", "limits", "load_modes", "math", "opcodes", "privileged", "profile",
        "version",
    )  # fmt: skip

    def __init__(self, profile: Profile, *, privileged: bool = True) -> None:
        version = profile.version
        self.profile = profile
        self.version = version
        self.privileged = privileged
        self.allow_leaks = privileged
        # Linux commit 6715df8d5d24 ("bpf: Allow reads from uninit stack") (in v6.3, and in 6.1's
        # stable releases)
        self.allow_uninit_stack = privileged and version >= (6, 1)
        self.limits = profile.limits
        self.math = arithmetic(precision_of(version))
        has = profile.instructions
        self.has_gotol = "gotol" in has or version >= (6, 6)
        self.opcodes = known_opcodes(version, gotol=self.has_gotol)
        self.load_modes = {op.MEM, op.MEMSX} if version >= (6, 6) else {op.MEM}
        self.has_atomics = version >= (5, 12)
        self.has_btf_id = version >= (5, 10)
        self.has_func = self.has_kfuncs = version >= (5, 13)
        self.has_fd_array = version >= (5, 14)
        self.has_kfunc_modules = version >= (5, 16)
        self.has_movsx = self.has_signed_division = version >= (6, 6)
        self.has_arena = version >= (6, 9)
        self.has_load_acquire = version >= (6, 15)
        self.known_flags = sum(flag for flag in ProgFlag if version >= _FLAGS.get(flag, (0, 0)))
        self.checks_all_slots = self.folds_offsets = self.forgets_dead = version >= (7, 0)

    def may_sleep(self, kind: ProgType, attach: int) -> bool:
        """Whether programs of a type may be sleepable (can_be_sleepable)."""
        new = self.since(7, 0)
        if kind is ProgType.TRACING:
            return new or attach != AttachType.TRACE_RAW_TP
        if kind is ProgType.LSM:
            return not new or attach == AttachType.LSM_MAC
        if kind in {ProgType.TRACEPOINT, ProgType.RAW_TRACEPOINT}:
            return new
        uprobes = kind is ProgType.KPROBE and self.since(6, 0)
        return uprobes or (kind is ProgType.STRUCT_OPS and self.since(6, 1)) or (
            kind is ProgType.SYSCALL
        )  # fmt: skip

    def since(self, major: int, minor: int) -> bool:
        """Whether the kernel is that release or a later one."""
        return self.version >= (major, minor)
