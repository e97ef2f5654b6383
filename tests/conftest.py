"""What tests of several rooms share."""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase

from pybpf.cli import main
from pybpf.errors import KernelError, PybpfError
from pybpf.target.snapshot import SnapshotTarget

TARGETS = Path(__file__).parent / "data" / "targets"
EXAMPLES = Path(__file__).parents[1] / "examples"
TOOLS = Path(__file__).parents[1] / "tools"

_EM_BPF = 247


def pytest_addoption(parser):
    """Let ``--update-golden`` stand for UPDATE_GOLDEN=1 in the environment."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what is found over the goldens; the diff is for a person to judge",
    )


def pytest_configure(config):
    """Tell the tests, those in other processes included."""
    if config.getoption("--update-golden"):
        os.environ["UPDATE_GOLDEN"] = "1"
    # A shell's background jobs ignore it, and so would every program that a test interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


settings.register_profile("long", max_examples=2000, deadline=None)
settings.register_profile("scripts", max_examples=500, deadline=None)
# What one machine of a fleet finds, the others try next; see docs/fuzzing.md.
settings.register_profile(
    "fleet",
    database=DirectoryBasedExampleDatabase(
        os.environ.get("PYBPF_EXAMPLES", ".hypothesis/examples")
    ),
    max_examples=10_000,
    deadline=None,
)


def why_no_bpf():
    """Return why tests marked ``kernel`` cannot run here, or None."""
    try:
        from pybpf.kernel import features
    except KernelError as error:  # the extension was not built
        return error
    return features.why_unavailable()


def pytest_collection_modifyitems(items):
    """Skip tests marked ``kernel`` where no kernel lets us, and say why."""
    marked = [item for item in items if item.get_closest_marker("kernel")]
    if marked and (error := why_no_bpf()):
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=f"no BPF here: {error}"))


_OBJECT_ID = re.compile(r"^(prog|map|link)_id:\s+([0-9]+)$", re.MULTILINE)


@pytest.fixture
def objects_of():
    """Return a function: a process in, the BPF objects that its files hold out, as (kind, id)."""

    def objects(pid: int | str = "self") -> set[tuple[str, int]]:
        found = set()
        for file in Path(f"/proc/{pid}/fdinfo").iterdir():
            try:
                found |= {(kind, int(n)) for kind, n in _OBJECT_ID.findall(file.read_text())}
            except OSError:  # closed in the meantime
                continue
        return found

    return objects


@pytest.fixture
def gone():
    """Return a function: whether the kernel has freed BPF objects, which takes it a moment."""
    from pybpf.kernel import syscall

    def alive(kind: str, number: int) -> bool:
        try:
            syscall.object_by_id(syscall.Kind[kind.upper()], number).close()
        except KernelError:
            return False
        return True

    def check(objects: set[tuple[str, int]]) -> bool:
        until = time.monotonic() + 10
        while left := {each for each in objects if alive(*each)}:
            if time.monotonic() > until:
                pytest.fail(f"still there: {sorted(left)}")
            time.sleep(0.01)
        return True

    return check


@pytest.fixture
def cleaning():
    """Let one test at a time, of all that run, remove what killed processes left in tracefs."""
    with (Path(tempfile.gettempdir()) / "pybpf-tests-cleaning").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def target_612():
    """Return the snapshot of a 6.12 kernel."""
    return SnapshotTarget.load(TARGETS / "6.12.tar.gz", environment={"target": "1"})


@pytest.fixture(scope="session")
def tracing():
    """Skip, with the reason, where this machine does not let us trace."""
    from pybpf.kernel.features import why_unavailable
    from pybpf.kernel.live import LiveTarget

    try:
        LiveTarget().event_names()
        refusal = why_unavailable()
    except PybpfError as error:
        refusal = error
    if refusal is not None:
        pytest.skip(f"no tracing here: {refusal}")


class Job:
    """A process for examples to look at, by a name that no other process has."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path | None = None) -> None:
        """Prepare to run scripts, or where there is a folder the objects made of them in it."""
        self.name = f"job-{os.getpid()}"
        self._capsys = capsys
        self._folder = folder

    def watch(self, example: str, code: str, *arguments: str, text: bool = False) -> list[Any]:
        """Run an example on a job that runs this Python; return what it prints.

        That is a list of lines if it is to be text, else of parsed JSON. The example is about the
        job only, unless it is given arguments of its own.
        """
        code = f"open('/proc/self/comm', 'w').write({self.name!r})\n{code}"
        command = shlex.join([sys.executable, "-SE", "-c", code])
        options = ["--format", "text" if text else "json", "-c", command]
        script = [str(EXAMPLES / example), *(arguments or [self.name])]
        if self._folder is not None:
            made = str(self._folder / "probe.o")
            assert main(["compile", "--no-verify", "-o", made, *script]) == 0
            script = [made]
        assert main(["run", *options, *script]) == 0
        printed, errors = self._capsys.readouterr()
        # An interrupt in a program that runs finds no room for its own: rare, and no mistake.
        assert re.fullmatch(r"(warning: \d+ events? came while .*\n)?", errors), errors
        lines: list[str] = printed.splitlines()
        return lines if text else list(map(json.loads, lines))

    def maps(self, example: str, code: str, *arguments: str) -> dict[str, dict[Any, Any]]:
        """Return the maps that an example prints, as dicts; a key of several parts is a tuple."""
        return {
            row["name"]: {_key(entry["key"]): entry["value"] for entry in row["entries"]}
            for row in self.watch(example, code, *arguments)
            if row["event"] == "map"
        }

    def map(self, example: str, code: str, *arguments: str) -> dict[Any, Any]:
        """Return the only map that an example prints."""
        ((name, entries),) = self.maps(example, code, *arguments).items()
        assert name == "@"
        return entries


