"""A typed program and a kernel's types in; what it is attached to, a Target, or Refusal, out.

Source: check_attach_btf_id, bpf_check_attach_target and check_struct_ops_btf_id in
kernel/bpf/verifier.c; btf_distill_func_proto in kernel/bpf/btf.c; bpf_lsm_verify_prog in
kernel/bpf/bpf_lsm.c; bpf_iter_prog_supported in kernel/bpf/bpf_iter.c.
"""

from __future__ import annotations

from pybpf.btf.attach import attach_point
from pybpf.btf.reader import Kind
from pybpf.corpus import CorpusProgram
from pybpf.dataclass import dataclass
from pybpf.isa.abi import AttachType, ProgFlag, ProgType
from pybpf.isa.helpers import HELPERS
from pybpf.verifier import attach_table as table
from pybpf.verifier.allowed import is_gpl
from pybpf.verifier.kerneltypes import KernelTypes
from pybpf.verifier.refusal import Refusal, Unmodelled, needs_types
from pybpf.verifier.rules import Rules

_MOST_ARGS = 12
_ARG_SIZE = 16
_ENOTSUPP = 524
_TRAMPOLINES = frozenset(
    {AttachType.TRACE_FENTRY, AttachType.TRACE_FEXIT, AttachType.MODIFY_RETURN}
)


@dataclass(frozen=True, slots=True)
class Target:
    """A function of the kernel, a tracepoint, or a member of a structure of operations.

    ``params``: names and types of the arguments in the context, as numbers of the kernel's types;
    ``returns``: the type of the result, 0 for none. ``stub``: names of the parameters of the
    function that the kernel documents a structure's member with, where it does. ``struct``: the
    structure that it is a member of, empty for others.
    """

    name: str
    params: tuple[tuple[str, int], ...]
    returns: int
    stub: tuple[str, ...] = ()
    struct: str = ""


def find_target(subject: CorpusProgram, rules: Rules, types: KernelTypes | None) -> Target:
    """Return what a program of one of the types ``contexts.TYPED`` is attached to.

    Raises Refusal where the kernel lets no such program be attached there, and Unmodelled where it
    takes more to know that.
    """
    if not subject.attach_to or subject.prog_type == ProgType.EXT:
        # A program that replaces a function is loaded with the program that has it, or not at all.
        raise Refusal("Tracing programs must provide btf_id")
    if types is None:
        raise needs_types("what the program is attached to")
    attach, number = attach_point(types.btf, subject)
    if subject.prog_type == ProgType.STRUCT_OPS:
        return _member(subject, rules, types, number, attach)
    if not number:
        raise Refusal("Tracing programs must provide btf_id")
    if subject.prog_type == ProgType.TRACING and attach == AttachType.TRACE_RAW_TP:
        name = subject.attach_to
        if subject.prog_flags & ProgFlag.SLEEPABLE and name not in table.FAULTABLE:
            raise Refusal(f"Sleepable program cannot attach to non-faultable tracepoint {name}")
        return _tracepoint(name, types, number)
    return _function(subject, rules, types, number)


def _tracepoint(name: str, types: KernelTypes, number: int) -> Target:
    btf = types.btf
    # The type has no names of arguments, which the function that a program is called by has.
    named = btf.function(f"__bpf_trace_{name}")
    proto = btf.signature(btf.pointed(btf.target(number)))
    if proto is None or not proto.params:
        raise Refusal("")
    plain = proto.params[1:]
    if named is not None and [t for _, t in named.params[1:]] == [t for _, t in plain]:
        plain = named.params[1:]
    return Target(name, plain, 0)


def _function(subject: CorpusProgram, rules: Rules, types: KernelTypes, number: int) -> Target:
    btf = types.btf
    name, proto = btf.name(number), btf.prototype(number)
    if proto is None:
        raise Refusal("")
    kind, attach = subject.prog_type, subject.expected_attach_type
    target = Target(name, proto.params, proto.returns)
    _distil(target, types)
    if kind == ProgType.LSM:
        _check_hook(subject, rules, types, number)
    elif attach == AttachType.TRACE_ITER:
        if btf.struct(f"bpf_iter__{subject.attach_to}") is None:
            raise Refusal("")
    elif attach in _TRAMPOLINES:
        sleeps = bool(subject.prog_flags & ProgFlag.SLEEPABLE)
        _check_trampoline(name, rules, attach, sleeps=sleeps)
    else:
        raise Refusal("")
    return target


