"""A program and a kernel's rules in; a ``Checked`` whose structure holds, or Refusal, out.

What the kernel looks at before it follows any path, in its order: add_subprog_and_kfunc,
check_subprogs, check_btf_info (check_abnormal_return), resolve_pseudo_ldimm64, check_cfg. Source:
kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.corpus import CorpusMap, CorpusProgram
from pybpf.isa.abi import MapType
from pybpf.verifier import opcodes as op
from pybpf.verifier.allowed import is_gpl
from pybpf.verifier.cfg import walk
from pybpf.verifier.exceptions import find_catching, spread_throws
from pybpf.verifier.kerneltypes import KernelTypes
from pybpf.verifier.ksyms import link_ksyms
from pybpf.verifier.progbtf import check_functions, read_types
from pybpf.verifier.program import Checked, MapInfo, Raw, Subprogram, map_info, slots_of
from pybpf.verifier.records import Fields, object_fields, value_fields
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.registers import FRAME_POINTER
from pybpf.verifier.reserved import refuse_fields
from pybpf.verifier.rules import Rules

_MAX_VAR_OFF = 1 << 29
_EPERM, _E2BIG, _EBADF, _EBUSY, _EPROTO = 1, 7, 9, 16, 71
_PAGE = 4096


def check_structure(
    subject: CorpusProgram, rules: Rules, types: KernelTypes | None = None
) -> Checked:
    """Return the program made ready; raises Refusal with the kernel's message."""
    count = len(subject.insns) // 8
    limits = rules.limits
    most = limits.insns if rules.privileged else limits.insns_unprivileged
    if not 0 < count <= most:
        raise Refusal("", errno=_E2BIG)
    program = Checked(subject, slots_of(subject.insns))
    program.types = read_types(subject.btf)
    if program.types is not None and rules.since(6, 2):
        program.objects = object_fields(program.types, rules.version, types)
    _link(program)
    if subject.ksyms:
        link_ksyms(program, types)
    _add_subprograms(program, rules, find_catching(program, subject, rules))
    _check_subprograms(program)
    program.functions = check_functions(program)
    if not program.functions:
        _check_abnormal_return(program)
    _resolve_lddw(program, rules, types)
    walk(program, rules)
    if subject.kfuncs:
        from pybpf.verifier.kfuncs import mark_kfuncs

        mark_kfuncs(program)
        program.throwing = spread_throws(program)
    return program


def _link(program: Checked) -> None:
    """Say in each lddw with a fixup what it loads, as the loader writes it."""
    for fixup in program.subject.fixups:
        slot = program.slots[fixup.insn]
        slot.src = op.MAP_FD or 0 if fixup.kind == "map_fd" else op.MAP_VALUE or 0


def _add_subprograms(program: Checked, rules: Rules, catching: int) -> None:
    slots = program.slots
    starts = {0, catching}
    for at, slot in enumerate(slots):
        is_call = slot.code == op.CALL and slot.src in {op.CALL_LOCAL, op.CALL_KFUNC}
        if not is_call and not (slot.code == op.LDDW and slot.src == op.FUNC):
            continue
        if not rules.privileged:
            raise Refusal(
                "loading/calling other bpf or kernel functions are allowed for CAP_BPF and "
                "CAP_SYS_ADMIN",
                at, _EPERM,
            )  # fmt: skip
        if is_call and slot.src == op.CALL_KFUNC:
            _check_kfunc(program, rules, at, slot)
            continue
        start = at + slot.imm + 1
        if not 0 <= start < len(slots):
            raise Refusal("call to invalid destination", at)
        starts.add(start)
        if len(starts) > rules.limits.subprograms:
            raise Refusal("too many subprograms", at, _E2BIG)
    ordered = sorted(starts)
    for index, (start, end) in enumerate(zip(ordered, [*ordered[1:], len(slots)], strict=True)):
        program.subprograms.append(Subprogram(index, start, end))
        program.subprogram_of += [index] * (end - start)
        program.subprogram_at[start] = index
    if catching:
        program.catching = program.subprogram_at[catching]
        program.subprograms[program.catching].is_async = True


def _check_kfunc(program: Checked, rules: Rules, at: int, slot: Raw) -> None:
    """Raise Refusal for a call of a function of the kernel that no program could make."""
    if not rules.has_kfuncs:
        return
    if not is_gpl(program.subject.licence):
        raise Refusal("cannot call kernel function from non-GPL compatible program", at)
    if slot.off and rules.has_kfunc_modules:
        if slot.off < 0:
            raise Refusal("negative offset disallowed for kernel module function call", at)
        raise Refusal("kfunc offset > 0 without fd_array is invalid", at, _EPROTO)


def _check_subprograms(program: Checked) -> None:
    for sub in program.subprograms:
        for at in range(sub.start, sub.end):
            slot = program.slots[at]
            code = slot.code
            kind = code & op.CLASS
            if code == op.CALL and slot.src == 0 and slot.imm == op.TAIL_CALL:
                sub.has_tail_call = True
            if kind == op.LD and code & op.MODE in {op.ABS, op.IND}:
                sub.has_ld_abs = True
            if kind in {op.JMP, op.JMP32} and code & op.OP not in {op.OP_EXIT, op.OP_CALL}:
                target = at + 1 + (slot.imm if code == op.GOTOL else slot.off)
                if not sub.start <= target < sub.end:
                    raise Refusal(f"jump out of range from insn {at} to {target}", at)
        if program.slots[sub.end - 1].code not in {op.EXIT, op.JA, op.GOTOL}:
            raise Refusal("last insn is not an exit or jmp", sub.end - 1)


