"""tools/chroot.py: what it runs, and what it says where it cannot."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def chroot(tool):
    """tools/chroot.py."""
    return tool("chroot")


def test_a_place_for_it_can_be_given(chroot, monkeypatch):
    monkeypatch.setenv("PYBPF_CHROOT", "/somewhere")
    assert chroot.folder() == Path("/somewhere/bookworm")
    monkeypatch.delenv("PYBPF_CHROOT")
    assert chroot.folder() == chroot.CHECKOUT / ".chroot/bookworm"


def test_what_is_there_is_not_made_again(chroot, monkeypatch, tmp_path):
    monkeypatch.setattr(subprocess, "run", None)
    chroot.make(tmp_path)


def test_a_failure_says_the_last_of_it_and_leaves_nothing(chroot, monkeypatch, tmp_path):
    done = subprocess.CompletedProcess([], 1, "".join(f"line {n}\n" for n in range(9)))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/sbin/debootstrap")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(chroot.ChrootError) as error:
        chroot.make(tmp_path / "bookworm")
    assert str(error.value) == "debootstrap failed:\nline 4\nline 5\nline 6\nline 7\nline 8"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("uid", "debootstrap", "reason"),
    [
        (1000, "/usr/sbin/debootstrap", "debootstrap needs root"),
        (0, None, "there is no debootstrap: apt-get install debootstrap"),
    ],
)
def test_what_is_missing_is_said(chroot, monkeypatch, tmp_path, uid, debootstrap, reason):
    monkeypatch.setattr(shutil, "which", lambda _: debootstrap)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    with pytest.raises(chroot.ChrootError, match=reason):
        chroot.make(tmp_path / "bookworm")


def test_running_wants_a_debian(chroot, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PYBPF_CHROOT", str(tmp_path))
    assert chroot.main(["run", "--", "true"]) == chroot.CHROOT_FAILED
    assert capsys.readouterr().err == (
        f"chroot.py: there is no {tmp_path}/bookworm: python tools/chroot.py make\n"
    )


def test_the_root_is_read_only_in_the_end(chroot):
    lines = chroot.script(Path("/a b"), ["/c d:/opt"], ["/sys"], tracefs=False).splitlines()
    assert lines[:2] == ["set -e", "root='/a b'"]
    assert lines[-4:] == [
        "mount --bind '/c d' \"$root\"/opt",
        'mount -o remount,bind,ro "$root"/opt',
        'mount -o remount,bind,ro "$root"',
        'exec chroot "$root" "$@"',
    ]
    assert not any("sysfs" in line for line in lines)
