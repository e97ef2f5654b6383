"""A wheel, built and installed, and a Debian without a compiler to run it in."""

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CAPABILITIES = "-all,+bpf,+perfmon"
LIMITED = [f"--{kind}={CAPABILITIES}" for kind in ("inh-caps", "ambient-caps", "bounding-set")]
RIGHTS = {
    "root": [],
    "limited root": ["setpriv", *LIMITED],
    "limited nobody": ["setpriv", *LIMITED, "--reuid=65534", "--regid=65534", "--clear-groups"],
    "nobody": ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
}


@dataclass
class Said:
    """What a command left: exit status, standard output and standard error."""

    status: int
    out: str
    err: str


def load(name):
    """Return a module of tools/, which are scripts and in no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """Return a context manager and a folder for what one of the workers makes for all of them."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    @contextmanager
    def alone():
        with (shared / "container.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield shared

    return alone


def pip(*arguments):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *arguments]
    result = subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout


@pytest.fixture(scope="session")
def wheels(once):
    """Build the wheel of a copy of what git would clone, so that nothing is left in the original;
    returns the folder that it is in."""
    with once() as shared:
        folder = shared / "wheels"
        if not folder.exists():
            copy = shared / "checkout"
            ignore = shutil.ignore_patterns(
                ".*", "build", "builddir", "dist", "*.egg-info", "__pycache__", "*.so", "tests"
            )
            shutil.copytree(ROOT, copy, symlinks=True, ignore=ignore)
            pip("wheel", "--no-deps", "--wheel-dir", shared / "building", copy)
            (shared / "building").rename(folder)
    return folder


@pytest.fixture(scope="session")
def site(once, wheels):
    """Return a function: the version of a Python in; a folder with pybpf and all it needs, out."""

    def install(version):
        (wheel,) = wheels.glob("*.whl")
        with once() as shared:
            folder = shared / f"site-{version}"
            if not folder.exists():
                other = ["--python-version", version, "--only-binary", ":all:"]
                part = shared / "installing"
                pip("install", "--no-compile", "--target", part, *other, wheel)
                part.rename(folder)
        return folder

    return install


@pytest.fixture(scope="session")
def debian(once):
    """Return tools/chroot.py, with its Debian in place; skip where that cannot be had."""
    if os.geteuid():
        pytest.skip("namespaces take root")
    try:
        from pybpf.kernel import features
    except ImportError as error:
        pytest.skip(str(error))
    if reason := features.why_unavailable():
        pytest.skip(f"no BPF here: {reason}")
    if "PYBPF_GUEST" in os.environ:
        pytest.skip("a guest has no network to build a wheel with")
    chroot = load("chroot")
    try:
        with once():
            chroot.make(chroot.folder())
    except chroot.ChrootError as error:
        pytest.skip(f"no Debian to run in: {error}")
    return chroot


@pytest.fixture
def group():
    """Return a fresh cgroup, which must be empty at the end; None where cgroup2 is not mounted."""
    from pybpf.kernel import cgroup

    mounts = cgroup._mounts(Path("/proc/self/mountinfo").read_text())
    top = Path(mounts[0][2], f"pybpf-container-{os.getpid()}") if mounts else None
    if top is None or not os.access(top.parent, os.W_OK):
        yield None
        return
    top.mkdir()
    yield top
    top.rmdir()


@pytest.fixture
def container(debian, site, group):
    """Return a function that runs a command in a container with pybpf in it.

    ``rights`` are those of RIGHTS, ``no`` is what the container lacks. Nothing may be left of it.
    """
    root = debian.folder()
    (python,) = (root / "usr/bin").glob("python3.[0-9]*[0-9]")
    folder = site(python.name.removeprefix("python"))
    before = Path("/proc/self/mountinfo").read_text()

    def run(*command, rights="root", no=(), tracefs=False):
        enter = debian.script(root, [f"{folder}:/opt"], no, tracefs=tracefs)
        argv = debian.argv(root, enter, [*RIGHTS[rights], "env", "PYTHONPATH=/opt", *command])
        if group is not None:  # the cgroup namespace begins where its maker is
            join = f'echo $$ > {group}/cgroup.procs; exec "$@"'
            argv = ["sh", "-c", join, "sh", *argv]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=100)
        return Said(done.returncode, done.stdout, done.stderr)

    yield run
    assert Path("/proc/self/mountinfo").read_text() == before


@pytest.fixture
def pybpf(container):
    """Return a function that runs `pybpf run` in a container."""
    return lambda *words, **options: container("python3", "-m", "pybpf", "run", *words, **options)