def _check_abnormal_return(program: Checked) -> None:
    for sub in program.subprograms[1:]:
        if sub.has_ld_abs:
            raise Refusal("LD_ABS is not allowed in subprogs without BTF", sub.start)
        if sub.has_tail_call:
            raise Refusal("tail_call is not allowed in subprogs without BTF", sub.start)


def _resolve_lddw(program: Checked, rules: Rules, types: KernelTypes | None) -> None:
    slots = program.slots
    maps = [
        map_info(spec, lambda one: _fields_of(program, one, rules, types))
        for spec in program.subject.maps
    ]
    fixed = {fixup.insn: maps[fixup.map] for fixup in program.subject.fixups}
    at = 0
    while at < len(slots):
        slot = slots[at]
        if message := _refuse_slot(slot, rules):
            raise Refusal(message, at)
        if slot.code != op.LDDW:
            at += 1
            continue
        second = slots[at + 1] if at + 1 < len(slots) else None
        if second is None or second.code or second.dst or second.src or second.off:
            raise Refusal("invalid bpf_ld_imm64 insn", at)
        if slot.off and rules.checks_all_slots:
            raise Refusal("BPF_LD_IMM64 uses reserved fields", at)
        if slot.src:
            _resolve(program, rules, at, slot, second, fixed.get(at))
        at += 2


def _fields_of(
    program: Checked, spec: CorpusMap, rules: Rules, kernel: KernelTypes | None
) -> Fields:
    types = program.types
    if types is None or not spec.btf_value:
        return {}
    return value_fields(types, spec.btf_value, rules.version, kernel)


def _refuse_slot(slot: Raw, rules: Rules) -> str | None:
    """Return what the kernel says of a slot that is no instruction, before it follows any path."""
    code, kind = slot.code, slot.code & op.CLASS
    if rules.checks_all_slots:
        if code not in rules.opcodes:
            return f"unknown opcode {code:02x}"
        if max(slot.dst, slot.src) > FRAME_POINTER:
            return f"R{slot.dst if slot.dst > FRAME_POINTER else slot.src} is invalid"
    if kind == op.LDX and (code & op.MODE not in rules.load_modes or slot.imm):
        return "BPF_LDX uses reserved fields"
    if not rules.has_atomics and kind == op.STX and (
        code & op.MODE not in {op.MEM, op.ATOMIC} or slot.imm
    ):  # fmt: skip
        return "BPF_STX uses reserved fields"
    if code == op.LDDW:
        return None
    if code not in rules.opcodes:
        return f"unknown opcode {code:02x}"
    return refuse_fields(slot, rules) if rules.checks_all_slots else None


def _resolve(
    program: Checked, rules: Rules, at: int, slot: Raw, second: Raw, known: MapInfo | None
) -> None:
    if slot.src == op.BTF_ID and rules.has_btf_id:
        if at not in program.ksyms:
            raise Unmodelled("lddw of a BTF id whose name is not told")
        return
    if slot.src == op.FUNC and rules.has_func:
        return
    values = {op.MAP_VALUE, op.MAP_IDX_VALUE} if rules.has_fd_array else {op.MAP_VALUE}
    whole = {op.MAP_FD, op.MAP_IDX} if rules.has_fd_array else {op.MAP_FD}
    if slot.src not in values and (slot.src not in whole or second.imm):
        raise Refusal("unrecognized bpf_ld_imm64 insn", at)
    if slot.src in {op.MAP_IDX, op.MAP_IDX_VALUE}:
        raise Refusal("fd_idx without fd_array is invalid", at, _EPROTO)
    if known is None:
        raise Refusal(f"fd {slot.imm} is not pointing to valid bpf_map", at, _EBADF)
    if known not in program.maps_used:
        most = rules.limits.used_maps
        if len(program.maps_used) >= most:
            text = f"The total number of maps per program has reached the limit of {most}"
            raise Refusal(text, at,
                          _E2BIG)  # fmt: skip
        check_compatible(known, program.subject, rules)
        _note_arena(program, rules, known)
        program.maps_used.append(known)
    program.map_at[at] = known
    if slot.src == op.MAP_VALUE:
        _check_value_address(known, rules, second.imm & 0xFFFFFFFF, at)


def _note_arena(program: Checked, rules: Rules, known: MapInfo) -> None:
    """Note the arena that a program uses; raises Refusal for a second one."""
    if known.type != MapType.ARENA:
        return
    if program.arena is not None:
        raise Refusal("Only one arena per program", errno=_EBUSY)
    if not rules.privileged:
        raise Refusal("CAP_BPF and CAP_PERFMON are required to use arena", errno=_EPERM)
    program.arena = known


def _check_value_address(known: MapInfo, rules: Rules, off: int, at: int) -> None:
    if off >= _MAX_VAR_OFF and not rules.since(7, 0):
        raise Refusal(f"direct value offset of {off} is not allowed", at)
    if known.type == MapType.ARENA:
        if off > known.max_entries * _PAGE:
            raise Refusal(f"invalid access to map value pointer, value_size=0 off={off}", at)
        return
    # An array has one value to point into only if it has one entry: array_map_direct_value_addr.
    if known.type != MapType.ARRAY:
        raise Refusal("no direct value access support for this map type", at)
    if known.max_entries != 1 or off >= known.value_size:
        raise Refusal(
            f"invalid access to map value pointer, value_size={known.value_size} off={off}", at
        )


def check_compatible(known: MapInfo, subject: CorpusProgram, rules: Rules) -> None:
    """Raise Refusal where programs of that type cannot use the map."""
    from pybpf.verifier.mapcompat import refuse_map

    if message := refuse_map(known, subject, rules):
        raise Refusal(message)
