"""pybpf doctor: one line for each thing that scripts need, with and without rights."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pybpf.cli import checks
from pybpf.cli.checks import FEATURES, Feature, Missing
from pybpf.errors import KernelError, SourceError, TargetError
from pybpf.kernel import rights

ROOT = Path(__file__).parents[2]
NAMES = [feature.name for feature in FEATURES]
LINE = re.compile(r"(OK     |missing)  (\S.*?)(?:  +(.*))?")
BUILT = "this kernel was built without"
WORDS = {"OK": True, "missing": False}

kernel = pytest.mark.kernel


def table(out):
    """Return what was printed for each check, and the last line."""
    *lines, last = out.splitlines()
    rows = [LINE.fullmatch(line).groups() for line in lines]
    assert [name for _, name, _ in rows] == NAMES
    return {name: (WORDS[word.strip()], detail or "") for word, name, detail in rows}, last


@kernel
@pytest.mark.parametrize("command", [["doctor"], ["ply", "-T"], ["run", "--self-test"]])
def test_here(pybpf, command):
    said = pybpf(*command)
    found, last = table(said.out)
    assert (said.status, said.err) == (0, "")
    assert all(found[feature.name][0] for feature in FEATURES if feature.needed)
    assert last.startswith("scripts can run here")


@kernel
def test_json(pybpf):
    said = pybpf("doctor", "--json")
    whole = json.loads(said.out)
    assert (said.status, said.err) == (0, "")
    assert whole["can_run"] is True
    assert whole["kernel"] == os.uname().release
    assert [check["check"] for check in whole["checks"]] == NAMES
    for check, feature in zip(whole["checks"], FEATURES, strict=True):
        assert set(check["lacking"]) <= set(check["options"]) == set(feature.options)
        assert not (check["found"] and check["lacking"])


@kernel
def test_nothing_is_left(pybpf, objects_of):
    def held():
        mounts = [m for m in Path("/proc/self/mounts").read_text().split("\n") if "tracefs" in m]
        return objects_of(), len(list(Path("/proc/self/fd").iterdir())), mounts

    before = held()
    pybpf("doctor")
    assert held() == before


@kernel
def test_what_the_kernel_lacks_is_named(pybpf, monkeypatch):
    from pybpf.kernel import attach, features

    monkeypatch.setattr(features, "pmu", lambda _name: None)
    monkeypatch.setattr(features, "kprobe_multi", lambda: False)
    monkeypatch.setattr(features, "config", lambda: {"CONFIG_BPF_SYSCALL": "y"})
    monkeypatch.setattr(attach.features, "pmu", lambda _name: None)
    said = pybpf("doctor")
    found, last = table(said.out)
    assert found["kprobe"] == (
        False,
        f"{BUILT} CONFIG_KPROBES and CONFIG_KPROBE_EVENTS (so no kprobe: probes)",
    )
    assert found["kretprobe"][1] == (
        f"{BUILT} CONFIG_KPROBES, CONFIG_KPROBE_EVENTS and CONFIG_KRETPROBES "
        "(so no kretprobe: probes)"
    )
    assert not found["kprobe.multi"][0]
    assert re.fullmatch(r"scripts can run here, but for what needs the [0-9]+ missing", last)
    assert said.status == 0


def outside(*before):
    """Run the command in a process that ``before`` takes rights away from."""
    if shutil.which(before[0]) is None:
        pytest.skip(f"{before[0]} is not installed")
    run = subprocess.run(
        [*before, sys.executable, "-m", "pybpf", "doctor"],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    if f"{before[0]}:" in run.stderr:
        pytest.skip(run.stderr)
    return run


def test_in_a_user_namespace():
    run = outside("unshare", "--user", "--map-root-user")
    found, last = table(run.stdout)
    assert (run.returncode, run.stderr, last) == (1, "", "scripts cannot run here")
    assert found["capabilities"] == (
        False,
        "this is a user namespace, whose capabilities do not count (so no script runs)",
    )
    assert found["bpf()"][1].startswith(
        "Operation not permitted; capabilities of a user namespace do not count"
    )


@kernel
@pytest.mark.parametrize("caps", ["-sys_admin,-bpf,-perfmon", "-all"])
def test_without_the_capabilities(caps):
    run = outside("setpriv", "--bounding-set", caps, "--inh-caps", caps)
    found, last = table(run.stdout)
    assert (run.returncode, run.stderr, last) == (1, "", "scripts cannot run here")
    assert found["capabilities"] == (
        False,
        "this process lacks CAP_BPF and CAP_PERFMON, which root has (so no script runs)",
    )
    assert found["programs"][1].startswith(
        "Operation not permitted; this process lacks CAP_BPF and CAP_PERFMON"
    )


# Reasons

INVALID = "cannot do it: Invalid argument (errno 22)"
OPTION = ("CONFIG_A", "CONFIG_B")


def failing(error):
    def use():
        raise error

    return Feature("x", use, OPTION, "nothing")


@pytest.mark.parametrize(
    ("error", "config", "detail", "lacking"),
    [
        (Missing("it is slow"), {}, "it is slow", ()),
        (
            KernelError(errno.EINVAL, "cannot do it", hints=("ask",)),
            {},
            f"{INVALID}; was this kernel built with CONFIG_A and CONFIG_B?",
            (),
        ),
        (
            KernelError(errno.EINVAL, "cannot do it"),
            {"CONFIG_A": "y", "CONFIG_B": "m"},
            INVALID,
            (),
        ),
        (
            KernelError(errno.EINVAL, "cannot do it"),
            {"CONFIG_A": "y"},
            "this kernel was built without CONFIG_B",
            ("CONFIG_B",),
        ),
        (KernelError(errno.EPERM, "cannot do it"), {}, "Operation not permitted; no right", ()),
        (TargetError("no", hints=("mount it", "use --target")), {}, "no; mount it", ()),
        (FileNotFoundError(2, "No such file", "/x"), {}, None, ()),
    ],
)
def test_reasons(monkeypatch, error, config, detail, lacking):
    monkeypatch.setattr(checks, "FEATURES", (failing(error),))
    monkeypatch.setattr(checks.features, "config", lambda: config)
    monkeypatch.setattr(rights, "explain", lambda: "no right")
    (finding,) = checks.findings()
    assert not finding.found
    assert finding.lacking == lacking
    assert detail is None or finding.detail == detail


def test_a_script_that_does_not_compile_says_why(monkeypatch):
    from pybpf.compiler.pipeline import compile_script
    from pybpf.kernel.live import LiveTarget

    with pytest.raises(SourceError) as caught:
        compile_script("foo:bar { }", LiveTarget())
    monkeypatch.setattr(checks, "FEATURES", (failing(caught.value),))
    monkeypatch.setattr(checks.features, "config", dict)
    (finding,) = checks.findings()
    assert finding.detail.startswith("unknown provider 'foo'; there are kprobe, ")


# What is attached and silent, refused or locked


@kernel
@pytest.mark.usefixtures("tracing")
def test_a_probe_that_does_not_fire():
    with pytest.raises(Missing) as caught:
        checks._fires("tracepoint:syscalls/sys_enter_getppid", lambda: None)
    assert str(caught.value) == (
        "tracepoint:syscalls/sys_enter_getppid was attached, and did not fire"
    )


@kernel
def test_a_limit_of_locked_memory(monkeypatch):
    def refuse(*_):
        raise KernelError(errno.EPERM, "cannot create the array map probe")

    monkeypatch.setattr(checks, "Map", refuse)
    monkeypatch.setattr(rights, "explain", lambda: "")
    with pytest.raises(Missing, match=r"^RLIMIT_MEMLOCK is .*: raise it by `ulimit -l unlimited`$"):
        checks._memory()
    monkeypatch.setattr(rights, "explain", lambda: "this process lacks CAP_BPF")
    with pytest.raises(KernelError):
        checks._memory()


def test_a_locked_kernel(monkeypatch):
    monkeypatch.setattr(rights, "lockdown", lambda: "confidentiality")
    with pytest.raises(Missing, match=r"^the kernel is locked down \(confidentiality\): "):
        checks._restrictions()
    monkeypatch.setattr(rights, "lockdown", lambda: "integrity")
    monkeypatch.setattr(rights, "filtered", lambda: True)
    monkeypatch.setattr(rights, "sysctls", lambda: {"kernel.kptr_restrict": "1"})
    assert checks._restrictions() == "kernel.kptr_restrict=1, a seccomp filter, lockdown=integrity"


@pytest.mark.parametrize(
    ("needed", "lacking", "detail"),
    [
        ((), (), "all that tracing can take"),
        ((), ("CAP_SYSLOG", "CAP_SYS_ADMIN"), "all but CAP_SYSLOG, CAP_SYS_ADMIN"),
        (("CAP_PERFMON",), (), "this process lacks CAP_PERFMON, which root has"),
    ],
)
def test_capabilities(monkeypatch, needed, lacking, detail):
    monkeypatch.setattr(rights, "needed", lambda: needed)
    monkeypatch.setattr(rights, "lacking", lambda: lacking)
    monkeypatch.setattr(rights, "in_user_namespace", lambda: False)
    try:
        said = checks._capabilities()
    except Missing as error:
        said = str(error)
    assert said == detail
