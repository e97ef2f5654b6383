"""The arguments of ``.map`` to a Map.

.map NAME, type=hash, key=u32, value=struct event, entries=1024, flags=BPF_F_NO_PREALLOC
.map NAME, type=array_of_maps, entries=2, inner=(type=array, key=4, value=8, entries=1)
.map NAME, type=prog_array, entries=4, values=[first, 2: third], pinning=by_name
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pybpf.assembly.ctypes import Types, begins_type
from pybpf.assembly.unit import Map
from pybpf.dataclass import dataclass, replace
from pybpf.isa.abi import MapType
from pybpf.isa.expressions import Number, Tokens
from pybpf.source import Span
from pybpf.suggest import did_you_mean
from pybpf.types import U32

_FIELDS = {
    "type": "map_type", "key": "key", "value": "value", "entries": "entries", "flags": "flags",
    "extra": "extra", "numa_node": "numa_node", "pinning": "pinned_by_name", "inner": "inner",
    "values": "values",
}  # fmt: skip
_OF_MAPS = frozenset({MapType.ARRAY_OF_MAPS, MapType.HASH_OF_MAPS})
_WITHOUT_KEY = frozenset(
    {MapType.RINGBUF, MapType.USER_RINGBUF, MapType.QUEUE, MapType.STACK, MapType.BLOOM_FILTER,
     MapType.ARENA}
)  # fmt: skip
_WITHOUT_VALUE = frozenset({MapType.RINGBUF, MapType.USER_RINGBUF, MapType.ARENA})
# What an entry of these holds is a descriptor, or an index.
_WORDS = frozenset({MapType.PROG_ARRAY, MapType.PERF_EVENT_ARRAY, MapType.CGROUP_ARRAY, *_OF_MAPS})
_ARRAYS = frozenset({MapType.ARRAY, MapType.PERCPU_ARRAY, *_WORDS} - {MapType.HASH_OF_MAPS})
_SLOT = 1 << 16


@dataclass(frozen=True, slots=True)
class MapReader:
    """Reads maps; ``maps`` are those that were declared before."""

    types: Types
    maps: Mapping[str, Map]

    # map = ".map" name {"," argument}
    def read(self, at: Tokens, name: str, span: Span) -> Map:
        """Return the map whose name was just read. Raises AssemblyError for one that cannot be."""
        found: dict[str, Any] = {}
        while at.accept(","):
            self._argument(at, found)
        return self._checked(at, name, span, found)

    # argument = field "=" value
    def _argument(self, at: Tokens, found: dict[str, Any]) -> None:
        field = at.next()
        if field.kind != "word":
            raise at.expected("a field of a map such as type=hash", field)
        if field.text not in _FIELDS:
            near = did_you_mean(field.text, _FIELDS)
            raise at.error(field, f"a map has no '{field.text}'{near}")
        where = _FIELDS[field.text]
        if where in found:
            raise at.error(field, f"a map has one '{field.text}'")
        at.expect("=")
        found[where] = self._value(at, field.text)

    def _value(self, at: Tokens, field: str) -> Any:
        match field:
            case "type":
                return self._type(at)
            case "key" | "value":
                return self.types.sized(at) if begins_type(at) else self._size(at)
            case "pinning":
                return self._pinning(at)
            case "inner":
                return self._inner(at)
            case "values":
                return tuple(self._values(at))
            case _:
                return at.unsigned(32)

    def _size(self, at: Tokens) -> int:
        number: Number = at.number()
        if not 0 < number.value < 1 << 29:
            raise at.error(number.span, f"{number.shown} is no size in bytes")
        return number.value

    # type = name | number
    def _type(self, at: Tokens) -> int:
        token = at.peek()
        if token.kind != "word" or token.text in at.constants:
            return at.unsigned(32)
        at.next()
        found = MapType.__members__.get(token.text.upper())
        if found is None:
            near = did_you_mean(token.text, [name.lower() for name in MapType.__members__])
            raise at.error(token, f"there is no map type '{token.text}'{near}")
        return found

    # pinning = "by_name" | "none"
    def _pinning(self, at: Tokens) -> bool:
        token = at.next()
        if token.text not in {"by_name", "none"}:
            raise at.expected("'by_name' or 'none'", token)
        return token.text == "by_name"

    # inner = name | "(" argument {"," argument} ")"
    def _inner(self, at: Tokens) -> Map:
        first = at.peek()
        if at.accept("("):
            found: dict[str, Any] = {}
            self._argument(at, found)
            while at.accept(","):
                self._argument(at, found)
            at.expect(")")
            inner = self._checked(at, "", at.since(first), found)
        else:
            token = at.next()
            if token.text not in self.maps:
                near = did_you_mean(token.text, self.maps)
                raise at.error(token, f"there is no map '{token.text}' before this one{near}")
            inner = replace(self.maps[token.text], name="", values=(), pinned_by_name=False)
        if inner.inner is not None:
            raise at.error(at.since(first), "a map within a map holds no maps")
        return inner

    # values = "[" [[number ":"] name {"," [number ":"] name}] "]"
    def _values(self, at: Tokens) -> list[tuple[int, str]]:
        at.expect("[")
        found: list[tuple[int, str]] = []
        index = 0
        while not at.accept("]"):
            if at.peek(1).text == ":" or at.peek().kind == "number":
                number = at.number()
                index = number.value
                if not 0 <= index < _SLOT:
                    raise at.error(number.span, f"{number.shown} is no index of a value")
                at.expect(":")
            token = at.next()
            if token.kind != "word":
                raise at.expected("the name of a map or program", token)
            if index in dict(found):
                raise at.error(token, f"two values have the index {index}")
            found.append((index, token.text))
            index += 1
            if not at.accept(",") and at.peek().text != "]":
                raise at.expected("',' or ']'", at.peek())
        return found

    def _checked(self, at: Tokens, name: str, span: Span, found: dict[str, Any]) -> Map:
        what = f"map {name}" if name else "an inner map"
        if "map_type" not in found:
            raise at.error(span, f"{what} has no type", "such as type=hash")
        one = Map(name=name, span=span, **found)
        if one.map_type in _WORDS and one.value is None:
            one = replace(one, value=U32)
        if one.map_type in _ARRAYS and one.key is None:
            one = replace(one, key=U32)
        for missing, field, without in (
            (one.key is None, "key", _WITHOUT_KEY), (one.value is None, "value", _WITHOUT_VALUE),
        ):  # fmt: skip
            if missing and one.map_type not in without and one.map_type in set(MapType):
                raise at.error(span, f"{what} has no {field}", f"such as {field}=u32")
        if (one.inner is None) is (one.map_type in _OF_MAPS):
            wrong = "lacks an inner map" if one.inner is None else "is no map of maps"
            raise at.error(span, f"{what} {wrong}")
        if one.values and one.map_type not in {*_OF_MAPS, MapType.PROG_ARRAY}:
            raise at.error(span, f"{what} can have no values from the start")
        if one.entries and any(index >= one.entries for index, _ in one.values):
            raise at.error(span, f"{what} has {one.entries} entries, too few for its values")
        return one
