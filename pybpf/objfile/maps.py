"""The sections of an object that declare maps, or hold what becomes one, in; ObjectMaps out.

Maps are declared in three ways: by structures of numbers (``SEC("maps")``, which ends with
libbpf 1.0, and iproute2's with its own fields behind), by types alone (``SEC(".maps")``: the value
of ``__uint(max_entries, 8)`` is the length of an array that a pointer points to), or not at all:
``.data``, ``.rodata``, ``.bss`` and ``.kconfig`` become arrays of one element.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from enum import StrEnum

from pybpf.btf.reader import Btf, Kind, Variable
from pybpf.dataclass import dataclass, field, replace
from pybpf.errors import ObjectError
from pybpf.isa.abi import MapFlag, MapType, name_of
from pybpf.objfile.elf import Elf, Section, Symbol, SymbolType, between
from pybpf.objfile.externs import Extern, ExternKind

_NAME_SIZE = 16
_LEGACY_WORDS = 5
_ZEROS_AT_MOST = 256 << 20
_U32, _U64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


class Origin(StrEnum):
    """How an object says that there is a map."""

    LEGACY = "maps"
    BTF = ".maps"
    DATA = ".data"
    RODATA = ".rodata"
    BSS = ".bss"
    KCONFIG = ".kconfig"


@dataclass(frozen=True, slots=True)
class ObjectMap:
    """A map that an object needs. Sizes in bytes.

    ``name`` is the variable's or, of data, the section's; ``kernel_name`` what the kernel will know
    it as. ``section`` is the index of its section and ``offset`` where in it the map is declared:
    what relocations refer to. ``initial`` is the content of one made of data. ``values`` names
    maps or programs that it holds from the start, each with its index. ``key_type`` and
    ``value_type`` are numbers of the object's BTF, 0 where it does not tell. ``map_type`` is a
    plain number, as the object may know types that we do not.
    """

    name: str
    origin: Origin
    map_type: int
    key_size: int
    value_size: int
    max_entries: int
    flags: int = 0
    pinned_by_name: bool = False
    numa_node: int | None = None
    extra: int = 0
    inner: ObjectMap | None = None
    values: tuple[tuple[int, str], ...] = ()
    initial: bytes | None = field(default=None, repr=False)
    key_type: int = 0
    value_type: int = 0
    section: int = 0
    offset: int = 0
    kernel_name: str = ""

    @property
    def type_name(self) -> str:
        """The map type's name, or its number."""
        return name_of(MapType, self.map_type)


def maps(elf: Elf, btf: Btf | None, externs: tuple[Extern, ...]) -> tuple[ObjectMap, ...]:
    """Return the maps of an object: declared ones first, then what its data becomes.

    Raises ObjectError where a declaration says nothing that makes sense.
    """
    found = [*_legacy(elf), *_declared(elf, btf), *_data(elf, btf), *_kconfig(elf, btf, externs)]
    return tuple(found)


# --- SEC("maps") ----------------------------------------------------------------------------------


