import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pybpf.isa.abi import MapType, ProgType
from pybpf.kernel import features
from pybpf.target import features as names

kernel = pytest.mark.kernel


@kernel
def test_the_helpers_of_each_program_type_are_told_apart():
    assert features.helper("bpf_map_lookup_elem", ProgType.SOCKET_FILTER)
    assert features.helper("bpf_get_stackid", ProgType.TRACEPOINT)
    assert not features.helper("bpf_get_stackid", ProgType.SOCKET_FILTER)
    assert features.helper("bpf_redirect", ProgType.SCHED_CLS)
    assert not features.helper("bpf_redirect", ProgType.TRACEPOINT)


@kernel
def test_map_types_are_told_apart():
    assert features.map_type(MapType.HASH)
    assert not features.map_type(MapType.UNSPEC)


@kernel
def test_detected_features_are_those_that_targets_know():
    assert features.detect() <= names.ALL
    assert (names.RINGBUF in features.detect()) == features.ringbuf()
    assert (names.COMM_PADDED in features.detect()) == features.comm_padded()


@kernel
def test_ring_buffers_come_with_their_helpers():
    assert features.ringbuf() == features.helper("bpf_ringbuf_reserve")


@kernel
def test_links_follow_the_build_options():
    config = features.config()
    if not config:
        pytest.skip("this kernel does not tell its build options")

    assert features.perf_link() == features.helper("bpf_get_attach_cookie")
    assert not features.kprobe_multi() or config.get("CONFIG_FPROBE") == "y"
    assert not features.uprobe_multi() or config.get("CONFIG_UPROBES") == "y"


@pytest.mark.parametrize("name", ["kprobe", "uprobe"])
def test_probe_pmus_are_numbered(name):
    folder = Path("/sys/bus/event_source/devices", name)
    pmu = features.pmu(name)

    assert (pmu is not None) == folder.exists()
    if pmu:
        assert pmu.type == int((folder / "type").read_text())
        assert pmu.bits["retprobe"] == 1


def test_an_unknown_pmu_is_none():
    assert features.pmu("no_such") is None


def test_build_options_are_read_by_name():
    config = features.config()
    if not config:
        pytest.skip("this kernel does not tell its build options")

    assert config["CONFIG_SYSFS"] == "y"
    assert "CONFIG_NO_SUCH" not in config


@kernel
def test_bpf_is_available_where_these_tests_run():
    assert features.why_unavailable() is None


WITHOUT_RIGHTS = """
import os
from pybpf.isa import encoding
from pybpf.kernel import features
os.setuid(65534)
print(features.why_unavailable())
for detect in (features.detect, features.perf_link, features.debug_info):
    try:
        print(detect())
    except features.KernelError as error:
        print(error.errno, error.hints)
"""


@kernel
def test_without_rights_nothing_is_known_and_nothing_is_guessed():
    if os.getuid() != 0:
        pytest.skip("only root can give up its rights")
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_RIGHTS], capture_output=True, text=True, check=True
    )
    hint = (
        "this needs root, or the capabilities CAP_BPF and CAP_PERFMON, "
        "and for tracepoints the right to read tracefs"
    )

    why = "this process lacks CAP_BPF and CAP_PERFMON"

    assert result.stdout == (
        "cannot load the program probe: Operation not permitted (errno 1)\n"
        f"  hint: {hint}\n  hint: {why}\n" + f"1 ('{hint}', '{why}')\n" * 3
    )


@pytest.mark.parametrize("name", ["config", "config.gz"])
def test_build_options_are_read_compressed_or_not(tmp_path, name):
    text = b"# made by hand\nCONFIG_BPF=y\n# CONFIG_KPROBES is not set\n"
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert features._read_config(str(path)).encode() == text


def test_build_options_that_cannot_be_read(monkeypatch):
    def refuse(_place):
        raise PermissionError

    monkeypatch.setattr(features, "_read_config", refuse)
    assert features.config.__wrapped__() == {}


def test_build_options_come_from_the_first_place_that_tells(monkeypatch):
    release = os.uname().release
    places = {f"/boot/config-{release}": 'CONFIG_A=m\nCONFIG_B="x=y"\n# CONFIG_C is not set\n'}

    def read(place):
        if place not in places:
            raise FileNotFoundError
        return places[place]

    monkeypatch.setattr(features, "_read_config", read)
    assert features.config.__wrapped__() == {"CONFIG_A": "m", "CONFIG_B": '"x=y"'}
    places["/proc/config.gz"] = "CONFIG_A=y\n"
    assert features.config.__wrapped__() == {"CONFIG_A": "y"}