def _key(parts: list[Any]) -> Any:
    key = tuple(tuple(part) if isinstance(part, list) else part for part in parts)
    return key if len(key) > 1 else key[0]


@pytest.fixture
def job(
    tracing: None,  # noqa: ARG001 - may skip
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Job:
    """Return what runs examples, or (``ahead``) objects made of them, on a process of their own."""
    return Job(capsys, tmp_path if getattr(request, "param", "") == "ahead" else None)


@pytest.fixture(scope="session")
def loopback() -> None:
    """Switch the loopback device on in a guest, where nobody else has."""
    if "PYBPF_GUEST" in os.environ:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


@pytest.fixture
def llvm_lines(tmp_path):
    """Return a function: code in, the lines that llvm-objdump prints for it out."""
    tool = shutil.which("llvm-objdump")
    if tool is None:
        pytest.skip("llvm-objdump is not installed")

    def lines(code: bytes, byteorder: str = "little", *options: str) -> list[str]:
        path = tmp_path / "code.o"
        path.write_bytes(_write_elf(code, byteorder))
        printed = subprocess.run(
            [tool, "-d", *options, path], capture_output=True, text=True, check=True
        ).stdout
        return [line for line in printed.splitlines() if re.match(r"\s*\d+:\t", line)]

    return lines


def _write_elf(text: bytes, byteorder: str) -> bytes:
    """Return a minimal relocatable ELF file whose .text holds the given bytes."""
    order, tag = ("<", 1) if byteorder == "little" else (">", 2)
    names = b"\0.text\0.shstrtab\0"
    body = text + names
    body += bytes(-len(body) % 8)
    header = struct.pack(
        f"{order}4sBBBB8xHHIQQQIHHHHHH",
        b"\x7fELF", 2, tag, 1, 0, 1, _EM_BPF, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, 3, 2,
    )  # fmt: skip
    section = f"{order}IIQQQQIIQQ"
    return b"".join(
        (
            header,
            body,
            bytes(64),
            struct.pack(section, 1, 1, 6, 0, 64, len(text), 0, 0, 8, 0),
            struct.pack(section, 7, 3, 0, 0, 64 + len(text), len(names), 0, 0, 1, 0),
        )
    )


def made_before(clang: str) -> Path | None:
    """Return the folder of objects by a clang that were made for these tests, if they were."""
    given = os.environ.get("PYBPF_OBJECTS")
    folder = given and Path(given, clang)
    return folder if folder and folder.is_dir() else None


@pytest.fixture(scope="session")
def compiled_with(tmp_path_factory):
    """Return a function: a clang in, a folder with what it made of tests/objects out.

    That is done once for all test processes, or before them: $PYBPF_OBJECTS names a folder with one
    of objects for each clang.
    """

    def objects(clang: str) -> Path:
        if shutil.which(clang) is None:
            pytest.skip(f"{clang} is not installed")
        if (made := made_before(clang)) is not None:
            return made
        shared = tmp_path_factory.getbasetemp()
        if os.environ.get("PYTEST_XDIST_WORKER"):
            shared = shared.parent
        folder = shared / "objects" / clang
        with (shared / f"{clang}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                argv = [sys.executable, TOOLS / "objects.py", folder, "--clang", clang]
                subprocess.run(argv, check=True, capture_output=True)
        return folder

    return objects


@pytest.fixture(scope="session")
def newest_clang(tool):
    """Return the newest clang, by the name with its version."""
    clang = tool("objects").newest()
    if clang is None or tool("objects").release(clang) <= 14:
        pytest.skip("there is no clang newer than 14")
    return clang


@pytest.fixture(scope="session")
def c_objects(compiled_with):
    """Return a folder with the objects of tests/objects."""
    return compiled_with("clang")


@pytest.fixture
def c_object(tool, tmp_path):
    """Return a function: the name of a C program of tests/objects in, the path of its object out.

    For tests that want few of them: these are compiled by themselves where $PYBPF_OBJECTS has none.
    """
    if shutil.which("clang") is None:
        pytest.skip("clang is not installed")

    def compiled(name: str) -> Path:
        if (made := made_before("clang")) is not None:
            return made / f"{name}.el.o"
        objects = tool("objects")
        assert objects.compile_one("clang", objects.SOURCES / f"{name}.c", "el", tmp_path)
        return tmp_path / f"{name}.el.o"

    return compiled


@pytest.fixture(scope="session", params=["clang", "newest"])
def each_clang(compiled_with, request):
    """Return a folder with the objects of tests/objects, of the usual clang and of the newest."""
    newest = request.param == "newest"
    return compiled_with(request.getfixturevalue("newest_clang") if newest else request.param)


@pytest.fixture(scope="session")
def tool():
    """Return a function that imports a module of tools/, which are scripts and in no package."""

    def load(name):
        with pytest.MonkeyPatch.context() as patched:
            patched.syspath_prepend(TOOLS)  # they import each other
            return importlib.import_module(name)

    return load


@pytest.fixture(scope="session")
def guest(tool):
    """Return tools/guest.py."""
    return tool("guest")


@pytest.fixture(scope="session")
def kernel_in_guest(guest):
    """Return the kernel series that tests boot: the quickest, and in the stable suite."""
    if missing := guest.missing_programs(guest.host_environment()["PATH"]):
        pytest.skip(f"a guest needs {', '.join(missing)}")
    try:
        guest.fetch("6.12")
    except guest.GuestError as error:
        pytest.skip(str(error))
    return "6.12"
