"""What is installed: the same files by pip and by Meson, all that are on disk, and no others."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import pybpf
from pybpf.kernel.syscall import lib

ROOT = Path(__file__).resolve().parent.parent
MESON = (ROOT / "meson.build").read_text()
CDEF = (ROOT / "src/bpf_syscall.cdef.h").read_text()
C_SOURCES = sorted(path.name for path in (ROOT / "src").glob("*.c"))


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


lists = load(ROOT / "tools/lists.py")


def test_meson_names_the_modules_on_disk():
    assert lists.meson_table() in MESON, "run `make lists` and review what it changes"


def test_setup_names_the_packages_on_disk():
    assert lists.setup_list() in (ROOT / "setup.py").read_text(), "run `make lists`"


def test_both_builds_compile_the_c_sources_on_disk():
    build = (ROOT / "src/ffi_build.py").read_text()

    assert sorted(re.findall(r"'src/(\w+\.c)'", MESON)) == C_SOURCES
    assert sorted(re.findall(r'"(\w+\.c)"', build)) == C_SOURCES


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["version"] == pybpf.__version__
    assert re.search(r"version: '([^']+)'", MESON)[1] == pybpf.__version__


def test_the_stub_declares_what_the_header_declares():
    stub = (ROOT / "pybpf/_bpf_syscall.pyi").read_text()
    declared = re.findall(r"^(?:int|int64_t|uint64_t|void) (\w+)\(", CDEF, re.MULTILINE)
    stubbed = re.findall(r"    def (\w+)\(", stub.partition("class _Lib:")[2])

    assert sorted(stubbed) == sorted(declared)
    assert set(declared) <= set(dir(lib))


@pytest.mark.parametrize("compiler", ["gcc", "clang", "aarch64-linux-gnu-gcc"])
@pytest.mark.parametrize("source", C_SOURCES)
def test_the_c_sources_compile_without_a_warning(compiler, source, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-c", "-o", tmp_path / "out.o"]
    result = subprocess.run(
        [compiler, *flags, ROOT / "src" / source], capture_output=True, text=True, check=False
    )

    assert (result.returncode, result.stderr) == (0, "")


def test_the_extension_needs_no_kernel_headers():
    for source in C_SOURCES:
        assert "#include <linux/" not in (ROOT / "src" / source).read_text()


def test_importing_pybpf_loads_nothing_else_of_it():
    code = "import pybpf, sys; print(*(m for m in sys.modules if m.startswith('pybpf.')))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert result.stdout.split() == []


@pytest.mark.parametrize("name", sorted(set(pybpf.__all__) - {"__version__"}))
def test_public_names_are_there(name):
    assert callable(getattr(pybpf, name))
    assert name in dir(pybpf)


def test_an_unknown_name_is_refused_as_by_any_module():
    with pytest.raises(AttributeError, match="module 'pybpf' has no attribute 'nonsense'"):
        _ = pybpf.nonsense


def run(*argv, cwd, **environment):
    """Run a command; a failure shows what it printed."""
    result = subprocess.run(
        [str(arg) for arg in argv],
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout


def files_below(folder):
    """Return the content of each installed file by its path; of the extension, only its name."""
    return {
        path.relative_to(folder).as_posix(): None if path.suffix == ".so" else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def files_to_install(checkout):
    files = {}
    for folder, names in lists.modules(checkout).items():
        package = lists.package(folder).replace(".", "/")
        files |= {f"{package}/{name}": (checkout / folder / name).read_bytes() for name in names}
    return files | {"pybpf/_bpf_syscall.abi3.so": None}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Copy what git would clone, so that builds leave nothing behind."""
    copy = tmp_path_factory.mktemp("checkout") / "pybpf"
    ignore = shutil.ignore_patterns(
        ".*", "build", "builddir", "dist", "*.egg-info", "__pycache__", "*.so", "tests"
    )
    shutil.copytree(ROOT, copy, symlinks=True, ignore=ignore)
    return copy


@pytest.fixture(scope="module")
def wheel_tree(checkout, tmp_path_factory):
    """Build an sdist, a wheel from that sdist, and unpack the wheel."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", out, ".", cwd=checkout)
    (wheel,) = out.glob("*.whl")
    assert wheel.name.startswith(f"pybpf-{pybpf.__version__}-cp311-abi3-linux_")
    tree = out / "tree"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tree)
    return tree


@pytest.fixture(scope="module")
def meson_tree(checkout, tmp_path_factory):
    """Configure, build and install with Meson into a folder of its own."""
    out = tmp_path_factory.mktemp("meson")
    # `python3` for Meson, and ninja, are those of the environment that runs the tests.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    meson = [sys.executable, "-m", "mesonbuild.mesonmain"]
    run(
        *meson, "setup", "--prefix", "/usr", "--werror", out / "build", ".", cwd=checkout, PATH=path
    )
    run(*meson, "install", "-C", out / "build", "--destdir", out / "root", cwd=checkout, PATH=path)
    (package,) = (out / "root").rglob("pybpf/__init__.py")
    return package.parent.parent


TREES = ["wheel_tree", "meson_tree"]
EXTENSION_TESTS = ["features", "links", "maps", "programs", "ringbuf", "rings", "syscall"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("tree", TREES)
def test_an_installation_holds_the_files_on_disk(tree, checkout, request):
    installed = files_below(request.getfixturevalue(tree))
    ours = {name: data for name, data in installed.items() if name.startswith("pybpf/")}

    assert ours == files_to_install(checkout)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("tree", TREES)
def test_an_installation_passes_tests_of_the_extension(tree, request):
    """Its Python files are those of the checkout, see above: only the extension can differ."""
    folder = request.getfixturevalue(tree)
    where = "import pybpf.kernel.ringbuf as r, pybpf; print(r.__file__); print(pybpf.__file__)"
    code = f"{where}; import pybpf._bpf_syscall as s; print(s.__file__)"
    result = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert all(line.startswith(str(folder)) for line in result.stdout.split())
    tests = [f"tests/kernel/test_{name}.py" for name in EXTENSION_TESTS]
    run(
        *(sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests),
        cwd=ROOT,
        PYTHONPATH=str(folder),
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_meson_installs_the_command(meson_tree):
    (command,) = [p for p in meson_tree.parents[2].rglob("bin/pybpf") if p.is_file()]

    assert command.stat().st_mode & 0o777 == 0o755
    assert command.read_text().startswith("#!/")
    assert "pybpf.cli" in command.read_text()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_sdist_holds_what_builds_need(wheel_tree):
    (sdist,) = wheel_tree.parent.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    wanted = {"LICENSE", "meson.build", "setup.py", "pyproject.toml", "src/bpf_syscall.cdef.h"}
    assert wanted | {f"src/{name}" for name in C_SOURCES} <= names
    assert "compiler/__init__.py" in names
    assert not any(name.startswith("pybpf/compiler/") for name in names)
