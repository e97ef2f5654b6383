"""Variables and symbols of the kernel that a program names: its lddw in; what they load, out.

Source: check_pseudo_btf_id in kernel/bpf/verifier.c; libbpf's bpf_object__resolve_externs.
"""

from __future__ import annotations

from pybpf.btf.attach import named_ksym
from pybpf.btf.reader import Kind
from pybpf.verifier import opcodes as op
from pybpf.verifier.kerneltypes import KernelTypes
from pybpf.verifier.kinds import BTF_ID, MEM, PERCPU, RDONLY
from pybpf.verifier.program import Checked
from pybpf.verifier.refusal import Refusal, needs_types
from pybpf.verifier.state import UNKNOWN_REG, ZERO_REG, Reg, known_reg

_SOME_ADDRESS = 0xFFFFFFFF81000000
"""Where symbols are whose address nobody has said: it is a number, and not 0."""


def link_ksyms(program: Checked, types: KernelTypes | None) -> None:
    """Note what each lddw of a ksym loads; raises Refusal where the kernel has none such."""
    for one in program.subject.ksyms:
        slot = program.slots[one.insn]
        address = None if types is None else types.address(one.name)
        if not one.typed:
            if address == 0 and not one.weak:
                raise Refusal(f"the kernel has no symbol {one.name}", one.insn)
            slot.src = 0
            if address is None:
                made = UNKNOWN_REG if one.weak else known_reg(_SOME_ADDRESS)
            else:
                made = known_reg(address)
            program.ksyms[one.insn] = made
            continue
        if types is None:
            raise needs_types(f"what {one.name} is")
        number = named_ksym(types.btf, one.name)
        if number is None:
            if not one.weak:
                raise Refusal(f"the kernel's types have no {one.name}", one.insn)
            slot.src = 0
            program.ksyms[one.insn] = ZERO_REG
            continue
        if address == 0:
            raise Refusal(
                f"ldimm64 failed to find the address for kernel symbol '{one.name}'.", errno=2
            )
        slot.src = op.BTF_ID or 0
        program.ksyms[one.insn] = _loaded(types, number)


def _loaded(types: KernelTypes, number: int) -> Reg:
    btf = types.btf
    if btf.kind(number) is Kind.FUNC:
        return Reg(MEM | RDONLY)
    inner = btf.skip(btf.target(number))
    if btf.name(number) in types.per_cpu:
        made = Reg(BTF_ID | PERCPU)
        made.extra, made.btf = btf.name(inner), inner
        return made
    return types.variable(inner)
