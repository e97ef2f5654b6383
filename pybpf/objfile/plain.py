"""Values of dataclasses in, data as JSON has it out; and the reverse, all of it checked.

Both directions go by the type hints of the classes:

    int, str, bool     themselves
    bytes              hexadecimal digits
    X | None           null, or the X
    tuple              a list
    enumeration        its value, or of numbers the name in small letters
    dataclass          an object with all its fields; where it is one of several (a union) also
                       ``is``, the name of the class
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

_DEPTH = 64
"""How deep data may be nested; a script's have less than a quarter of it."""
_TAG = "is"
_U64 = 1 << 64


class PlainError(ValueError):
    """Data that are not what the hint says; ``place`` is a path such as ``maps[2].key``."""

    def __init__(self, place: str, reason: str) -> None:
        self.place = place
        self.reason = reason
        super().__init__(f"{place}: {reason}")


Hooks = Mapping[type, Callable[[Any], Any]]
"""By class: what to do with its values, or with what stands for one, instead."""


def plain(value: Any, hint: Any, hooks: Hooks) -> Any:
    """Return a value that ``hint`` is the type of as plain data."""
    if value is None or value.__class__ in {int, str, bool}:
        return value
    if hook := hooks.get(value.__class__):
        return hook(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Enum):
        return value.name.lower() if isinstance(value, IntEnum) else value.value
    if isinstance(value, tuple):
        hints = _each(hint, len(value))
        return [plain(each, h, hooks) for each, h in zip(value, hints, strict=True)]
    row = {} if len(_choices(hint)) < 2 else {_TAG: value.__class__.__name__}
    for name, inner in _fields(value.__class__).items():
        row[name] = plain(getattr(value, name), inner, hooks)
    return row


def parse(data: Any, hint: Any, place: str, hooks: Hooks, depth: int = 0) -> Any:
    """Return the value that plain data stand for; raises PlainError.

    A hook raises ValueError for what it cannot take.
    """
    if depth > _DEPTH:
        raise PlainError(place, f"it is nested deeper than {_DEPTH}")
    choices = _choices(hint)
    if data is None and NoneType in get_args(hint):
        return None
    chosen = choices[0] if len(choices) == 1 else _choice(data, choices, place)
    if hook := hooks.get(chosen):
        try:
            return hook(data)
        except ValueError as error:
            raise PlainError(place, str(error)) from None
    if get_origin(chosen) is tuple:
        return _tuple(data, chosen, place, hooks, depth)
    if hasattr(chosen, "__dataclass_fields__"):
        return _object(data, chosen, place, hooks, depth)
    return _scalar(data, chosen, place)


def _choices(hint: Any) -> tuple[Any, ...]:
    """Return the types that a hint leaves to choose from, but for None."""
    if get_origin(hint) is not UnionType:
        return (hint,)
    return tuple(each for each in get_args(hint) if each is not NoneType)


def _choice(data: Any, choices: tuple[Any, ...], place: str) -> Any:
    for each in choices:
        if isinstance(data, dict):
            found = data.get(_TAG) == each.__name__
        else:
            found = isinstance(data, str if each is bytes else each)
        if found:
            return each
    names = ", ".join(each.__name__ for each in choices)
    raise PlainError(place, f"it is none of {names}")


def _each(hint: Any, count: int) -> tuple[Any, ...]:
    """Return the hints of ``count`` elements of a tuple."""
    tuples = [each for each in _choices(hint) if get_origin(each) is tuple]
    arguments = get_args(tuples[0])
    return arguments[:1] * count if arguments[1:] == (...,) else arguments


@cache
def _fields(cls: Any) -> Mapping[str, Any]:
    hints = get_type_hints(cls)
    return {name: hints[name] for name in cls.__match_args__}


def _tuple(data: Any, hint: Any, place: str, hooks: Hooks, depth: int) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise PlainError(place, "it is no list")
    hints = _each(hint, len(data))
    if len(hints) != len(data):
        raise PlainError(place, f"it has {len(data)} elements in the place of {len(hints)}")
    return tuple(
        [
            parse(each, h, f"{place}[{index}]", hooks, depth + 1)
            for index, (each, h) in enumerate(zip(data, hints, strict=True))
        ]
    )


def _object(data: Any, cls: Any, place: str, hooks: Hooks, depth: int) -> Any:
    if not isinstance(data, dict):
        raise PlainError(place, "it is no object")
    fields = _fields(cls)
    if strange := sorted(data.keys() - fields.keys() - {_TAG}):
        raise PlainError(place, f"it has a field '{strange[0][:40]}', which is unknown")
    values = []
    for name, hint in fields.items():
        if name not in data:
            raise PlainError(place, f"the field '{name}' is missing")
        values.append(parse(data[name], hint, f"{place}.{name}", hooks, depth + 1))
    return cls(*values)


def _scalar(data: Any, hint: Any, place: str) -> Any:
    if hint is bytes:
        if isinstance(data, str) and data.isascii():
            try:
                return bytes.fromhex(data)
            except ValueError:
                pass
        raise PlainError(place, "it is not in hexadecimal")
    if issubclass(hint, Enum):
        return _member(data, hint, place)
    if data.__class__ is not hint:
        raise PlainError(place, f"it is no {_WORDS[hint]}")
    if hint is int and not -_U64 < data < _U64:
        raise PlainError(place, "it is no number of 64 bits")
    return data


_WORDS = {int: "number", str: "text", bool: "truth value"}


def _member(data: Any, hint: type[Enum], place: str) -> Enum:
    for member in hint:
        known = member.name.lower() if isinstance(member, IntEnum) else member.value
        if data.__class__ is str and data == known:
            return member
    raise PlainError(place, f"it names no {hint.__name__}")
