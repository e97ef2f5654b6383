"""Which compilers tools/objects.py takes, and that objects made before are not made again."""

import shutil
import sys

import pytest


@pytest.fixture
def objects(tool):
    return tool("objects")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["clang"], None),
        (["clang", "clang-9", "clang-16", "clang-16.0", "clang-format-19"], "clang-16"),
        (["clang-22", "clang-9"], "clang-22"),
    ],
)
def test_the_newest_compiler(objects, tmp_path, monkeypatch, names, expected):
    for name in names:
        (tmp_path / name).touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:/nowhere")

    assert objects.newest() == expected


@pytest.mark.skipif(shutil.which("clang") is None, reason="clang is not installed")
def test_a_folder_for_each_compiler(objects, tmp_path, monkeypatch, capsys, newest_clang):
    (tmp_path / "src").mkdir()
    (tmp_path / "src/one.c").write_text("/* Nothing. */\nint one(void) { return 1; }\n")
    monkeypatch.setattr(objects, "SOURCES", tmp_path / "src")
    monkeypatch.setattr(sys, "argv", ["objects.py", "--each", str(tmp_path / "made")])

    assert objects.main() == 0
    assert capsys.readouterr().out == "all compiled\n"
    assert {str(made.relative_to(tmp_path / "made")) for made in tmp_path.glob("made/*/*")} == {
        f"{clang}/one.{order}.o" for clang in ("clang", newest_clang) for order in ("el", "eb")
    }


@pytest.mark.skipif(shutil.which("clang") is None, reason="clang is not installed")
def test_objects_made_before_are_taken(compiled_with, c_object, tmp_path, monkeypatch):
    (tmp_path / "clang").mkdir()
    monkeypatch.setenv("PYBPF_OBJECTS", str(tmp_path))

    assert compiled_with("clang") == tmp_path / "clang"
    assert c_object("loops") == tmp_path / "clang" / "loops.el.o"


@pytest.mark.skipif(shutil.which("clang") is None, reason="clang is not installed")
def test_an_object_is_made_where_there_is_none(c_object, tmp_path, monkeypatch):
    monkeypatch.setenv("PYBPF_OBJECTS", str(tmp_path / "nothing"))

    assert c_object("xdp_pass").read_bytes().startswith(b"\x7fELF")
