"""One argument of a kernel function: its register in; what it tells of the call noted, out.

Source: check_kfunc_args in kernel/bpf/verifier.c.
"""

from __future__ import annotations

import re

from pybpf.verifier import iterators
from pybpf.verifier.callbacks import begin_async, element
from pybpf.verifier.dynptrs import Dynptr, check_dynptr, dynptr_at, place
from pybpf.verifier.env import Env
from pybpf.verifier.irqflags import check_flags
from pybpf.verifier.kerneltypes import is_struct
from pybpf.verifier.kinds import (
    ALLOC,
    BASE,
    BTF_ID,
    CTX,
    DYNPTR,
    FUNC,
    MAP_PTR,
    MAP_VALUE,
    MAYBE_NULL,
    NON_OWN_REF,
    NOT_INIT,
    RCU,
    SCALAR,
    SOCK_COMMON,
    SOCKET,
    TCP_SOCK,
    TRUSTED,
)
from pybpf.verifier.objectargs import check_object_argument, check_released
from pybpf.verifier.pointers import check_ptr_off
from pybpf.verifier.program import MapInfo
from pybpf.verifier.protos import TypeFlag
from pybpf.verifier.records import Field
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.regions import check_size_pair
from pybpf.verifier.registers import EACCES, is_trusted
from pybpf.verifier.state import Reg, State
from pybpf.verifier.timers import check_timer

ITERATOR = re.compile(r"bpf_iter_(\w+)_(new|next|destroy)")
_NUMBERS = frozenset({"any", "const", "size"})
_NEEDS_TRUST = frozenset({"trusted_args", "release"})
_NEEDS_VALUE = _NEEDS_TRUST | {"rcu"}
_UNSAFE = ~(BASE | TRUSTED | ALLOC | NON_OWN_REF | MAYBE_NULL)
_STRUCTURES = frozenset({BTF_ID, SOCKET, SOCK_COMMON, TCP_SOCK, MAP_PTR})
_NO_NUMBERS = frozenset({"task_struct", "cgroup"})
"""Structures with more in them than numbers, so that no memory will do."""
_EMBEDDED = frozenset({("bpf_cpumask", "cpumask")})
"""Structures that begin with another."""


class KfuncCall:
    """A call of a kernel function; ``flags``: those of its registration, without ``KF_``.

    ``ref``: the reference that an argument holds, ``release`` the register that is given back,
    ``iterator`` the first slot of the iterator, ``dynptr`` the register of the dynptr, ``size`` a
    known size, or number, ``map`` and ``uid`` the map whose value an argument points into. Of
    objects, ``member``: the root of a list or a tree; ``given``: the reference that it takes over;
    ``struct``: the type of another, which the program ``owns``. ``subprog``: the callback.
    """

    __slots__ = (
        "args", "dynptr", "flags", "given", "iterator", "map", "member", "name", "owns", "ref",
        "release", "size", "struct", "subprog", "uid",
    )  # fmt: skip

    def __init__(self, name: str, args: tuple[str, ...], flags: frozenset[str]) -> None:
        self.name = name
        self.args = args
        self.flags = flags
        self.ref = self.release = self.iterator = self.size = self.uid = 0
        self.given = self.struct = self.subprog = 0
        self.owns = False
        self.member: Field | None = None
        self.dynptr: Reg | None = None
        self.map: MapInfo | None = None


def check_kfunc_argument(env: Env, state: State, call: KfuncCall, index: int) -> None:
    """Check argument ``index`` (0 to 4), in register ``index + 1``; raises Refusal."""
    word, _, rest = call.args[index].partition(":")
    number = index + 1
    if word == "ign":
        return
    # Nobody looks whether anything was written to a register.
    reg = state.frame.regs[number]
    if reg.kind == NOT_INIT and (env.rules.since(7, 1) or word not in _NUMBERS):
        text = "variable ? access var_off=(0x0; 0xffffffffffffffff) disallowed"
        raise Refusal(text, errno=EACCES)
    if word in _NUMBERS:
        if reg.kind != SCALAR:
            raise Refusal(f"R{number} is not a scalar")
        if word == "const":
            if reg.val.const is None:
                raise Refusal(f"R{number} must be a known constant")
            env.precise(state, number)
            call.size = reg.val.const
        return
    _check_null(env, call, index, reg, word)
    if reg.ref:
        call.ref = reg.ref
        if "release" in call.flags:
            call.release = number
    match word:
        case "ctx":
            check_ptr_off(env, reg, number)
            if reg.kind != CTX:
                found = env.words(reg.kind)
                raise Refusal(f"{place(env, number)} expected pointer to ctx, but got {found}")
        case "iter":
            _check_iterator(env, state, call, number, int(rest))
        case "dynptr":
            flags = TypeFlag.RDONLY if reg.kind == DYNPTR else TypeFlag.NONE
            check_dynptr(env, state, number, flags)
            call.dynptr = dynptr_at(state, state.frame.regs[number])
        case "dynptr_new":
            _make_dynptr(env, state, call, number, rest)
        case "buf?":
            _check_buffer(env, state, call, number)
        case "btf":
            _check_struct(env, call, number, reg, rest)
        case "wq":
            if reg.kind != MAP_VALUE:
                raise Refusal(f"{place(env, number)} doesn't point to a map value")
            call.map, call.uid = check_timer(env, state, number, "workqueue", "bpf_wq")
        case "map":
            _check_map(env, call, number, reg)
        case "irq":
            family = "lock" if "lock" in call.args else "native"
            check_flags(env, state, number, save=rest == "save", family=family)
        case "func":
            if reg.kind != FUNC:
                raise Refusal(f"arg{index} expected pointer to func")
            call.subprog = reg.btf
            if call.map is not None:
                begin_async(env, state, reg.btf, element(call.map), (0, 0))
        case _:
            check_object_argument(env, state, call, number, word, rest)


