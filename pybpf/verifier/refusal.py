"""How a step of the verifier ends a run: refused as the kernel would, or not modelled."""

from __future__ import annotations


class Refusal(Exception):
    """The kernel rejects the program; ``message`` is its own line of the log, without newline.

    ``insn`` is the slot where; None: the one that is being looked at. ``errno`` is what bpf(2)
    returns.
    """

    def __init__(self, message: str, insn: int | None = None, errno: int = 22) -> None:
        super().__init__(message)
        self.message = message
        self.insn = insn
        self.errno = errno


class Unmodelled(Exception):
    """The model cannot say what the kernel does here: the verdict is 'unknown'; ``reason`` why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def needs_types(what: str) -> Unmodelled:
    """Return why something is unknown without the types of the kernel, and what to give."""
    return Unmodelled(f"{what}, without the kernel's types (--btf FILE, or --kernel live)")
