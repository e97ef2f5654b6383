"""pybpf.dataclass is held to what the standard library does with the same class body."""

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import typing

import pytest

import pybpf
import pybpf.dataclass as ours

OPTIONS = [
    {"frozen": True, "slots": True},
    {"slots": True},
    {"slots": True, "eq": False},
    {"frozen": True, "slots": True, "eq": False},
]


def make(module, **options):
    """Return classes of several sorts, decorated by one of the two modules."""

    @module.dataclass(**options)
    class Plain:
        """A point."""

        x: int
        y: "str" = "why"

    @module.dataclass(**options)
    class Rich:
        a: int
        hidden: list[int] = module.field(compare=False, repr=False)
        made: dict[str, int] = module.field(default_factory=dict)
        named: int = module.field(default=7)
        none: None = None
        late: int = module.field(init=False, default=1)
        later: list[int] = module.field(init=False, default_factory=list)

        @property
        def double(self):
            return self.a * 2

        @classmethod
        def zero(cls):
            return cls(0, [])

    @module.dataclass(**options)
    class Checked:
        text: str
        _size: int = module.field(init=False, repr=False, compare=False)

        def __post_init__(self):
            if not self.text:
                raise ValueError("empty")
            object.__setattr__(self, "_size", len(self.text))

        def __str__(self):
            return f"{self.text}/{self._size}"

    @module.dataclass(**options)
    class Own:
        a: int

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 5

        def __repr__(self):
            return "own"

    @module.dataclass(**options)
    class Empty:
        pass

    return {cls.__name__: cls for cls in (Plain, Rich, Checked, Own, Empty)}


@pytest.fixture(params=OPTIONS, ids=str)
def twins(request):
    """Return pairs of classes: ours, and the standard library's."""
    mine, theirs = make(ours, **request.param), make(dataclasses, **request.param)
    return {name: (mine[name], theirs[name]) for name in mine}


CALLS = [
    ("Plain", (1,), {}),
    ("Plain", (1, "z"), {}),
    ("Plain", (), {"y": "b", "x": 2}),
    ("Rich", (1, [2]), {}),
    ("Rich", (1, [2], {"k": 1}, 8, None), {}),
    ("Rich", (1,), {"hidden": [], "named": 9}),
    ("Checked", ("abc",), {}),
    ("Own", (1,), {}),
    ("Empty", (), {}),
]
BAD_CALLS = [
    ("Plain", (), {}),
    ("Plain", (1, 2, 3), {}),
    ("Plain", (1,), {"x": 1}),
    ("Plain", (1,), {"z": 1}),
    ("Rich", (1, [], {}, 7, None, 1), {}),
    ("Rich", (1, []), {"late": 3}),
    ("Checked", ("",), {}),
    ("Empty", (1,), {}),
]


def result(function, *arguments, **keywords):
    try:
        return repr(function(*arguments, **keywords)).replace("make.<locals>.", "")
    except Exception as error:  # noqa: BLE001 - which one is the question
        return type(error), str(error)


@pytest.mark.parametrize(("name", "arguments", "keywords"), CALLS + BAD_CALLS)
def test_instances_are_made_and_shown_alike(twins, name, arguments, keywords):
    mine, theirs = twins[name]
    assert result(mine, *arguments, **keywords) == result(theirs, *arguments, **keywords)


@pytest.mark.parametrize(("name", "arguments", "keywords"), CALLS)
def test_instances_compare_and_hash_alike(twins, name, arguments, keywords):
    outcomes = []
    for cls in twins[name]:
        one, same = (cls(*copy.deepcopy(arguments), **keywords) for _ in range(2))
        others = [1, None, (), Module(1)]
        hashed = result(lambda x: hash(x) == hash(x), one)
        outcomes.append((one == same, one != same, [one == other for other in others], hashed))
    assert outcomes[0] == outcomes[1]


def test_what_is_not_compared_makes_no_difference():
    rich = make(ours, frozen=True, slots=True)["Rich"]
    assert rich(1, [2]) == rich(1, [3])
    assert rich(1, [2]) != rich(2, [2])