def _check_null(env: Env, call: KfuncCall, index: int, reg: Reg, kind: str) -> None:
    strict = env.rules.since(7, 0) or call.flags & _NEEDS_VALUE
    if (reg.is_null or reg.kind & MAYBE_NULL) and kind != "buf?" and strict:
        word = f"R{index + 1}" if env.rules.since(7, 1) else f"arg{index}"
        raise Refusal(f"Possibly NULL pointer passed to trusted {word}", errno=EACCES)


def _check_iterator(env: Env, state: State, call: KfuncCall, number: int, count: int) -> None:
    match = ITERATOR.fullmatch(call.name)
    assert match
    kind, what = match[1], match[2]
    if what == "new":
        iterators.make(env, state, number, kind, count)
        return
    call.iterator = iterators.check(env, state, number, kind, count)
    if what == "destroy":
        iterators.destroy(env, state, number, call.iterator, count)


def _make_dynptr(env: Env, state: State, call: KfuncCall, number: int, kind: str) -> None:
    ref = 0
    if not kind:
        parent = call.dynptr
        assert parent is not None
        assert isinstance(parent.extra, Dynptr)
        kind, ref = parent.extra.kind, parent.ref
    check_dynptr(env, state, number, TypeFlag.UNINIT, kind=kind, ref=ref)


def _check_buffer(env: Env, state: State, call: KfuncCall, number: int) -> None:
    regs = state.frame.regs
    size = regs[number + 1]
    if size.kind != SCALAR:
        raise Unmodelled("a buffer whose size is a pointer")
    if not regs[number].is_null:
        try:
            if regs[number].kind & MAYBE_NULL:
                raise Unmodelled("a buffer that may be NULL")
            check_size_pair(env, state, number + 1, zero_ok=True)
            check_size_pair(env, state, number + 1, zero_ok=True, write=True)
        except Refusal as refusal:
            both = f"arg#{number - 1} arg#{number}"
            if env.rules.since(7, 1):
                both = f"R{number} and R{number + 1}"
            raise Refusal(
                f"{both} memory, len pair leads to invalid memory access", errno=refusal.errno
            ) from None
    if size.val.const is None:
        raise Refusal(f"R{number + 1} must be a known constant")
    call.size = size.val.const & 0xFFFFFFFF


def _check_struct(env: Env, call: KfuncCall, number: int, reg: Reg, name: str) -> None:
    check_released(env, call, number, reg)
    if reg.kind & BASE not in _STRUCTURES and name in _NO_NUMBERS:
        raise Refusal(
            f"{place(env, number)} pointer type STRUCT {name} must point to scalar, or struct with "
            "scalar"
        )
    if reg.kind & BASE != BTF_ID or not isinstance(reg.extra, str):
        raise Unmodelled(f"a {env.words(reg.kind)} where a structure of the kernel is expected")
    needs = env.rules.since(7, 0) or bool(call.flags & _NEEDS_VALUE)
    if needs and not is_trusted(reg):
        if "rcu" not in call.flags:
            raise Refusal(f"R{number} must be referenced or trusted")
        if not reg.kind & RCU:
            raise Refusal(f"R{number} must be a rcu pointer")
    if reg.kind & _UNSAFE and not reg.kind & RCU:
        raise Refusal(f"arg#{number - 1} is {env.words(reg.kind)} expected ptr_ or socket")
    released = "release" in call.flags and bool(reg.ref)
    if released and (reg.off or reg.val.const != 0):
        raise Refusal(
            f"R{number} must have zero offset when passed to release func or trusted arg to kfunc"
        )
    check_ptr_off(env, reg, number, fixed_ok=True)
    strict = "release" in call.flags
    if (reg.extra, name) in _EMBEDDED and not reg.off and not strict and not env.known_types:
        return
    if not is_struct(env, reg, name, strict=strict):
        raise Refusal(
            f"kernel function {call.name} args#{number - 1} expected pointer to STRUCT {name} but "
            f"R{number} has a pointer to STRUCT {reg.extra}"
        )


def _check_map(env: Env, call: KfuncCall, number: int, reg: Reg) -> None:
    if reg.kind != MAP_PTR and env.rules.since(7, 1):
        word = env.words(reg.kind)
        raise Refusal(f"R{number} is {word} expected STRUCT bpf_map or map_ptr")
    if reg.kind != MAP_PTR:
        raise Refusal(f"pointer in R{number} isn't map pointer")
    assert reg.map is not None
    has_queue = any(one.kind == "workqueue" for one in reg.map.fields.values())
    other = call.map is not reg.map or call.uid != reg.uid
    if call.map is not None and (has_queue or env.rules.since(7, 1)) and other:
        raise Refusal(
            f"workqueue pointer in R1 map_uid={call.uid} doesn't match map pointer in R2 "
            f"map_uid={reg.uid}"
        )
