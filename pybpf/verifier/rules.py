"""A kernel profile in; the choices that the verifier's steps ask for as plain attributes out."""

from __future__ import annotations


class Rules:
    """What a kernel release and the caller's rights decide.

    ``version``: (major, minor). ``privileged``: CAP_BPF, CAP_PERFMON (and CAP_NET_ADMIN): allows
    pointer leaks, loops, more. Everything else follows from ``version``; each attribute says since
    when.
    """

    __slots__ = ("allow_leaks", "allow_uninit_stack", "max_insns", "privileged", "profile",
                 "version", "words")  # fmt: skip

    def __init__(self, version: tuple[int, int], *, privileged: bool = True) -> None:
        self.version = version
        self.privileged = privileged
        self.allow_leaks = privileged
        # Linux commit 6715df8d5d24 ("bpf: Allow reads from uninit stack") (in v6.3)
        self.allow_uninit_stack = privileged and version >= (6, 3)
        self.max_insns = 1_000_000 if privileged else 4096
        self.profile: object = None

    def since(self, major: int, minor: int) -> bool:
        """Whether the kernel is that release or a later one."""
        return self.version >= (major, minor)
