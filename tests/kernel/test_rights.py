"""What a process may do, as the files of /proc and /sys tell it."""

import pytest

from pybpf.kernel import rights

ROOT = "0000003fffffffff"


@pytest.fixture
def files(monkeypatch):
    """Return a dict: what is read, by path; others cannot be read."""
    found = {"/proc/self/status": f"CapEff:\t{ROOT}\nSeccomp:\t0\n"}
    found["/proc/self/uid_map"] = "         0          0 4294967295\n"
    monkeypatch.setattr(rights, "_read", lambda path: found.get(path, ""))
    return found


def effective(files, *bits, seccomp=0):
    number = sum(1 << bit for bit in bits)
    files["/proc/self/status"] = f"CapEff:\t{number:016x}\nSeccomp:\t{seccomp}\n"


@pytest.mark.parametrize(
    ("bits", "needed"),
    [
        ((), ("CAP_BPF", "CAP_PERFMON")),
        ((38,), ("CAP_BPF",)),
        ((39,), ("CAP_PERFMON",)),
        ((38, 39), ()),
        ((21,), ()),
    ],
)
def test_the_capabilities_that_are_needed(files, bits, needed):
    effective(files, *bits)
    assert rights.needed() == needed


def test_all_that_are_lacking(files):
    effective(files, 38, 39)
    assert rights.lacking() == ("CAP_SYSLOG", "CAP_SYS_ADMIN", "CAP_SYS_RESOURCE")


def test_root_lacks_none(files):
    files["/proc/self/status"] = "CapEff:\tffffffffffffffff\n"
    assert rights.lacking() == rights.needed() == ()
    assert rights.explain() == ""


def test_without_proc_none_is_said_to_be_lacking(files):
    files.clear()
    assert not rights.are_told()
    assert rights.lacking() == rights.needed() == ()
    assert rights.explain() == ""


def test_what_a_refusal_may_come_from(files):
    effective(files, seccomp=2)
    files["/sys/kernel/security/lockdown"] = "none integrity [confidentiality]\n"
    assert rights.explain() == (
        "this process lacks CAP_BPF and CAP_PERFMON; "
        "a seccomp filter may forbid it (as that of a container); "
        "the kernel is locked down (/sys/kernel/security/lockdown)"
    )
    files["/proc/self/uid_map"] = "0 1000 1\n"
    assert rights.explain().startswith("capabilities of a user namespace do not count; ")


@pytest.mark.parametrize(
    ("text", "mode"),
    [("", ""), ("[none] integrity confidentiality\n", "none"), ("none [integrity] x", "integrity")],
)
def test_lockdown(files, text, mode):
    files["/sys/kernel/security/lockdown"] = text
    assert rights.lockdown() == mode


def test_settings(files):
    files["/proc/sys/kernel/kptr_restrict"] = "1\n"
    assert rights.sysctls() == {"kernel.kptr_restrict": "1"}


def test_of_this_process():
    assert set(rights.needed()) <= set(rights.lacking())
    assert rights.sysctls().keys() <= {
        "kernel.unprivileged_bpf_disabled", "kernel.perf_event_paranoid", "kernel.kptr_restrict",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("level", "words"),
    [
        ("", "perf events take root, or the capability CAP_PERFMON"),
        ("-1\n", "perf events take root, or the capability CAP_PERFMON"),
        ("2\n", "perf events take root, or the capability CAP_PERFMON"),
        (
            "3\n",
            (
                "kernel.perf_event_paranoid is 3: here perf events take CAP_SYS_ADMIN; "
                "`sysctl kernel.perf_event_paranoid=2` makes CAP_PERFMON do"
            ),
        ),
    ],
)
def test_what_perf_events_take(files, level, words):
    files["/proc/sys/kernel/perf_event_paranoid"] = level
    assert rights.why_no_perf() == words
