import os
import subprocess
import sys
from pathlib import Path

import pytest

from pybpf.errors import KernelError, PybpfError, TargetError
from pybpf.kernel import functions, live, tracefs
from pybpf.kernel.live import LiveTarget
from pybpf.kernel.tracefs import open_tracefs
from pybpf.target.features import ALL
from pybpf.target.snapshot import SnapshotTarget, snapshot
from pybpf.target.target import Target


def refusal(read):
    """Say why this machine does not let us read something; empty where it does."""
    try:
        read(LiveTarget())
    except PybpfError as error:
        return str(error)
    return ""


def mount(_):
    from pybpf.kernel.syscall import mount_detached

    mount_detached("tracefs").close()


NO_MOUNTS = refusal(mount)
NO_TRACEFS = refusal(lambda target: target.event_names())
NO_SYMBOLS = refusal(lambda target: target.symbols)
needs_tracefs = pytest.mark.skipif(NO_TRACEFS != "", reason=NO_TRACEFS)
needs_symbols = pytest.mark.skipif(NO_SYMBOLS != "", reason=NO_SYMBOLS)
needs_mounts = pytest.mark.skipif(NO_MOUNTS != "", reason=NO_MOUNTS)


@pytest.fixture(scope="module")
def target():
    return LiveTarget({"target": "42"})


@pytest.fixture
def hidden(monkeypatch, tmp_path):
    """Make this machine one where no tracefs is mounted."""
    monkeypatch.setattr(tracefs, "_TRACEFS", (str(tmp_path / "none"), str(tmp_path)))
    return tmp_path


def resources():
    fds = sorted(path.name for path in Path("/proc/self/fd").iterdir())
    return fds, Path("/proc/self/mounts").read_text()


def test_is_a_target(target):
    live_target: Target = target
    assert live_target.arch.name == os.uname().machine
    assert live_target.release == os.uname().release


@pytest.mark.kernel
def test_features_are_detected_by_trying(target):
    assert target.features <= ALL


def test_features_are_a_current_kernels_for_whoever_may_not_try(monkeypatch):
    def refuse():
        raise KernelError(1, "load")

    features = pytest.importorskip("pybpf.kernel.features", exc_type=KernelError)
    monkeypatch.setattr(features, "detect", refuse)
    assert LiveTarget().features == ALL


def test_cpus(target):
    pytest.importorskip("pybpf.kernel.maps", exc_type=KernelError)
    assert target.cpus >= len(os.sched_getaffinity(0))


def test_environment(monkeypatch):
    monkeypatch.setenv("target", "outside")
    monkeypatch.setenv("PYBPF_TEST", "x")
    found = LiveTarget({"target": "42"}).environment
    assert (found["target"], found["PYBPF_TEST"]) == ("42", "x")


@needs_tracefs
def test_tracepoints(target):
    names = target.event_names()
    assert names == tuple(sorted(names))
    if "sched/sched_switch" not in names:
        pytest.skip("this kernel has no sched_switch")
    event = target.event_format("sched/sched_switch")
    assert event.id == int(event_file("sched/sched_switch", "id"))
    assert event.field("prev_comm").size == 16


def event_file(name, file):
    with open_tracefs() as tree:
        return tree.read(f"events/{name}/{file}")


@needs_tracefs
@pytest.mark.parametrize(
    "name", ["", "x", "sched/x", "sched/..", "../../proc/version", "a/b/c", "sched/sched_switch\0"]
)
def test_unknown_tracepoint(target, name):
    with pytest.raises(TargetError) as error:
        target.event_format(name)
    assert str(error.value) == f"unknown tracepoint '{name}'"


@needs_mounts
@pytest.mark.usefixtures("hidden")
def test_mounted_out_of_sight():
    before = resources()
    target = LiveTarget()
    assert target.event_names()
    with pytest.raises(TargetError):
        target.event_format("no/such")
    assert resources() == before


@needs_mounts
@pytest.mark.usefixtures("hidden")
def test_an_error_inside_leaves_no_mount_behind():
    before = resources()
    with pytest.raises(ZeroDivisionError), open_tracefs():
        raise ZeroDivisionError
    assert resources() == before


NOT_MOUNTED = (
    "tracefs is not mounted, and mounting it failed: {}\n"
    "  hint: run as root, or compile for a saved machine: --target FILE\n"
    "  hint: it is mounted by: mount -t tracefs none {{place}}"
)


@pytest.mark.parametrize(
    ("errno", "want"),
    [
        (19, "this kernel has no tracefs (CONFIG_TRACING)"),
        (1, NOT_MOUNTED.format("Operation not permitted")),
        (38, NOT_MOUNTED.format("Function not implemented")),
    ],
)
def test_no_tracefs(hidden, monkeypatch, errno, want):
    def refuse(fstype):
        raise KernelError(errno, f"mount {fstype}")

    syscall = pytest.importorskip("pybpf.kernel.syscall", exc_type=KernelError)
    monkeypatch.setattr(syscall, "mount_detached", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(TargetError) as error:
        LiveTarget().event_names()
    assert str(error.value) == want.format(place=hidden / "none")


def test_tracefs_that_we_may_not_read(monkeypatch, hidden):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "stat", refuse)
    with pytest.raises(TargetError) as error:
        LiveTarget().event_names()
    monkeypatch.undo()
    assert str(error.value) == (
        f"cannot read {hidden}: Permission denied\n"
        "  hint: run as root, or compile for a saved machine: --target FILE\n"
        f"  hint: root can let a group in: mount -o remount,gid=GROUP,mode=750 {hidden}"
    )


