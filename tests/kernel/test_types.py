"""Types are found by name: the kernel's own first, then those that modules add."""

import pytest

from pybpf.btf.abi import Encoding, Kind
from pybpf.btf.builder import Builder
from pybpf.btf.reader import Btf
from pybpf.btf.types import Composite, Func, FuncProto, Int, Var
from pybpf.errors import KernelError
from pybpf.kernel import types as module
from pybpf.kernel.types import KernelTypes, Named


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A kernel with a function and a variable, and two modules with a function each."""
    base = Builder()
    for each in (Int("int", 4, Encoding.SIGNED, 32), FuncProto(1, ()), Func("run", 2, 0),
                 Var("counter", 1, 1)):  # fmt: skip
        base.add(each)
    (tmp_path / "vmlinux").write_bytes(base.blob())
    whole = Btf(base.blob())
    for name in ("first", "second"):
        builder = Builder(base=whole)
        builder.add(Func(f"{name}_run", 2, 0))
        builder.add(Composite(Kind.STRUCT, "shared", 4, ()))
        (tmp_path / name).write_bytes(builder.blob())
    (tmp_path / "broken").write_bytes(b"second_run\0")
    monkeypatch.setattr(module, "_FOLDER", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "name", "wanted", "found"),
    [
        (Kind.FUNC, "run", None, (3, "")),
        (Kind.VAR, "counter", None, (4, "")),
        (Kind.FUNC, "counter", None, None),
        (Kind.FUNC, "first_run", None, (5, "first")),
        (Kind.FUNC, "second_run", None, (5, "second")),
        (Kind.FUNC, "second_run", "second", (5, "second")),
        (Kind.FUNC, "second_run", "first", None),
        (Kind.FUNC, "run", "first", None),
        (Kind.FUNC, "run", "vmlinux", (3, "")),
        (Kind.FUNC, "first_run", "vmlinux", None),
        (Kind.STRUCT, "shared", None, (6, "first")),
        (Kind.STRUCT, "shared", "second", (6, "second")),
        (Kind.FUNC, "run", "../second", None),
        (Kind.FUNC, "run", "nosuch", None),
    ],
)
@pytest.mark.usefixtures("folder")
def test_names_are_found(kind, name, wanted, found):
    types = KernelTypes()
    for _ in range(2):  # what is kept is found again
        got = types.find(kind, name, wanted)
        assert (got and (got.number, got.module)) == found
        assert got is None or isinstance(got, Named)


def test_modules_that_tell_of_their_types(folder):
    assert [found.name(5) for found in KernelTypes().modules()] == ["first_run", "second_run"]
    (folder / "vmlinux").unlink()
    with pytest.raises(KernelError, match="vmlinux: No such file or directory"):
        KernelTypes().find(Kind.FUNC, "run")


@pytest.mark.kernel
def test_the_types_of_this_kernel():
    types = KernelTypes()
    found = types.find(Kind.TYPEDEF, "btf_trace_sched_switch")
    assert found is not None
    assert found.btf.name(found.number) == "btf_trace_sched_switch"
    assert types.find(Kind.FUNC, "no_such_function_at_all") is None
    with pytest.raises(KernelError, match="cannot find the types of module no_such"):
        types.descriptor("no_such")
