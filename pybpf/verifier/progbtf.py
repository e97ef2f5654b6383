"""A program's own type information in; its functions out.

Source: btf_prepare_func_args and check_btf_func in kernel/bpf/btf.c and verifier.c.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING

from pybpf.dataclass import dataclass
from pybpf.verifier.program import Checked
from pybpf.verifier.refusal import Refusal, Unmodelled

if TYPE_CHECKING:
    from pybpf.btf.reader import Btf
    from pybpf.corpus import CorpusProgram

_RECORD = 8


@dataclass(frozen=True, slots=True)
class Function:
    """A subprogram as its types say; ``args``: see globalargs."""

    name: str
    is_global: bool
    args: tuple[str, ...]
    returns_scalar: bool
    returns_void: bool = False


@lru_cache(maxsize=1)
def read_types(data: bytes) -> Btf | None:
    """Return the types that a program brings along; None where it brings none.

    They are asked for twice a program, and are the same for all programs of an object.
    """
    if not data:
        return None
    from pybpf.btf.reader import Btf
    from pybpf.errors import TargetError

    try:
        return Btf(data)
    except TargetError as error:
        raise Unmodelled(f"the program's BTF: {error}") from None


def function_records(subject: CorpusProgram) -> list[tuple[int, int]]:
    """Return each function's first slot and its type, as ``func_info`` has them."""
    whole = len(subject.func_info) // _RECORD * _RECORD
    return list(struct.iter_unpack("<II", subject.func_info[:whole]))


def check_functions(program: Checked) -> dict[int, Function]:
    """Return the functions by number of subprogram; raises Refusal where the types do not fit."""
    subject = program.subject
    types = read_types(subject.btf)
    records = function_records(subject)
    if types is None or not records:
        return {}
    if len(records) != len(program.subprograms):
        raise Refusal("number of funcs in func_info doesn't match number of subprogs")
    functions: dict[int, Function] = {}
    before = -1
    for sub, (start, number) in zip(program.subprograms, records, strict=True):
        if not sub.index and start:
            raise Refusal(f"nonzero insn_off {start} for the first func info record")
        if sub.index and start <= before:
            raise Refusal(
                f"same or smaller insn offset ({start}) than previous func info record ({before})"
            )
        before = start
        if sub.start != start:
            raise Refusal("func_info BTF section doesn't match subprog layout in BPF program")
        functions[sub.index] = function = _function(types, number, subject.prog_type)
        if sub.index and not function.returns_scalar:
            if sub.has_ld_abs:
                raise Refusal("LD_ABS is only allowed in functions that return 'int'.")
            if sub.has_tail_call:
                raise Refusal("tail_call is only allowed in functions that return 'int'.")
    return functions


def _function(types: Btf, number: int, prog_type: int) -> Function:
    from pybpf.btf.reader import Kind, Linkage
    from pybpf.verifier.globalargs import argument

    if types.kind(number) is not Kind.FUNC:
        raise Refusal(f"invalid type id {number} in func info")
    name = types.name(number)
    proto = types.prototype(number) if name else None
    if proto is None:
        raise Unmodelled("the types of a function")
    args = tuple(
        argument(types, arg, prog_type, tagged=bool(types.decl_tags(number, index)))
        for index, (_, arg) in enumerate(proto.params)
    )
    result = proto.returns
    return Function(
        name,
        types.linkage(number) is Linkage.GLOBAL,
        args,
        bool(result) and types.kind(types.skip(result)) in {Kind.INT, Kind.ENUM, Kind.ENUM64},
        not result,
    )