def _distil(target: Target, types: KernelTypes) -> None:
    """Raise Refusal for a function whose arguments or result a trampoline cannot handle."""
    btf, name = types.btf, target.name
    if len(target.params) > _MOST_ARGS:
        raise Refusal(f"The function {name} has {len(target.params)} arguments. Too many.")
    returned = btf.skip(target.returns)
    known = returned == 0 or btf.kind(returned) in {Kind.INT, Kind.PTR, Kind.ENUM, Kind.ENUM64}
    if not known:
        word = "STRUCT" if btf.is_aggregate(returned) else "UNKNOWN"
        raise Refusal(f"The function {name} return type {word} is unsupported.")
    for index, (_, number) in enumerate(target.params):
        if not number and index == len(target.params) - 1:
            raise Refusal(f"The function {name} with variable args is unsupported.")
        inner = btf.skip(number)
        size = btf.size(inner)
        if btf.kind(inner) is Kind.ARRAY or size is None or not 0 < size <= _ARG_SIZE:
            raise Refusal(f"The function {name} arg{index} type is unsupported.")


def _check_trampoline(name: str, rules: Rules, attach: int, *, sleeps: bool) -> None:
    if name in table.DENIED:
        new = rules.since(6, 16)
        raise Refusal(
            f"Attaching tracing programs to function '{name}' is rejected." if new else ""
        )
    if attach != AttachType.TRACE_FENTRY and rules.since(6, 16) and name in table.NO_RETURN:
        raise Refusal(
            f"Attaching fexit/fsession/fmod_ret to __noreturn function '{name}' is rejected."
        )
    modifies = attach == AttachType.MODIFY_RETURN and not name.startswith("security_")
    if sleeps and name not in table.SLEEPABLE_FUNCTIONS:
        _refuse_unless_injectable(name, rules, f"{name} is not sleepable")
    elif not sleeps and modifies and name not in table.MODIFIABLE:
        _refuse_unless_injectable(name, rules, f"{name}() is not modifiable")


def _refuse_unless_injectable(name: str, rules: Rules, message: str) -> None:
    """Raise Refusal for a function that is no system call, which since Linux 7.1 may be changed.

    Kernels that can inject errors into functions (bpf_override_return) allow more than a kernel's
    types tell.
    """
    if rules.since(7, 1) and name.startswith("__x64_") and "sys_" in name:
        return
    if HELPERS["bpf_override_return"] in rules.profile.helpers(ProgType.KPROBE):
        raise Unmodelled(f"whether errors may be injected into {name}")
    raise Refusal(message)


def _check_hook(subject: CorpusProgram, rules: Rules, types: KernelTypes, number: int) -> None:
    name, btf = subject.attach_to, types.btf
    sleeps = bool(subject.prog_flags & ProgFlag.SLEEPABLE)
    points = f"attach_btf_id {number} points to"
    if sleeps and not table.may_sleep(name, rules.version):
        raise Refusal(f"bpf_lsm_{name} is not sleepable")
    if not is_gpl(subject.licence):
        raise Refusal("LSM programs must have a GPL compatible license")
    hooks = btf.find(Kind.UNION, "security_list_options")
    if hooks is None:
        raise Unmodelled("a kernel without security modules")
    if btf.member(hooks, name) is None:
        raise Refusal(f"{points} wrong type name bpf_lsm_{name}")
    if name in table.DISABLED_HOOKS or (
        name == "file_alloc_security" and rules.since(7, 0)
    ):  # fmt: skip
        raise Refusal(f"{points} disabled hook bpf_lsm_{name}")
    # Programs of cgroups go to hooks that can refuse.
    if subject.expected_attach_type == AttachType.LSM_CGROUP and not sleeps:
        return
    if subject.expected_attach_type not in {AttachType.LSM_MAC, AttachType.LSM_CGROUP}:
        raise Refusal("")


def _member(
    subject: CorpusProgram, rules: Rules, types: KernelTypes, number: int, index: int
) -> Target:
    btf = types.btf
    struct, _, member = subject.attach_to.partition(".")
    if not is_gpl(subject.licence):
        raise Refusal("struct ops programs must have a GPL compatible license")
    if not number or btf.struct(f"bpf_struct_ops_{struct}") is None:
        raise Refusal(f"attach_btf_id {number} is not a supported struct", errno=_ENOTSUPP)
    fields = types.fields(number)
    if index >= len(fields):
        raise Refusal(f"attach to invalid member idx {index} of struct {struct}")
    proto = btf.signature(btf.pointed(btf.skip(fields[index][1].type)))
    if proto is None:
        raise Refusal(f"attach to invalid member {member}(@idx {index}) of struct {struct}")
    if (struct, member) in table.UNSUPPORTED_MEMBERS:
        raise Refusal(f"attach to unsupported member {member} of struct {struct}", errno=_ENOTSUPP)
    if struct not in table.KNOWN_OPERATIONS:
        raise Unmodelled(f"operations of a {struct}")
    stub = btf.function(f"{struct}__{member}") if rules.since(6, 9) else None
    names = tuple(name for name, _ in stub.params) if stub is not None else ()
    return Target(member, proto.params, proto.returns, names, struct)
