"""A compiled script in; what its kernel's verifier would say, by the model, on stderr out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pybpf.cli import printable

if TYPE_CHECKING:
    from pybpf.errors import KernelError
    from pybpf.script import CompiledScript
    from pybpf.target.target import Target

_SECONDS = 10


def check(script: CompiledScript, target: Target, *, verbose: bool) -> int:
    """Judge all programs of a script by the model; return 1 where it rejects one, else 0.

    The kernel is that of the profile nearest to the target's release. What the model cannot say is
    told where ``verbose`` asks for it; of big-endian machines it can say nothing.
    """
    if target.arch.byteorder != "little":
        if verbose:
            print("note: the model is of little-endian machines only", file=sys.stderr)
        return 0
    from pybpf.cli.verdict import rejection
    from pybpf.target.profile import nearest, profile
    from pybpf.verifier.subject import of_script
    from pybpf.verifier.within import verify_within

    kernel = profile(nearest(target.release))
    status = 0
    sys.stdout.flush()
    for subject in of_script(script):
        report = verify_within(subject.program, kernel, _SECONDS)
        if report.verdict == "reject":
            print(printable(rejection(subject, report)), file=sys.stderr)
            print(f"  hint: so says the model of Linux {kernel.name}; --no-verify does not ask it",
                  file=sys.stderr)  # fmt: skip
            status = 1
        elif verbose:
            said = "accepts it" if report.verdict == "accept" else f"cannot say: {report.message}"
            print(printable(f"note: {subject.name}: the model of Linux {kernel.name} {said}"),
                  file=sys.stderr)  # fmt: skip
    return status


def explain_refusal(error: KernelError) -> None:
    """Say in an error with a verifier's log what its reason means, and what to change."""
    if not error.log:
        return
    from pybpf.kernel.rejection import verifier_reason
    from pybpf.verifier.explain import explain

    reason = verifier_reason(error.log)
    explanation = explain(reason[0]) if reason else None
    if explanation is not None:
        error.hints += (f"why: {explanation.why}", f"fix: {explanation.fix}")
