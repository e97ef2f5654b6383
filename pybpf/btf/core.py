"""A CO-RE relocation of an object, and a kernel's types, in; the value that it comes to, out.

What clang leaves open (``__builtin_preserve_field_info`` and its kin) is answered here as libbpf
does. A type of the object stands for all types of the kernel that have its name, whatever flavour
(``task_struct___old``) either has: its candidates. Those where the field, type or value is found
must agree. Where there is none, whether it exists is 0, so are a type's size and number, and
anything else has no value: the instruction may not run.

Source: libbpf's relo_core.c and libbpf.c. Values are those of 64 unsigned bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from weakref import WeakKeyDictionary

from pybpf.btf.abi import ENUMS
from pybpf.btf.core_match import CoreError, essential
from pybpf.btf.core_spec import (
    FIELD_KINDS,
    TYPE_KINDS,
    Spec,
    describe,
    fields,
    matched,
    parsed,
    size_of,
)
from pybpf.btf.ext import CoreKind, CoreRelocation
from pybpf.btf.reader import Btf, Kind
from pybpf.dataclass import dataclass, replace

_U32, _U64 = (1 << 32) - 1, (1 << 64) - 1
_WIDEST = 8
_NAMED = frozenset(
    {
        Kind.INT, Kind.STRUCT, Kind.UNION, Kind.ENUM, Kind.FWD, Kind.TYPEDEF, Kind.FLOAT,
        Kind.ENUM64,
    }
)  # fmt: skip
_Candidate = tuple[Btf, int]
Modules = Callable[[], Iterable[Btf]]


@dataclass(frozen=True, slots=True)
class Value:
    """What a relocation comes to in one type.

    ``size`` and ``type`` are of the field that a load or store accesses, 0 where that is not
    known; ``exact`` is False where a compiler may have chosen another value with as much right.
    """

    number: int
    size: int = 0
    type: int = 0
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Resolution:
    """What became of a relocation: what it is about, its value in the object's types and the new.

    ``found`` is where it is in the kernel's types, None where it is not; ``new`` is None where it
    then has no value, and ``missing`` says what is not there. ``resizable`` says that a load or
    store may have another size.
    """

    spec: Spec
    found: Spec | None
    old: Value
    new: Value | None
    resizable: bool = True
    missing: str = ""


class Core:
    """Resolves the relocations of one object. The order matters, as it does for libbpf.

    Once a field was found in some candidates of a type, only these are asked for its other fields.
    ``modules`` gives the types of the kernel's modules, and is only called for what the kernel
    itself does not have. Raises CoreError where that is of a machine of the other byte order.
    """

    def __init__(self, local: Btf, kernel: Btf, modules: Modules = tuple) -> None:
        self._local = local
        self._kernel = kernel
        self._modules = modules
        self._candidates: dict[int, list[_Candidate]] = {}
        self._known: dict[tuple[int, str, int], Resolution | CoreError] = {}
        if kernel.byteorder != local.byteorder:
            raise CoreError(
                f"the object is {local.byteorder}-endian, the kernel {kernel.byteorder}-endian"
            )

    def spec(self, relocation: CoreRelocation) -> Spec:
        """Return what a relocation is about, in the object's types; raises CoreError."""
        return parsed(self._local, relocation)

    def resolve(self, relocation: CoreRelocation) -> Resolution:
        """Return what a relocation comes to; raises CoreError where libbpf refuses the object."""
        key = (relocation.type, relocation.access, relocation.kind)
        known = self._known.get(key)
        if known is None:
            try:
                known = self._resolve(relocation)
            except CoreError as error:
                known = error
            self._known[key] = known
        if isinstance(known, CoreError):
            raise CoreError(known.message)
        return known

    def _resolve(self, relocation: CoreRelocation) -> Resolution:
        spec = self.spec(relocation)
        if spec.kind is CoreKind.TYPE_ID_LOCAL:
            # The number in the instruction may be older than the last linking.
            value = Value(spec.root, exact=False)
            return Resolution(spec, spec, value, value)
        if not self._local.name(spec.root):
            raise CoreError(f"{describe(self._local, spec.root)} has no name to be found by")
        candidates = self._candidates.get(spec.root)
        if candidates is None:
            candidates = self._candidates[spec.root] = self._found(spec.root)
        matches = [
            (candidate, found)
            for candidate in candidates
            if (found := matched(spec, *candidate)) is not None
        ]
        if not matches:
            return replace(_resolution(spec, None), missing=_missing(spec, candidates))
        self._candidates[spec.root] = [candidate for candidate, _ in matches]
        return _agreed([_resolution(spec, found) for _, found in matches])

    def _found(self, number: int) -> list[_Candidate]:
        """Return the types that one of the object stands for: the kernel's, or else modules'."""
        kind, name = self._local.kind(number), essential(self._local.name(number))
        own = _candidates((self._kernel,), kind, name)
        return own or _candidates(self._modules(), kind, name)


def _missing(spec: Spec, candidates: list[_Candidate]) -> str:
    """Say what of a relocation that was not found is missing."""
    name = essential(describe(spec.btf, spec.root))
    if not candidates:
        return f"the kernel has no {name}"
    if spec.kind in TYPE_KINDS:
        return f"the kernel's {name} is another"
    kind = "value" if spec.path[0].name else "field"
    return f"the kernel's {name} has no such {kind}"


def _candidates(targets: Iterable[Btf], kind: Kind, name: str) -> list[_Candidate]:
    key = (Kind.ENUM if kind in ENUMS else kind, name)
    return [(target, number) for target in targets for number in _index(target).get(key, ())]


