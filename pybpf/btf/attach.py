"""What a typed program is attached to, by name, in; its number among a kernel's types out.

Source: find_attach_btf_id and libbpf's prefixes of the kinds of programs; check_struct_ops_btf_id
in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from collections.abc import Mapping

from pybpf.btf.reader import Btf, Kind
from pybpf.corpus import CorpusProgram
from pybpf.isa.abi import AttachType, ProgType

# What the kernel's types call that which the programs of a section are attached to.
TARGETS: Mapping[int, tuple[Kind, str]] = {
    AttachType.TRACE_RAW_TP: (Kind.TYPEDEF, "btf_trace_"),
    AttachType.TRACE_FENTRY: (Kind.FUNC, ""),
    AttachType.TRACE_FEXIT: (Kind.FUNC, ""),
    AttachType.MODIFY_RETURN: (Kind.FUNC, ""),
    AttachType.LSM_MAC: (Kind.FUNC, "bpf_lsm_"),
    AttachType.LSM_CGROUP: (Kind.FUNC, "bpf_lsm_"),
    AttachType.TRACE_ITER: (Kind.FUNC, "bpf_iter_"),
}


def attach_point(types: Btf, program: CorpusProgram) -> tuple[int, int]:
    """Return the attach type with which a program is loaded, and the type's number (0: none)."""
    attach = program.expected_attach_type
    if not program.attach_to:
        return attach, 0
    if program.prog_type == ProgType.STRUCT_OPS:
        struct, _, member = program.attach_to.partition(".")
        number = types.struct(struct) or 0
        names = [name for name, _ in types.fields(number)]
        return names.index(member) if member in names else len(names), number
    if program.prog_type not in {ProgType.TRACING, ProgType.LSM}:
        return attach, 0
    kind, prefix = TARGETS.get(attach, (Kind.FUNC, ""))
    return attach, types.find(kind, prefix + program.attach_to) or 0


def named_ksym(types: Btf, name: str) -> int | None:
    """Return the number of the variable or the function that a kernel calls so."""
    found = types.find(Kind.VAR, name)
    return types.find(Kind.FUNC, name) if found is None else found