@pytest.mark.parametrize(("name", "arguments", "keywords"), CALLS[:-1])
def test_attributes_are_set_and_refused_alike(twins, name, arguments, keywords):
    def attempts(cls):
        one = cls(*arguments, **keywords)
        field = cls.__slots__[0]
        yield result(setattr, one, field, 5)
        yield result(getattr, one, field)
        yield result(delattr, one, field)
        yield result(getattr, one, "__dict__")[0]

    mine, theirs = twins[name]
    assert list(attempts(mine)) == list(attempts(theirs))
    with pytest.raises(AttributeError):
        mine(*arguments, **keywords).nonsense = 5


@pytest.mark.parametrize("name", ["Plain", "Rich", "Checked", "Own", "Empty"])
def test_classes_are_described_alike(twins, name):
    mine, theirs = twins[name]
    for cls in (mine, theirs):
        assert dataclasses.is_dataclass(cls)
    shown = [
        [(f.name, f.type, f.init, f.repr, f.compare, f.default, f.default_factory) for f in fields]
        for fields in (dataclasses.fields(mine), dataclasses.fields(theirs))
    ]
    assert shown[0] == shown[1]
    assert mine.__match_args__ == theirs.__match_args__
    assert mine.__slots__ == theirs.__slots__
    assert mine.__qualname__ == theirs.__qualname__
    if name == "Plain":
        assert mine.__doc__ == theirs.__doc__ == "A point."
    mine_signature, their_signature = inspect.signature(mine), inspect.signature(theirs)
    assert list(mine_signature.parameters) == list(their_signature.parameters)
    assert [p.kind for p in mine_signature.parameters.values()] == [
        p.kind for p in their_signature.parameters.values()
    ]
    assert typing.get_type_hints(mine.__init__) == typing.get_type_hints(theirs.__init__)


@pytest.mark.parametrize("name", ["Plain", "Rich", "Checked", "Own"])
def test_replace(twins, name):
    arguments = {"Plain": (1, "z"), "Rich": (1, [2]), "Checked": ("abc",), "Own": (1,)}[name]
    first = {"Plain": "x", "Rich": "a", "Checked": "text", "Own": "a"}[name]
    mine, theirs = twins[name]
    want = result(dataclasses.replace, theirs(*arguments), **{first: "new"})
    assert result(ours.replace, mine(*arguments), **{first: "new"}) == want
    assert result(dataclasses.replace, mine(*arguments), **{first: "new"}) == want
    assert result(ours.replace, mine(*arguments), nonsense=1)[0] is TypeError


def test_each_instance_has_a_new_default():
    rich = make(ours, slots=True)["Rich"]
    assert rich(1, []).made is not rich(1, []).made
    assert rich(1, []).later is not rich(1, []).later


def test_methods_and_patterns():
    rich = make(ours, frozen=True, slots=True)["Rich"]
    assert rich.zero().double == 0
    match rich(1, [2], {"k": 3}):
        case rich(1, [two], {"k": three}):
            assert (two, three) == (2, 3)
        case _:
            pytest.fail("it did not match")


@ours.dataclass(frozen=True, slots=True)
class Module:
    """Pickle finds classes by their names in modules."""

    a: int
    b: tuple[int, ...] = ()


def test_copies():
    one = Module(1, (2, 3))
    assert dataclasses.asdict(one) == {"a": 1, "b": (2, 3)}
    for again in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
        assert again == one
        assert again is not one
        assert hash(again) == hash(one)


def modules():
    for found in pkgutil.walk_packages(pybpf.__path__, "pybpf."):
        if not found.name.startswith(("pybpf.testing", "pybpf.__main__")):
            yield found.name


def test_every_dataclass_of_the_package_could_be_the_standard_librarys():
    """Ours leaves out what the package does not use: then this fails."""
    seen = 0
    for name in modules():
        for cls in vars(importlib.import_module(name)).values():
            if isinstance(cls, type) and dataclasses.is_dataclass(cls) and cls.__module__ == name:
                seen += 1
                fields = dataclasses.fields(cls)
                assert cls.__slots__ == tuple(f.name for f in fields)
                assert [b for b in cls.__mro__[1:-1] if dataclasses.is_dataclass(b)] == []
                assert not any(
                    "ClassVar" in str(f.type) or "InitVar" in str(f.type) for f in fields
                )
                assert list(inspect.signature(cls).parameters) == [f.name for f in fields if f.init]
    assert seen > 100
