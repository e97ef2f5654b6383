"""A program's own type information in; special members of map values, and functions, out.

Source: btf_parse_fields, btf_prepare_func_args and check_btf_func in kernel/bpf/btf.c and
verifier.c.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from pybpf.dataclass import dataclass
from pybpf.verifier.program import Checked
from pybpf.verifier.refusal import Refusal, Unmodelled

if TYPE_CHECKING:
    from pybpf.btf.reader import Btf

_RECORD = 8
_SPECIAL = {
    "bpf_spin_lock": "spin_lock",
    "bpf_res_spin_lock": "res_spin_lock",
    "bpf_timer": "timer",
    "bpf_wq": "workqueue",
    "bpf_task_work": "task_work",
    "bpf_list_head": "list_head",
    "bpf_list_node": "list_node",
    "bpf_rb_root": "rb_root",
    "bpf_rb_node": "rb_node",
    "bpf_refcount": "refcount",
}


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


def special_fields(types: Btf, number: int) -> Mapping[int, tuple[str, int]]:
    """Return the special members of a map's value by their offset: kind, and size in bytes."""
    from pybpf.btf.reader import Kind

    found: dict[int, tuple[str, int]] = {}
    number = types.skip(number)
    if types.kind(number) is not Kind.STRUCT:
        return found
    for _, member in types.fields(number):
        inner = types.skip(member.type)
        kind = types.kind(inner)
        if kind is Kind.STRUCT and (word := _SPECIAL.get(types.name(inner))):
            found[member.bit_offset // 8] = word, types.size(inner) or 0
        elif _holds_special(types, inner):
            raise Unmodelled("a map value with pointers or nested special members")
    return found


def _holds_special(types: Btf, number: int) -> bool:
    from pybpf.btf.reader import Kind

    kind = types.kind(number)
    if kind is Kind.PTR:
        return types.kind(types.target(number)) is Kind.TYPE_TAG
    if kind is Kind.ARRAY:
        return _holds_special(types, types.skip(types.element(number)))
    if kind not in {Kind.STRUCT, Kind.UNION}:
        return False
    if types.name(number) in _SPECIAL:
        return True
    return any(_holds_special(types, types.skip(m.type)) for _, m in types.fields(number))


def check_functions(program: Checked) -> dict[int, Function]:
    """Return the functions by number of subprogram; raises Refusal where the types do not fit."""
    subject = program.subject
    types = read_types(subject.btf)
    if types is None or not subject.func_info:
        return {}
    whole = len(subject.func_info) // _RECORD * _RECORD
    records = list(struct.iter_unpack("<II", subject.func_info[:whole]))
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
    args = tuple(argument(types, arg, prog_type) for _, arg in proto.params)
    result = proto.returns
    return Function(
        name,
        types.linkage(number) is Linkage.GLOBAL,
        args,
        bool(result) and types.kind(types.skip(result)) in {Kind.INT, Kind.ENUM, Kind.ENUM64},
        not result,
    )
