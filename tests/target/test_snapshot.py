import contextlib
import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.errors import TargetError
from pybpf.target import snapshot as snapshots
from pybpf.target.arch import ARCHES
from pybpf.target.features import ALL, RINGBUF
from pybpf.target.snapshot import SnapshotTarget, snapshot, write_snapshot
from pybpf.target.target import Target

DATA = Path(__file__).parent.parent / "data/targets"
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
FORMAT = """name: b
ID: 7
format:
\tfield:int x;\toffset:8;\tsize:4;\tsigned:1;

print fmt: "%d", REC->x
"""
SMALL = SnapshotTarget(
    arch="aarch64",
    release="6.12.1",
    cpus=3,
    features=[RINGBUF],
    formats={"z/b": FORMAT, "a/b": FORMAT},
    functions=["vfs_read", "kfree", "vfs_read"],
    symbols=[(0xFFFF800080010000, "kfree"), (0xFFFF800080000000, "_text")],
)
NO_NAMESPACE = "snapshot.json: pid_namespace is no pair of a device and an inode"
META = {"version": 1, "arch": "x86_64", "release": "6", "cpus": 1, "features": []}


def pack(members, *, kind=tarfile.REGTYPE):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def with_meta(**changes):
    return pack([("snapshot.json", json.dumps(META | changes))])


def facts(target):
    return (
        target.arch,
        target.release,
        target.cpus,
        target.features,
        [(name, target.event_format(name)) for name in target.event_names()],
        target.functions(),
        list(target.symbols),
    )


def test_is_a_target():
    target: Target = SMALL
    assert target.arch is ARCHES["aarch64"]
    assert target.event_names() == ("a/b", "z/b")
    assert target.event_format("z/b").field("x").offset == 8
    assert target.functions() == ("kfree", "vfs_read")
    assert target.symbols.resolve(0xFFFF800080010004) == ("kfree", 4)
    assert target.environment == {}


def test_defaults_are_a_current_kernel_that_knows_no_names():
    target = SnapshotTarget()
    assert (target.arch.name, target.cpus, target.features) == ("x86_64", 1, ALL)
    assert target.functions() == ()
    with pytest.raises(TargetError, match=r"^the target has no tracepoints$"):
        target.event_names()
    with pytest.raises(TargetError, match=r"^unknown tracepoint 'a/b'$"):
        target.event_format("a/b")


def test_saved_and_loaded(tmp_path):
    path = tmp_path / "host.tar.gz"
    write_snapshot(SMALL, path)
    loaded = SnapshotTarget.load(path, environment={"1": "x"})
    assert facts(loaded) == facts(SMALL)
    assert loaded.environment == {"1": "x"}
    assert facts(SnapshotTarget.load(str(path))) == facts(SMALL)


def test_the_same_target_gives_the_same_bytes():
    data = snapshot(SMALL)
    assert data == snapshot(SMALL) == snapshot(SnapshotTarget.load(data))


def test_is_an_archive_that_tar_can_read():
    with tarfile.open(fileobj=io.BytesIO(snapshot(SMALL))) as archive:
        names = archive.getnames()
        functions = archive.extractfile("functions.txt").read()
    assert names == ["snapshot.json", "formats.txt", "functions.txt", "symbols.txt"]
    assert functions == b"kfree\nvfs_read\n"


def test_environment_stays_at_home():
    secret = SnapshotTarget(environment={"TOKEN": "hunter2"}, formats={"a/b": FORMAT})
    assert b"hunter2" not in gzip.decompress(snapshot(secret))


def test_without_symbols():
    loaded = SnapshotTarget.load(snapshot(SMALL, symbols=False))
    assert len(loaded.symbols) == 0


def test_normalised_addresses_keep_their_distances():
    loaded = SnapshotTarget.load(snapshot(SMALL, normalise=True))
    assert list(loaded.symbols) == [(0xFFFFFFFF81000000, "_text"), (0xFFFFFFFF81010000, "kfree")]


@pytest.mark.parametrize("kernel", ["6.1", "6.12", "7.3"])
def test_real_kernels(kernel):
    target = SnapshotTarget.load(DATA / f"{kernel}.tar.gz")
    assert target.release.startswith(kernel)
    assert len(target.event_names()) > 1300
    assert "vfs_read" in target.functions()
    assert len(target.symbols.addresses("type_show")) == 2
    assert target.symbols.resolve(target.symbols.addresses("nft_do_chain")[0]) == (
        "nft_do_chain [nf_tables]",
        0,
    )


def test_demo_target_knows_the_system_calls():
    target = SnapshotTarget.load(EXAMPLES / "demo-target.tar.gz")
    assert target.event_format("syscalls/sys_enter_read").field("count").size == 8


GOOD = snapshot(SMALL)
UNKNOWN_ARCH = "unknown architecture 'vax'; known are aarch64, riscv64, s390x, x86_64"


