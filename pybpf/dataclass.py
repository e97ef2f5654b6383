"""``dataclasses.dataclass`` at a tenth of its cost: a class body in; a class with slots out.

The package has some 160 dataclasses. The standard library writes and compiles up to seven functions
for each when its module is imported, half a millisecond a class, which was half of the time that
pybpf took to start. Here classes share their methods, and ``__init__`` is compiled when it is first
needed, which for most of them is never.

What is decorated is a dataclass in every other respect: for type checkers, which see the standard
library's; for ``dataclasses.fields``, ``replace`` and ``asdict``; for ``match``, ``pickle`` and
``inspect.signature``. Only what the package needs is there: ``slots=True`` always; no inheritance,
``kw_only``, ``order``, ``ClassVar`` or ``InitVar``.
"""

from __future__ import annotations

import sys
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from dataclasses import dataclass, field, replace

__all__ = ["dataclass", "field", "replace"]

_NONE = object()


class _Spec:
    """What is to be known of a field; ``options`` are those of ``dataclasses.field``."""

    __slots__ = ("compare", "default", "factory", "init", "options", "repr")

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options
        self.default = options.get("default", _NONE)
        self.factory = options.get("default_factory", _NONE)
        self.init = options.get("init", True)
        self.repr = options.get("repr", True)
        self.compare = options.get("compare", True)


if not TYPE_CHECKING:

    def field(**options: Any) -> _Spec:
        """See ``dataclasses.field``."""
        return _Spec(options)

    def dataclass(*, slots: bool, frozen: bool = False, eq: bool = True) -> Callable[[type], type]:
        """See ``dataclasses.dataclass``."""
        assert slots
        return lambda cls: _rebuilt(cls, frozen=frozen, eq=eq)

    def replace(value: Any, /, **changes: Any) -> Any:
        """See ``dataclasses.replace``."""
        for name in value.__match_args__:
            if name not in changes:
                changes[name] = getattr(value, name)
        return value.__class__(**changes)


def _rebuilt(cls: type, *, frozen: bool, eq: bool) -> type:
    """Return the class built anew, as slots cannot be added to one that is there."""
    body = dict(cls.__dict__)
    body.pop("__dict__", None)
    body.pop("__weakref__", None)
    specs = {name: _spec(body.pop(name, _NONE)) for name in cls.__annotations__}
    methods: dict[str, Any] = {"__repr__": _repr([n for n, spec in specs.items() if spec.repr])}
    if eq:
        key = _getter([name for name, spec in specs.items() if spec.compare])
        methods |= {"__eq__": _eq(key), "__hash__": _hash(key) if frozen else None}
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    own = {
        "__slots__": tuple(specs),
        "__match_args__": tuple(name for name, spec in specs.items() if spec.init),
        "__dataclass_fields__": _Fields(specs),
        "__getstate__": _get_state,
        "__setstate__": _set_state,
        "__init__": _Init(specs),
    }
    # What the body defines itself goes before the methods.
    rebuilt = type(cls)(cls.__name__, cls.__bases__, methods | body | own)
    rebuilt.__qualname__ = cls.__qualname__
    return rebuilt


def _spec(default: Any) -> _Spec:
    if isinstance(default, _Spec):
        return default
    return _Spec({} if default is _NONE else {"default": default})


def _getter(names: Sequence[str]) -> Callable[[Any], Any]:
    return attrgetter(*names) if names else lambda _: ()


def _repr(names: Sequence[str]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:  # noqa: N807
        shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{self.__class__.__qualname__}({shown})"

    return __repr__


def _eq(key: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def __eq__(self: Any, other: Any) -> Any:  # noqa: N807
        if other.__class__ is not self.__class__:
            return NotImplemented
        return key(self) == key(other)

    return __eq__


def _hash(key: Callable[[Any], Any]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(key(self))

    return __hash__


def _refuse_to_set(_self: Any, name: str, _value: Any) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: Any, name: str) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__slots__]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__slots__, state, strict=True):
        object.__setattr__(self, name, value)


class _Lazy:
    """An attribute of a class that is made, and takes this one's place, when it is first needed."""

    __slots__ = ("cls", "name", "specs")

    def __init__(self, specs: Mapping[str, _Spec]) -> None:
        self.specs = specs

    def __set_name__(self, cls: type, name: str) -> None:
        self.cls, self.name = cls, name

    def __get__(self, instance: object, owner: type) -> Any:
        made = self.made()
        setattr(self.cls, self.name, made)
        bind = getattr(type(made), "__get__", None)
        return made if bind is None else bind(made, instance, owner)

    def made(self) -> Any:
        """Return the attribute itself."""
        raise NotImplementedError


class _Init(_Lazy):
    """``__init__``, written as one would write it by hand."""

    __slots__ = ()

    def made(self) -> Any:
        # What the code refers to besides its parameters.
        names: dict[str, Any] = {"_none": _NONE}
        parameters, lines = ["self"], []
        for name, spec in self.specs.items():
            value, default = name, ""
            if spec.factory is not _NONE:
                names[f"_new_{name}"] = spec.factory
                default = "=_none"
                value = f"_new_{name}()"
                value += f" if {name} is _none else {name}" if spec.init else ""
            elif spec.default is not _NONE:
                names[f"_default_{name}"] = spec.default
                default = f"=_default_{name}"
                value = name if spec.init else f"_default_{name}"
            elif not spec.init:
                continue
            if spec.init:
                parameters.append(name + default)
            names[f"_set_{name}"] = self.cls.__dict__[name].__set__
            lines.append(f"  _set_{name}(self, {value})")
        if hasattr(self.cls, "__post_init__"):
            lines.append("  self.__post_init__()")
        head = f"def outer({', '.join(names)}):\n def __init__({', '.join(parameters)}):\n"
        init = _run(head + "\n".join(lines or ["  pass"]) + "\n return __init__", self.cls)(**names)
        init.__qualname__ = f"{self.cls.__qualname__}.__init__"
        hints = self.cls.__annotations__
        init.__annotations__ = {n: hints[n] for n, spec in self.specs.items() if spec.init}
        init.__annotations__["return"] = None
        return init


def _run(text: str, cls: type) -> Any:
    """Return the function ``outer`` that a text defines, in the module of a class."""
    space: dict[str, Any] = {}
    exec(text, vars(sys.modules[cls.__module__]), space)  # noqa: S102 - as dataclasses does
    return space["outer"]


class _Fields(_Lazy):
    """What the functions of the standard library's module know dataclasses by."""

    __slots__ = ()

    def made(self) -> Any:
        import dataclasses

        fields = [
            (name, self.cls.__annotations__[name], dataclasses.field(**spec.options))
            for name, spec in self.specs.items()
        ]
        twin = dataclasses.make_dataclass(self.cls.__name__, fields)
        return twin.__dataclass_fields__  # type: ignore[attr-defined]