_INDEXES: WeakKeyDictionary[Btf, Mapping[tuple[Kind, str], list[int]]] = WeakKeyDictionary()


def _index(target: Btf) -> Mapping[tuple[Kind, str], list[int]]:
    """Return the numbers of types by their kinds and names, these without flavour; a base's not.

    It is made once for each target.
    """
    if target not in _INDEXES:
        found: dict[tuple[Kind, str], list[int]] = {}
        for number in target.numbers(*_NAMED, first=target.first):
            if name := target.name(number):
                kind = target.kind(number)
                key = (Kind.ENUM if kind in ENUMS else kind, essential(name))
                found.setdefault(key, []).append(number)
        _INDEXES[target] = found
    return _INDEXES[target]


def _agreed(found: list[Resolution]) -> Resolution:
    """Return what several candidates come to; raises CoreError where they differ."""
    first = found[0]
    for other in found[1:]:
        if first.found is None or other.found is None or first.new is None or other.new is None:
            continue
        mine, theirs = f"{first.found}", f"{other.found}"
        if other.found.bits != first.found.bits:
            raise CoreError(f"ambiguous: it may be at {mine} or {theirs}")
        if other.new.number != first.new.number:
            numbers = f"{first.new.number} of {mine} or {other.new.number} of {theirs}"
            raise CoreError(f"ambiguous: it may be {numbers}")
    return first


def _resolution(spec: Spec, found: Spec | None) -> Resolution:
    if spec.kind in FIELD_KINDS:
        return _field_resolution(spec, found)
    old = _type_value(spec) if spec.kind in TYPE_KINDS else _enum_value(spec)
    if found is None:
        poisoned = spec.kind is CoreKind.ENUMVAL_VALUE
        return Resolution(spec, None, old, None if poisoned else Value(0))
    new = _type_value(found) if spec.kind in TYPE_KINDS else _enum_value(found)
    return Resolution(spec, found, old, new)


def _field_resolution(spec: Spec, found: Spec | None) -> Resolution:
    if spec.kind is CoreKind.FIELD_EXISTS:
        return Resolution(spec, found, Value(1), Value(int(found is not None)))
    old = _field_value(spec)
    if found is None:
        return Resolution(spec, None, old, None)
    new = _field_value(found)
    resizable = old.size == new.size or _resizable(spec.btf, old.type, found.btf, new.type)
    return Resolution(spec, found, old, new, resizable)


def _resizable(local: Btf, mine: int, target: Btf, theirs: int) -> bool:
    """Say whether a load of another size gets the same value: of pointers and unsigned integers."""
    if local.kind(mine) is target.kind(theirs) is Kind.PTR:
        return True
    integers = local.integer(mine), target.integer(theirs)
    return all(one is not None and not one.signed for one in integers)


def _type_value(spec: Spec) -> Value:
    match spec.kind:
        case CoreKind.TYPE_ID_TARGET:
            return Value(spec.root, exact=False)
        case CoreKind.TYPE_SIZE:
            return Value(size_of(spec.btf, spec.root))
        case _:
            return Value(1)


def _enum_value(spec: Spec) -> Value:
    if spec.kind is CoreKind.ENUMVAL_EXISTS:
        return Value(1)
    value = spec.value()
    if spec.btf.kind(spec.path[0].type) is Kind.ENUM:
        # 32 bits are taken for signed, whatever the enumeration is.
        value = (value & _U32 ^ 1 << 31) - (1 << 31)
    return Value(value & _U64)


def _field_value(spec: Spec) -> Value:
    btf, last = spec.btf, spec.path[-1]
    if last.name is None:
        size = size_of(btf, last.type)
        match spec.kind:
            case CoreKind.FIELD_BYTE_OFFSET:
                return Value(spec.bits // 8, size, last.type)
            case CoreKind.FIELD_BYTE_SIZE:
                return Value(size)
            case _:
                raise CoreError("only where an element of an array is, and its size, can be asked")
    _, member = fields(btf, last.type)[last.number]
    inner = btf.skip(member.type)
    start, size, bits = spec.bits // 8, size_of(btf, inner), member.bit_size
    plain = not bits
    if plain:
        bits = size * 8
    else:
        start, size = _unit(spec, size, bits)
    match spec.kind:
        case CoreKind.FIELD_BYTE_OFFSET:
            return Value(start, size, inner) if plain else Value(start, exact=False)
        case CoreKind.FIELD_BYTE_SIZE:
            return Value(size, exact=plain)
        case CoreKind.FIELD_SIGNED:
            return Value(int(_signed(btf, inner)))
        case CoreKind.FIELD_RSHIFT_U64:
            return Value(64 - bits & _U32)
        case _:
            above = spec.bits - start * 8
            if btf.byteorder == "little":
                return Value(64 - (above + bits) & _U32, exact=plain)
            return Value((8 - size) * 8 + above & _U32, exact=plain)


def _signed(btf: Btf, number: int) -> bool:
    integer = btf.integer(number)
    return integer.signed if integer else btf.kind(number) in ENUMS and btf.flag(number)


def _unit(spec: Spec, size: int, bits: int) -> tuple[int, int]:
    """Return where the integer begins that holds a bit field, and its size, both in bytes.

    It is aligned, and of the ``size`` of the field's type, or larger where the field crosses its
    end. Raises CoreError where 64 bits are too few.
    """
    if not size:
        raise CoreError(f"the bit field {spec} is of a type without a size")
    start = spec.bits // 8 // size * size
    while spec.bits + bits - start * 8 > size * 8:
        if size >= _WIDEST:
            raise CoreError(f"the bit field {spec} is not within 64 bits")
        size *= 2
        start = spec.bits // 8 // size * size
    return start, size
