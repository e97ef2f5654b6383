"""Which helpers a program may call: a helper's number in; its prototype, or Refusal, out.

Source: check_helper_call and the get_func_proto functions, as kernel profiles have recorded them.
"""

from __future__ import annotations

from pybpf.isa.abi import AttachType, ProgType
from pybpf.isa.helpers import HELPER_NAMES, HELPERS
from pybpf.verifier.attach_table import MAY_D_PATH, may_sleep
from pybpf.verifier.env import Env
from pybpf.verifier.protos import CallFlag, Proto, proto
from pybpf.verifier.refusal import Refusal, Unmodelled

_LICENCES = frozenset(
    {
        "GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL",
        "Dual MPL/GPL",
    }
)  # fmt: skip
_D_PATH = HELPERS["bpf_d_path"]
_COUNT = (((6, 2), 212), ((6, 1), 210), ((6, 0), 209), ((5, 15), 176), ((5, 10), 156))
"""How many numbers of helpers kernels know, 0 included, from a release on."""


def is_gpl(licence: str) -> bool:
    """Whether the kernel takes a licence for one that goes with its own."""
    return licence in _LICENCES


def prepare(env: Env, number: int) -> Proto:
    """Return the prototype of a helper; raises Refusal where the program may not call it."""
    key = -1 - number
    found = env.facts.get(key)
    if found is None:
        found = env.facts[key] = _prepare(env, number)
    assert isinstance(found, Proto)
    return found


def _prepare(env: Env, number: int) -> Proto:
    rules = env.rules
    name = HELPER_NAMES.get(number, "bpf_unspec" if number == 0 else "unknown")
    count = next((count for since, count in _COUNT if rules.version >= since), 156)
    if not 0 <= number < count:
        raise Refusal(f"invalid func unknown#{number}")
    subject = env.program.subject
    kind = ProgType(env.prog_type)
    allowed = rules.profile.helpers(
        kind, subject.expected_attach_type, sleepable=env.sleepable, privileged=rules.privileged
    )
    # Programs that ask kernels for their helpers are attached to nothing that allows this one.
    limited = number == _D_PATH and env.target is not None and kind != ProgType.STRUCT_OPS
    if number not in allowed and not limited:
        if rules.since(6, 11):
            raise Refusal(f"program of this type cannot use helper {name}#{number}")
        raise Refusal(f"unknown func {name}#{number}")
    found = proto(number, rules.version, kind)
    if found is None:
        raise Unmodelled(f"helper {name}, of which no prototype is known")
    if CallFlag.GPL in found.flags and not is_gpl(subject.licence):
        raise Refusal("cannot call GPL-restricted function from non-GPL compatible program")
    if CallFlag.LIMITED in found.flags and not _allowed_here(env, found.name):
        raise Refusal("helper call is not allowed in probe")
    if CallFlag.SLEEP in found.flags and not env.sleepable:
        raise Refusal("helper call might sleep in a non-sleepable prog")
    return found


def _allowed_here(env: Env, name: str) -> bool:
    """Whether what a program is attached to allows a helper that is not for all."""
    target, attach = env.target, env.program.subject.expected_attach_type
    if target is None:
        raise Unmodelled(f"helper {name}, which depends on what is attached to")
    if env.prog_type == ProgType.LSM:
        return may_sleep(env.program.subject.attach_to, env.rules.version)
    if attach in {AttachType.TRACE_ITER, AttachType.TRACE_RAW_TP}:
        return name != "d_path" or attach == AttachType.TRACE_ITER
    if name == "d_path":
        return target.name in MAY_D_PATH
    return attach in {AttachType.TRACE_FENTRY, AttachType.TRACE_FEXIT} and (
        not target.name.startswith("bpf_sk_storage")
    )
