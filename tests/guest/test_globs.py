"""Patterns: one link to all functions where the kernel has kprobe.multi, else an event for each."""

import os

import pytest

from pybpf import cli
from pybpf.kernel import features

CHECKED = {"6.1": False, "6.12": True, "7.3": True}


def test_the_guests_have_both_ways():
    assert features.kprobe_multi() == CHECKED[os.environ["PYBPF_GUEST"]]


def act():
    """Open, read, write and look at a file."""
    file = os.open("/dev/null", os.O_RDWR)
    os.read(file, 1)
    os.write(file, b"x")
    os.fstat(file)
    os.close(file)


@pytest.fixture
def called(run):
    """Return a function: patterns in, for each the functions among them that ``act`` called out."""

    def called(*patterns, provider="kprobe"):
        script = "".join(
            f"{provider}:{pattern} / pid == $self / {{ @{n}[caller] = count(); }}"
            for n, pattern in enumerate(patterns)
        )
        done = run(script, act)
        assert done.skipped == []
        return [{name.partition("+")[0] for name in entries} for entries in done.maps.values()]

    return called


def test_patterns_of_the_shell(called):
    everything, some, one, letters = called("vfs_*", "vfs_?????", "*fs_ope[n]", "vfs_[q-rw]*e*")
    assert {"vfs_open", "vfs_read", "vfs_write"} <= everything
    assert "vfs_write" in some
    assert "vfs_read" not in some
    assert one == {"vfs_open"}
    assert {"vfs_read", "vfs_write"} <= letters
    assert "vfs_open" not in letters


def test_extended_patterns(called):
    either, neither, maybe = called("vfs_@(read|write)", "vfs_!(read|w*)", "vfs_?(f)stat*(x)")
    assert either == {"vfs_read", "vfs_write"}
    assert "vfs_open" in neither
    assert not {"vfs_read", "vfs_write"} & neither
    assert maybe <= {"vfs_fstat", "vfs_stat", "vfs_statx"}
    assert maybe


def test_returns_of_many_functions(run):
    done = run(
        "kretprobe:vfs_@(read|write) / pid == $self / { @[retval] = count(); }"
        "kretprobe:vfs_* / pid == $self / { @all[1] = count(); }",
        act,
    )
    assert (done.maps["@"][0], done.maps["@"][1]) == (1, 1)
    assert done.maps["@all"][1] >= 3


def test_arguments_and_returns_together(run):
    """Both kinds of link on the same functions, as in the latency of a call."""
    done = run(
        "kprobe:vfs_* / pid == $self / { start[kpid] = time; }"
        "kretprobe:vfs_* / start[kpid] / { @[1] = quantize(time - start[kpid]); }",
        act,
    )
    assert sum(count for *_, count in done.maps["@"][1]) >= 3


def test_functions_that_cannot_be_probed_are_skipped(run, monkeypatch):
    """No list of functions is perfect: some are in a section that must not be probed."""
    from pybpf.kernel import live

    functions = ("do_futex", "do_syscall_64", "vfs_open", "vfs_read", "vfs_write")
    monkeypatch.setattr(live.LiveTarget, "functions", lambda _: functions)
    monkeypatch.setattr(live.LiveTarget, "entries", lambda _: frozenset())
    done = run("kprobe:* / pid == $self / { @[caller] = count(); }", act)
    names = {name.partition("+")[0] for name in done.maps["@"]}
    assert {"vfs_open", "vfs_read", "vfs_write"} <= names
    assert [(one.probe, one.function) for one in done.skipped] == [("kprobe:*", "do_syscall_64")]
    assert done.skipped[0].reason


def test_a_pattern_may_match_many(run):
    """On a kernel without kprobe.multi every function costs a tenth of a second here."""
    wide = features.kprobe_multi()
    done = run(f"kprobe:{'v*' if wide else 'vf*'} / pid == $self / {{ @[caller] = count(); }}", act)
    assert {"vfs_read", "vfs_write"} <= {name.partition("+")[0] for name in done.maps["@"]}
    assert len(done.skipped) < (30 if wide else 3)


def test_functions_are_listed(capsys):
    assert cli.main(["list", "kprobe:vfs_*"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "kprobe:vfs_read" in lines
    assert all(line.startswith("kprobe:vfs_") for line in lines)
    assert lines == sorted(set(lines))