@needs_symbols
def test_symbols(target):
    table = target.symbols
    (address, *_) = table.addresses("vfs_read")
    assert table.resolve(address + 5) == ("vfs_read", 5)


def test_hidden_symbols(monkeypatch, tmp_path):
    path = tmp_path / "kallsyms"
    path.write_text("0000000000000000 T _text\n0000000000000000 t vfs_read\n")
    monkeypatch.setattr(live, "_KALLSYMS", str(path))
    with pytest.raises(TargetError) as error:
        _ = LiveTarget().symbols
    assert str(error.value) == (
        f"the kernel hides the addresses in {path}; "
        "run as root or with CAP_SYSLOG, and the sysctl kernel.kptr_restrict at most 1"
    )


def test_no_kallsyms(monkeypatch):
    monkeypatch.setattr(live, "_KALLSYMS", "/proc/none")
    with pytest.raises(TargetError) as error:
        _ = LiveTarget().symbols
    assert str(error.value) == (
        "cannot read /proc/none: No such file or directory (CONFIG_KALLSYMS)"
    )


@needs_tracefs
@needs_symbols
def test_functions(target):
    names = target.functions()
    assert "vfs_read" in names
    assert names == tuple(sorted(set(names)))
    assert not [name for name in names if name.startswith(("__pfx_", "__cfi_"))]


FILES = {
    "available_filter_functions": "vfs_read\nnft_do_chain [nf_tables]\nkfree\nkfree\n"
    "__ftrace_invalid_address___64\nsecret\n",
    "kprobes/blacklist": "0xffffffff81000000-0xffffffff81000010\tsecret\n",
}


class Files:
    """A Tree of given files."""

    def __init__(self, files):
        self.files = files

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def read(self, path):
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]


def with_files(monkeypatch, files):
    monkeypatch.setattr(live, "open_tracefs", lambda: Files(files))
    monkeypatch.setattr(functions, "open_debugfs", lambda: Files(files))
    return LiveTarget()


def test_functions_are_those_that_ftrace_can_trace(monkeypatch):
    target = with_files(monkeypatch, FILES)
    assert target.functions() == ("kfree", "nft_do_chain", "vfs_read")


def test_functions_and_their_places_are_read_from_one_list(monkeypatch):
    """Names that look like addresses are none; the list of names is not read."""
    text = "ffffffff81000014 vfs_read\n81000024 kfree\nffffffffc0000004 add\t[nf_tables]\n"
    target = with_files(monkeypatch, {"available_filter_functions_addrs": text})
    assert target.functions() == ("add", "kfree", "vfs_read")
    assert target.entries() == {0xFFFFFFFF81000014, 0x81000024, 0xFFFFFFFFC0000004}


def test_functions_of_a_list_of_names_only(monkeypatch):
    target = with_files(monkeypatch, {"available_filter_functions": "add [nf_tables]\nvfs_read\n"})
    assert target.functions() == ("add", "vfs_read")
    assert target.entries() == frozenset()


def test_functions_without_a_blacklist(monkeypatch):
    files = {"available_filter_functions": FILES["available_filter_functions"]}
    assert with_files(monkeypatch, files).functions() == (
        "kfree",
        "nft_do_chain",
        "secret",
        "vfs_read",
    )


def test_functions_without_ftrace_are_the_symbols(monkeypatch, tmp_path):
    path = tmp_path / "kallsyms"
    path.write_text(
        "ffffffff81000000 t __pfx_kfree\nffffffff81000010 t kfree\n"
        "ffffffff81000020 t secret\nffffffff81000030 t nft_do_chain\t[nf_tables]\n"
    )
    monkeypatch.setattr(live, "_KALLSYMS", str(path))
    target = with_files(monkeypatch, {"kprobes/blacklist": FILES["kprobes/blacklist"]})
    assert target.functions() == ("kfree", "nft_do_chain")


@needs_tracefs
@needs_symbols
def test_snapshot_of_this_machine(target):
    loaded = SnapshotTarget.load(snapshot(target, symbols=False))
    assert loaded.event_names() == target.event_names()
    assert loaded.functions() == target.functions()
    assert loaded.event_text("sched/sched_switch") == target.event_text("sched/sched_switch")


STARTUP = """
import sys

opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from pybpf.kernel.live import LiveTarget

target = LiveTarget()
target.arch, target.release, target.environment
heavy = {"construct", "elftools", "tarfile", "json", "cffi", "_cffi_backend"}
print([path for path in opened if path.startswith(("/proc", "/sys"))], heavy & set(sys.modules))
"""


def test_what_a_script_does_not_need_is_not_read():
    command = [sys.executable, "-c", STARTUP]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    assert run.stdout == "[] set()\n"