def _legacy(elf: Elf) -> Iterator[ObjectMap]:
    section = elf.section("maps")
    if section is None:
        return
    symbols = sorted(
        (s for s in elf.symbols_of(section) if s.type in {SymbolType.OBJECT, SymbolType.NOTYPE}),
        key=lambda s: s.value,
    )
    named = [s for s in symbols if s.name]
    if not named:
        return
    size, left = divmod(section.size, len(named))
    if left or size < 16:
        reason = f"{section.size} bytes are no {len(named)} maps of at least four words"
        raise ObjectError(elf.path, reason, section=section.name)
    mark = "<" if elf.byteorder == "little" else ">"
    for symbol in named:
        words = section.data[symbol.value : symbol.value + size]
        if len(words) < size:
            reason = f"{symbol.name} has {len(words)} of {size} bytes"
            raise ObjectError(elf.path, reason, section=section.name, offset=symbol.value)
        count = min(size // 4, _LEGACY_WORDS)
        map_type, key, value, entries, *more = struct.unpack_from(f"{mark}{count}I", words)
        yield ObjectMap(
            symbol.name, Origin.LEGACY, map_type, key, value, entries,
            flags=more[0] if more else 0, section=section.index, offset=symbol.value,
            kernel_name=_kernel_name(symbol.name),
        )  # fmt: skip


# --- SEC(".maps") ---------------------------------------------------------------------------------


def _declared(elf: Elf, btf: Btf | None) -> Iterator[ObjectMap]:
    section = elf.section(".maps")
    if section is None:
        return
    if btf is None:
        reason = "it declares maps by types, but there is no .BTF with these types"
        hints = ("compile with `clang -g`",)
        raise ObjectError(elf.path, reason, section=section.name, hints=hints)
    declaration = _Declaration(elf, btf, section)
    places = {s.name: s.value for s in elf.symbols_of(section) if s.name}
    number = btf.datasec(section.name)
    for variable in btf.variables(number or 0):
        if variable.name not in places:
            reason = f"the variable {variable.name} of .BTF is no symbol of it"
            raise ObjectError(elf.path, reason, section=section.name)
        yield declaration.map(variable, places[variable.name])


class _Declaration:
    """Reads the types of variables as maps."""

    def __init__(self, elf: Elf, btf: Btf, section: Section) -> None:
        self._elf, self._btf, self._section = elf, btf, section
        self._starts = sorted({s.value for s in elf.symbols_of(section)})
        self._names: dict[int, dict[int, str]] = {}

    def _refuse(self, name: str, reason: str) -> ObjectError:
        return ObjectError(self._elf.path, f"map {name}: {reason}", section=self._section.name)

    def map(self, variable: Variable, offset: int) -> ObjectMap:
        """Return what a variable declares; its value slots are the symbols that relocate it."""
        number = self._btf.skip(variable.type)
        found = self._parse(variable.name, number, inside=False)
        values = self._values(variable, number, offset)
        return replace(
            found, section=self._section.index, offset=offset, values=values,
            kernel_name=_kernel_name(variable.name),
        )  # fmt: skip

    def _parse(self, name: str, number: int, *, inside: bool) -> ObjectMap:
        btf = self._btf
        if btf.kind(number) is not Kind.STRUCT:
            raise self._refuse(name, "its type is no structure")
        numbers: dict[str, int] = {}
        types: dict[str, int] = {}
        inner = None
        seen: set[str] = set()
        for field_name, member in btf.fields(number):
            if field_name in seen:
                raise self._refuse(name, f"it has two fields {field_name or '(nameless)'}")
            seen.add(field_name)
            match field_name:
                case ("type" | "max_entries" | "map_flags" | "map_extra" | "numa_node"
                      | "key_size" | "value_size" | "pinning"):  # fmt: skip
                    numbers[field_name] = self._number(name, field_name, member.type)
                case "key" | "value":
                    pointed = self._pointed(name, field_name, member.type)
                    size = btf.size(pointed)
                    if size is None:
                        raise self._refuse(name, f"the type of its {field_name} has no size")
                    if numbers.setdefault(f"{field_name}_size", size) != size:
                        reason = f"its {field_name} has {size} bytes, and {field_name}_size another"
                        raise self._refuse(name, reason)
                    types[field_name] = pointed
                case "values":
                    inner = self._inner(name, member.type, inside=inside)
                    numbers.setdefault("value_size", 4)
                case _:
                    raise self._refuse(name, f"no map has a field {field_name or '(nameless)'}")
        for field_name, value in numbers.items():
            if value > _U32 and field_name != "map_extra":
                raise self._refuse(name, f"its {field_name} is {value}, no number of 32 bits")
        if "type" not in numbers:
            raise self._refuse(name, "it has no field type")
        pinning = numbers.get("pinning", 0)
        if pinning > 1:
            raise self._refuse(name, f"pinning is {pinning}, but must be 0 or 1 (by its name)")
        return ObjectMap(
            name, Origin.BTF, numbers["type"], numbers.get("key_size", 0),
            numbers.get("value_size", 0), numbers.get("max_entries", 0),
            flags=numbers.get("map_flags", 0), pinned_by_name=pinning == 1,
            numa_node=numbers.get("numa_node"), extra=numbers.get("map_extra", 0), inner=inner,
            key_type=types.get("key", 0), value_type=types.get("value", 0),
        )  # fmt: skip

    def _number(self, name: str, field_name: str, number: int) -> int:
        """Return the number that the type of a field stands for.

        That is the length of an array pointed to (``__uint``), or the one value of an enumeration,
        which may have 64 bits (``__ulong``); only map_extra takes that.
        """
        btf = self._btf
        outer = btf.skip(number)
        pointed = btf.pointed(outer) if btf.kind(outer) is Kind.PTR else 0
        if array := btf.array(pointed):
            return array[1]
        enumerators = btf.enumerators(outer) if field_name == "map_extra" else ()
        if len(enumerators) == 1:
            return enumerators[0][1] & _U64
        maker = "__ulong()" if field_name == "map_extra" else "__uint()"
        raise self._refuse(name, f"the type of {field_name} is not what {maker} makes")

    def _pointed(self, name: str, field_name: str, number: int) -> int:
        pointer = self._btf.skip(number)
        if self._btf.kind(pointer) is not Kind.PTR:
            raise self._refuse(name, f"the type of {field_name} is no pointer, as of __type()")
        return self._btf.target(pointer)

    def _inner(self, name: str, number: int, *, inside: bool) -> ObjectMap | None:
        """Return what map the elements of ``values`` point to; None where these are programs."""
        if inside:
            raise self._refuse(name, "a map within a map holds no maps")
        array = self._btf.array(self._btf.skip(number))
        pointer = self._btf.skip(array[0]) if array else 0
        if array is None or self._btf.kind(pointer) is not Kind.PTR:
            raise self._refuse(name, "values is no array of pointers")
        pointed = self._btf.pointed(pointer)
        if self._btf.kind(pointed) is Kind.FUNC_PROTO:
            return None
        return self._parse(f"{name}.inner", pointed, inside=True)

    def _values(self, variable: Variable, number: int, offset: int) -> tuple[tuple[int, str], ...]:
        """Return which symbols the compiler was told to put into the array ``values``."""
        start = next(
            (m.bit_offset // 8 for name, m in self._btf.fields(number) if name == "values"), None
        )
        if start is None:
            return ()
        end = offset + max(variable.size, self._btf.size(number) or 0)
        later = bisect_right(self._starts, offset)
        end = [*self._starts[later : later + 1], max(end, self._section.size)][0]
        return tuple(
            ((r.offset - offset - start) // 8, self._symbol_name(r.symbol, r.addend))
            for r in between(self._section.relocations, offset + start, end)
        )

    def _symbol_name(self, symbol: Symbol, addend: int) -> str:
        """Return the name of what is referred to, also where that is only a place in a section."""
        if symbol.type != SymbolType.SECTION or symbol.section is None:
            return symbol.name
        section = self._elf.sections[symbol.section]
        names = self._names.get(section.index)
        if names is None:
            names = self._names[section.index] = {
                s.value: s.name
                for s in reversed(self._elf.symbols_of(section))
                if s.name not in {"", section.name}
            }
        return names.get(symbol.value + addend, symbol.name)


# --- data -----------------------------------------------------------------------------------------


def _data(elf: Elf, btf: Btf | None) -> Iterator[ObjectMap]:
    types = _sections_of_variables(btf)
    room = _ZEROS_AT_MOST
    for section in elf.sections:
        origin = _origin(section)
        if origin is None or not section.size:
            continue
        if origin is Origin.BSS:
            room -= section.size
            if room < 0:
                reason = f"its {section.size} bytes are too many: {_ZEROS_AT_MOST >> 20} MiB in all"
                raise ObjectError(elf.path, reason, section=section.name)
        number = types.get(section.name, 0)
        flags = MapFlag.MMAPABLE | (MapFlag.RDONLY_PROG if origin is Origin.RODATA else 0)
        yield ObjectMap(
            section.name, origin, MapType.ARRAY, 4, section.size, 1, flags=flags,
            initial=section.data if origin is not Origin.BSS else bytes(section.size),
            value_type=number, section=section.index,
            kernel_name=_data_name(elf.path, section.name, origin),
        )  # fmt: skip


def _sections_of_variables(btf: Btf | None) -> Mapping[str, int]:
    """Return the numbers of all DATASECs by their names; of equal ones the first counts."""
    if btf is None:
        return {}
    numbers = (n for n in range(len(btf) - 1, 0, -1) if btf.kind(n) is Kind.DATASEC)
    return {btf.name(number): number for number in numbers}


def _origin(section: Section) -> Origin | None:
    """Return what a section of data becomes; None for one that becomes no map."""
    if section.type not in {"SHT_PROGBITS", "SHT_NOBITS"} or section.executable:
        return None
    for origin in (Origin.DATA, Origin.RODATA, Origin.BSS):
        if section.name == origin.value or section.name.startswith(f"{origin.value}."):
            return origin
    return None


def _kconfig(elf: Elf, btf: Btf | None, externs: tuple[Extern, ...]) -> Iterator[ObjectMap]:
    options = [extern for extern in externs if extern.kind is ExternKind.KCONFIG]
    if btf is None or not options:
        return
    size = max(extern.offset + extern.size for extern in options)
    yield ObjectMap(
        ".kconfig", Origin.KCONFIG, MapType.ARRAY, 4, size, 1,
        flags=MapFlag.MMAPABLE | MapFlag.RDONLY_PROG,
        initial=bytes(size), value_type=btf.datasec(".kconfig") or 0, section=-1,
        kernel_name=_data_name(elf.path, ".kconfig", Origin.KCONFIG),
    )  # fmt: skip


def _kernel_name(name: str) -> str:
    """Return a name as the kernel takes it: 15 letters, digits, dots and underscores."""
    short = name[: _NAME_SIZE - 1]
    return "".join(c if c.isascii() and (c.isalnum() or c in "_.") else "_" for c in short)


def _data_name(path: str, section: str, origin: Origin) -> str:
    """Return the name that libbpf gives a map of data: part of the file's, and the section's."""
    if section != origin.value:
        return _kernel_name(section)
    stem = path.rsplit("/", 1)[-1].split(".", 1)[0]
    room = _NAME_SIZE - 1 - max(len(Origin.RODATA), len(section))
    return _kernel_name(f"{stem[:room]}{section}")
