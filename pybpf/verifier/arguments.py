"""One argument of a helper: its register in; what it tells of the call noted, or Refusal, out.

Source: check_func_arg, get_constant_map_key and check_reg_const_str in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.isa.abi import MapType, ProgType
from pybpf.isa.helpers import HELPERS
from pybpf.verifier.access import check_alignment
from pybpf.verifier.argtypes import check_offset, check_type
from pybpf.verifier.callmeta import Call
from pybpf.verifier.dynptrs import check_dynptr, held_by
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import (
    BASE,
    DYNPTR,
    PACKET,
    PACKET_META,
    SCALAR,
    SPILL,
    STACK,
    ZERO,
)
from pybpf.verifier.kptrs import check_place
from pybpf.verifier.locks import check_lock
from pybpf.verifier.packet import may_read_packet
from pybpf.verifier.pointers import prohibit
from pybpf.verifier.protos import Arg, Argument, TypeFlag
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.regions import check_region, check_size_pair
from pybpf.verifier.registers import EACCES, leaks, read
from pybpf.verifier.stackareas import EMPTY
from pybpf.verifier.state import Reg, State
from pybpf.verifier.timers import check_timer
from pybpf.verifier.values import check_value, may_write

CONST_KEYED = frozenset({MapType.ARRAY, MapType.PERCPU_ARRAY})
SOCK_MAPS = frozenset({MapType.SOCKMAP, MapType.SOCKHASH})
_PEEK = HELPERS["bpf_map_peek_elem"]
_SPIN_LOCK = HELPERS["bpf_spin_lock"]


def check_argument(env: Env, state: State, call: Call, index: int) -> None:
    """Check argument ``index`` (0 to 4) of a call, in register ``index + 1``."""
    arg = call.proto.args[index]
    number = index + 1
    reg = read(state.frame.regs, number)
    if arg.kind is Arg.ANYTHING:
        if leaks(env, reg):
            raise prohibit(number, "leaks addr into helper function")
        return
    if reg.kind & BASE in {PACKET, PACKET_META} and not _takes_packets(env, call):
        raise Refusal("helper access to the packet is not allowed", errno=EACCES)
    if arg.kind is Arg.PTR_TO_MAP_VALUE:
        arg = _of_map(env, call, arg, reg)
    null = reg.is_null and bool(arg.flags & TypeFlag.NULL)
    if not null:
        check_type(env, number, reg, arg, call.proto.name, call.pointer)
        check_offset(env, number, reg, arg)
    if arg.flags & TypeFlag.RELEASE:
        _note_release(env, state, call, number, arg)
    if reg.ref and arg.kind is not Arg.KPTR_XCHG_DEST:
        if call.ref:
            raise Refusal(
                f"{'' if env.rules.since(7, 0) else 'verifier internal error: '}"
                f"more than one arg with ref_obj_id R{number} {reg.ref} {call.ref}",
                errno=EACCES if env.rules.since(7, 0) else 14,
            )
        call.ref = reg.ref
    _check_kind(env, state, call, number, arg, null=null)


def _takes_packets(env: Env, call: Call) -> bool:
    if env.prog_type == ProgType.CGROUP_SOCKOPT:
        return True
    return may_read_packet(env) and call.packets


def _of_map(env: Env, call: Call, arg: Argument, reg: Reg) -> Argument:
    """Return what a value of this type of map is (resolve_map_arg_type).

    Linux 7 looks beforehand for what of the stack is read, when it does not know the map yet, and
    takes this call for one that only writes: of a Bloom filter it may find nothing there any more.
    """
    assert call.map is not None
    if call.map.type in SOCK_MAPS:
        if arg.flags:
            raise Refusal("invalid arg_type for sockmap/sockhash")
        return Argument(Arg.PTR_TO_BTF_ID_SOCK_COMMON, TypeFlag.NONE)
    if call.map.type == MapType.BLOOM_FILTER and call.proto.number == _PEEK:
        if reg.kind == STACK and env.rules.since(7, 0):
            raise Unmodelled("a Bloom filter is asked for what is on the stack")
        return Argument(Arg.PTR_TO_MAP_VALUE, TypeFlag.NONE)
    return arg


def _note_release(env: Env, state: State, call: Call, number: int, arg: Argument) -> None:
    reg = state.frame.regs[number]
    if arg.kind is Arg.PTR_TO_DYNPTR:
        if reg.kind == DYNPTR:
            if env.rules.since(7, 1):
                raise Refusal("CONST_PTR_TO_DYNPTR cannot be released")
            raise Refusal(
                "cannot release unowned const bpf_dynptr"
                if env.rules.since(6, 3)
                else f"arg {number} is an unacquired reference"
            )
        if not held_by(state, reg) and not env.rules.since(7, 1):
            raise Refusal(f"arg {number} is an unacquired reference")
    elif not reg.ref and not reg.is_null:
        if env.rules.since(7, 1):
            raise Refusal(
                f"release helper bpf_{call.proto.name} expects referenced PTR_TO_BTF_ID passed to "
                f"R{number}"
            )
        raise Refusal(f"R{number} must be referenced when passed to release function")
    call.release = number


def _check_kind(
    env: Env, state: State, call: Call, number: int, arg: Argument, *, null: bool
) -> None:
    reg = state.frame.regs[number]
    flags = arg.flags
    write, uninit = bool(flags & TypeFlag.WRITE), bool(flags & TypeFlag.UNINIT)
    match arg.kind:
        case Arg.CONST_MAP_PTR:
            _note_map(call, reg)
        case Arg.PTR_TO_MAP_KEY:
            assert call.map is not None
            check_region(env, state, number, call.map.key_size)
            _find_key(env, state, call, reg)
        case Arg.PTR_TO_MAP_VALUE:
            if not null:
                assert call.map is not None
                size = call.map.value_size
                where = check_region(env, state, number, size, write=write, uninit=uninit)
                _note_fill(call, number, where)
        case Arg.PTR_TO_MEM if arg.size:
            where = check_region(env, state, number, arg.size, write=write, uninit=uninit)
            _note_fill(call, number, where)
            if flags & TypeFlag.ALIGNED:
                check_alignment(env, reg, 0, arg.size, strict=True)
        case Arg.CONST_SIZE | Arg.CONST_SIZE_OR_ZERO:
            _check_size(env, state, call, number, zero_ok=arg.kind is Arg.CONST_SIZE_OR_ZERO)
        case Arg.CONST_ALLOC_SIZE_OR_ZERO:
            if reg.val.const is None:
                word = "a const" if env.rules.since(7, 1) else "a known constant'"
                raise prohibit(number, f"is not {word}")
            call.mem_size = reg.val.const & 0xFFFFFFFF
            env.precise(state, number)
        case Arg.PTR_TO_FUNC:
            call.subprog = reg.btf
        case Arg.PTR_TO_SPIN_LOCK:
            check_lock(env, state, number, take=call.proto.number == _SPIN_LOCK)
        case Arg.PTR_TO_TIMER:
            call.map, call.uid = check_timer(env, state, number)
        case Arg.PTR_TO_DYNPTR:
            check_dynptr(env, state, number, flags)
        case Arg.PTR_TO_CONST_STR:
            check_const_str(env, state, number)
        case Arg.KPTR_XCHG_DEST:
            call.pointer = check_place(env, number, reg)
        case Arg.PTR_TO_PERCPU_BTF_ID:
            call.percpu = reg
        case _:
            pass


def _note_map(call: Call, reg: Reg) -> None:
    if call.map is not None and (call.map is not reg.map or call.uid != reg.uid):
        raise Refusal(
            f"timer pointer in R1 map_uid={call.uid} doesn't match map pointer in R2 "
            f"map_uid={reg.uid}"
        )
    call.map, call.uid = reg.map, reg.uid


def _note_fill(call: Call, number: int, where: tuple[int, int] | None) -> None:
    if where is not None:
        call.fill = (number, *where)


def _check_size(env: Env, state: State, call: Call, number: int, *, zero_ok: bool) -> None:
    before = call.proto.args[number - 2].flags
    call.most = state.frame.regs[number].val.umax
    where = check_size_pair(
        env, state, number, write=bool(before & TypeFlag.WRITE),
        uninit=bool(before & TypeFlag.UNINIT), zero_ok=zero_ok,
    )  # fmt: skip
    _note_fill(call, number - 1, where)


def _find_key(env: Env, state: State, call: Call, reg: Reg) -> None:
    """Note the key that is looked up, where the stack is known to hold it."""
    assert call.map is not None
    # Linux 6.14 began to look at keys.
    if not env.rules.since(6, 14) or call.map.type not in CONST_KEYED or not env.privileged:
        return
    if reg.kind != STACK or reg.val.const is None:
        return
    start = -(reg.off + reg.val.smin) - 1
    spi, first = start >> 3, start & 7
    frame = state.frames[reg.frame]
    kinds, spilled = frame.stack.get(spi, EMPTY)
    size = call.map.key_size

    def run(kind: int) -> int:
        count = 0
        while count <= first and kinds[first - count] == kind:
            count += 1
        return count

    if run(ZERO) >= size:
        call.key = 0
        return
    if kinds[7] != SPILL or spilled is None or spilled.kind != SCALAR or run(SPILL) != size:
        return
    if spilled.val.const is not None:
        env.precise_slot(state, reg.frame, spi)
        call.key = spilled.val.smin


def check_const_str(env: Env, state: State, number: int) -> None:
    """Raise Refusal unless a register points to a text that can never change."""
    reg = state.frame.regs[number]
    known = reg.map
    assert known is not None
    if may_write(known) or not known.frozen:
        raise prohibit(number, "does not point to a readonly map'")
    if reg.val.const is None:
        raise prohibit(number, "is not a constant address'")
    if known.type != MapType.ARRAY:
        raise Refusal("no direct value access support for this map type", errno=EACCES)
    off = reg.off + reg.val.smin
    check_value(env, number, reg, reg.off, known.value_size - off)
    if known.max_entries != 1:
        raise Refusal("direct value access on string failed", errno=524)
    if known.contents is None:
        raise Unmodelled("a text whose bytes are not known")
    if b"\0" not in known.contents[off:]:
        raise Refusal("string is not zero-terminated")