@pytest.mark.parametrize(
    ("data", "want"),
    [
        (b"", "truncated: the gzip stream has no end"),
        (b"ply", "no snapshot, or damaged: cannot decompress it as gzip"),
        (GOOD[:-20], "truncated: the gzip stream has no end"),
        (GOOD[:-8] + bytes(8), "no snapshot, or damaged: cannot decompress it as gzip"),
        (gzip.compress(b""), "no snapshot, or damaged: empty file"),
        (gzip.compress(b"x" * 5000), "no snapshot, or damaged: invalid header"),
        (pack([]), "no snapshot: there is no snapshot.json in it"),
        (pack([("../snapshot.json", "{}")]), "no snapshot: unexpected member '../snapshot.json'"),
        (pack([("/etc/passwd", "")]), "no snapshot: unexpected member '/etc/passwd'"),
        (
            pack([("snapshot.json", "")], kind=tarfile.SYMTYPE),
            "no snapshot: unexpected member 'snapshot.json'",
        ),
        (pack([("snapshot.json", "{")]), "snapshot.json is no JSON"),
        (pack([("snapshot.json", "[" * 100000)]), "snapshot.json is no JSON"),
        (pack([("snapshot.json", "[]")]), "snapshot.json lacks a field, or one has a wrong type"),
        (with_meta(cpus="2"), "snapshot.json lacks a field, or one has a wrong type"),
        (with_meta(cpus=0), "snapshot.json lacks a field, or one has a wrong type"),
        (with_meta(cpus=8193), "snapshot.json lacks a field, or one has a wrong type"),
        (with_meta(features=[1]), "snapshot.json lacks a field, or one has a wrong type"),
        (with_meta(pid_namespace=[4]), NO_NAMESPACE),
        (with_meta(pid_namespace=[4, 0]), NO_NAMESPACE),
        (with_meta(pid_namespace=["4", 5]), NO_NAMESPACE),
        (with_meta(version=2), "version 2, but only version 1 is understood"),
        (with_meta(arch="vax"), UNKNOWN_ARCH),
        (
            pack([("snapshot.json", json.dumps(META)), ("formats.txt", "hello")]),
            "formats.txt does not start with a FILE line",
        ),
        (
            pack([("snapshot.json", json.dumps(META)), ("symbols.txt", "0 a\nx b\n")]),
            "symbols.txt: line 2 is no symbol",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_snapshot(data, want):
    with pytest.raises(TargetError) as error:
        SnapshotTarget.load(data)
    assert str(error.value) == f"<snapshot>: {want}"


def test_bad_file(tmp_path):
    path = tmp_path / "host.tar.gz"
    for want in ("No such file or directory", "truncated: the gzip stream has no end"):
        with pytest.raises(TargetError) as error:
            SnapshotTarget.load(path)
        assert str(error.value) == f"{path}: {want}"
        path.touch()
    with pytest.raises(TargetError) as error:
        write_snapshot(SMALL, tmp_path)
    assert str(error.value) == f"cannot write {tmp_path}: Is a directory"


def test_too_large(monkeypatch):
    monkeypatch.setattr(snapshots, "_UNPACKED", 1 << 20)
    bomb = pack([("snapshot.json", " " * (2 << 20))])
    with pytest.raises(TargetError, match=r"^<snapshot>: no snapshot: more than 1 MiB when decomp"):
        SnapshotTarget.load(bomb)
    monkeypatch.setattr(snapshots, "_PACKED", 0)
    with pytest.raises(TargetError, match=r"^<snapshot>: no snapshot: larger than 0 MiB$"):
        SnapshotTarget.load(bomb)


def test_sparse_members_do_not_grow():
    # A GNU sparse header: a megabyte of file, of which nothing is stored.
    header = bytearray(512)
    header[0:13] = b"snapshot.json"
    header[124:136] = b"00000000000\0"
    header[156:157] = b"S"
    header[257:265] = b"ustar  \0"
    header[386:398] = b"00004000000\0"
    header[398:410] = b"00000000000\0"
    header[483:495] = b"00004000000\0"
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    with pytest.raises(TargetError, match=r"unexpected member 'snapshot.json'$"):
        SnapshotTarget.load(gzip.compress(bytes(header) + bytes(1024)))


@given(st.integers(0, len(GOOD) * 8 - 1))
def test_damage_is_found(bit):
    data = bytearray(GOOD)
    data[bit // 8] ^= 1 << bit % 8
    try:
        loaded = SnapshotTarget.load(bytes(data))
    except TargetError:
        return
    # Such as the time in the gzip header, or the bits that fill its last byte.
    assert facts(loaded) == facts(SMALL)


@given(st.binary(max_size=3000))
def test_any_bytes_in_the_archive_are_read_or_refused(content):
    header = gzip.decompress(GOOD)[:512]
    with contextlib.suppress(TargetError):
        SnapshotTarget.load(gzip.compress(header + content, 1))
