"""The types of a kernel, as they are and out of ELF files; other files are refused by name."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pybpf.btf.builder import Builder
from pybpf.btf.types import Composite, Kind
from pybpf.errors import TargetError
from pybpf.target.kernel_types import LIVE, read
from pybpf.verifier.kerneltypes import types_of


def blob():
    builder = Builder()
    builder.add(Composite(Kind.STRUCT, "one", 4, ()))
    return builder.blob()


def test_types_as_they_are(tmp_path):
    (tmp_path / "vmlinux").write_bytes(blob())

    assert read(str(tmp_path / "vmlinux")).struct("one") == 1


def test_types_in_an_elf_file(c_objects):
    assert read(str(c_objects / "core_fields.el.o")).struct("task_struct")


def test_the_running_kernel():
    types = types_of(None, live=True)
    if not Path(LIVE).exists():
        assert types is None
        return
    assert types.btf.struct("task_struct")
    assert types.btf is types.btf


def test_other_files_are_refused_by_name(tmp_path, c_objects):
    for name, data, reason in (
        ("text", b"text", " offset 0x0: no BTF: its first two bytes are not 0xeb9f"),
        ("short", b"\x7fELF", " offset 0x4: no ELF file: its header is cut off"),
        ("none", (c_objects / "no_btf.el.o").read_bytes(), " it has no section .BTF"),
    ):
        file = tmp_path / name
        file.write_bytes(data)
        with pytest.raises(TargetError) as error:
            read(str(file))
        assert str(error.value).startswith(f"{file}:{reason}")
    with pytest.raises(TargetError, match=f"cannot read {tmp_path}: Is a directory"):
        read(str(tmp_path))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.integers(0, 4000), st.binary(min_size=1, max_size=8))
def test_damaged_elf_files_raise_nothing_else(c_objects, tmp_path, place, changed):
    data = bytearray((c_objects / "core_fields.el.o").read_bytes())
    data[place : place + len(changed)] = changed
    (tmp_path / "damaged").write_bytes(data)
    with suppress(TargetError):
        read(str(tmp_path / "damaged"))
