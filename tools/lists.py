"""Write the modules on disk into setup.py and meson.build, which name every file they install.

Naming them keeps strays out of wheels and packages; tests/test_packaging.py compares the lists
with the disk. Review what this changes before you commit it.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ("_bpf_syscall.pyi", "py.typed")


def modules(root: Path = ROOT) -> dict[str, list[str]]:
    """Return the names of the files to install by folder; ``pybpf/compiler`` is a link."""
    found: dict[str, list[str]] = {}
    for top in ("pybpf", "compiler"):
        for path in sorted((root / top).rglob("*.py")):
            folder = path.parent.relative_to(root).as_posix()
            if not folder.startswith("pybpf/compiler"):
                found.setdefault(folder, []).append(path.name)
    for pattern in ("*.html", "*.json", "*.xz"):
        for path in sorted((root / "pybpf").rglob(pattern)):
            found.setdefault(path.parent.relative_to(root).as_posix(), []).append(path.name)
    found["pybpf"] = sorted([*found["pybpf"], *DATA])
    return found


def package(folder: str) -> str:
    """Return the package that a folder is installed as."""
    name = folder.replace("/", ".")
    return f"pybpf.{name}" if folder.startswith("compiler") else name


def meson_table() -> str:
    """Return the table of meson.build."""
    lines = []
    for folder, names in modules().items():
        lines += [f"  '{folder}': [", *(f"    '{name}'," for name in names), "  ],"]
    return "modules = {\n" + "\n".join(lines) + "\n}\n"


def setup_list() -> str:
    """Return the list of setup.py."""
    names = sorted(package(folder) for folder, files in modules().items() if "__init__.py" in files)
    return "packages=[\n" + "".join(f'        "{name}",\n' for name in names) + "    ],\n"


def _replace(name: str, pattern: str, text: str) -> None:
    path = ROOT / name
    path.write_text(re.sub(pattern, lambda _: text, path.read_text(), count=1, flags=re.DOTALL))


if __name__ == "__main__":
    _replace("meson.build", r"modules = \{\n.*?\n?\}\n", meson_table())
    _replace("setup.py", r"packages=\[\n.*?    \],\n", setup_list())
