"""Kernel profiles: those that come with pybpf, the nearest one, and files."""

import itertools
import json
import lzma
import os
from importlib.resources import files

import pytest

from pybpf.isa.abi import AttachType, MapType, ProgType
from pybpf.isa.helpers import HELPERS
from pybpf.target import features
from pybpf.target.profile import NAMES, Origin, ProfileError, nearest, profile, ranges

PROFILES = [profile(name) for name in NAMES]
each = pytest.mark.parametrize("known", PROFILES, ids=NAMES)
FOLDER = files("pybpf.target").joinpath("profiles")


def packaged(name):
    return lzma.decompress(FOLDER.joinpath(f"{name}.json.xz").read_bytes())


def may(known, prog_type, helper, attach=0, **options):
    return HELPERS[f"bpf_{helper}"] in known.helpers(prog_type, attach, **options)


@each
def test_a_profile_says_what_it_is(known):
    assert f"{known.version[0]}.{known.version[1]}" == known.name
    assert known.arch == "x86_64"
    assert known.origin is (
        Origin.DOCUMENTED if known.name in {"5.10", "5.15", "6.6"} else Origin.RECORDED
    )
    assert known.origin is Origin.RECORDED or known.notes
    assert repr(known) == f"Profile({known.name!r}, {known.release!r}, {known.origin.value})"


@each
def test_the_basics_are_in_all(known):
    assert {ProgType.XDP, ProgType.KPROBE, ProgType.TRACING} <= known.program_types
    assert {MapType.HASH, MapType.ARRAY, MapType.RINGBUF} <= known.map_types
    assert {"v1", "v2", "v3", "map_fd", "map_value", "call_local"} <= known.instructions
    for prog_type in known.program_types - {ProgType.EXT}:
        assert may(known, prog_type, "map_lookup_elem")
    assert may(known, ProgType.XDP, "xdp_adjust_head")
    assert not may(known, ProgType.XDP, "probe_write_user")
    assert may(known, ProgType.KPROBE, "probe_read_kernel")
    assert known.limits.insns == 1_000_000


@each
def test_instructions_are_those_that_are_recorded(known, tool):
    assert known.instructions <= tool("behaviour").INSTRUCTIONS.keys()


@each
def test_unprivileged_users_have_fewer_helpers(known):
    for prog_type in known.program_types:
        few = known.helpers(prog_type, privileged=False)
        assert few <= known.helpers(prog_type)
        assert bool(few) is (prog_type in {ProgType.SOCKET_FILTER, ProgType.CGROUP_SKB})


@pytest.mark.parametrize(("first", "second"), [*itertools.pairwise(PROFILES)], ids=repr)
def test_later_kernels_know_more(first, second):
    assert first.program_types <= second.program_types
    assert first.map_types <= second.map_types
    assert first.instructions - second.instructions == set()


@pytest.mark.parametrize(
    ("name", "prog_type", "helper", "attach", "allowed"),
    [
        ("5.10", ProgType.KPROBE, "loop", 0, False),
        ("6.1", ProgType.KPROBE, "loop", 0, True),
        ("6.1", ProgType.XDP, "cgrp_storage_get", 0, False),
        ("6.6", ProgType.XDP, "cgrp_storage_get", 0, True),
        ("6.12", ProgType.CGROUP_SOCK_ADDR, "bind", AttachType.CGROUP_INET4_CONNECT, True),
        ("6.12", ProgType.CGROUP_SOCK_ADDR, "bind", AttachType.CGROUP_INET4_BIND, False),
        ("6.12", ProgType.CGROUP_DEVICE, "get_retval", AttachType.CGROUP_DEVICE, True),
        ("6.12", ProgType.CGROUP_DEVICE, "get_retval", 0, False),
        ("5.10", ProgType.CGROUP_SOCK_ADDR, "setsockopt", AttachType.CGROUP_INET4_BIND, False),
        ("6.12", ProgType.TRACING, "seq_printf", AttachType.TRACE_ITER, True),
        ("6.12", ProgType.TRACING, "seq_printf", AttachType.TRACE_FENTRY, False),
        ("6.12", ProgType.TRACING, "get_func_arg", AttachType.TRACE_FENTRY, True),
    ],
)
def test_helpers(name, prog_type, helper, attach, allowed):
    assert may(profile(name), prog_type, helper, attach) is allowed


def test_sleepable_programs_have_more_helpers():
    known = profile("5.10")

    assert not may(known, ProgType.LSM, "copy_from_user")
    assert may(known, ProgType.LSM, "copy_from_user", sleepable=True)


def test_attach_types():
    known = profile("6.12")

    assert known.attach_types(ProgType.CGROUP_SKB) == {0, 1}
    assert AttachType.CGROUP_UNIX_CONNECT in known.attach_types(ProgType.CGROUP_SOCK_ADDR)
    assert AttachType.CGROUP_UNIX_CONNECT not in profile("6.6").attach_types(
        ProgType.CGROUP_SOCK_ADDR
    )
    assert known.attach_types(ProgType.KPROBE) == set()


def test_a_type_that_the_kernel_lacks_may_call_nothing():
    assert profile("5.10").helpers(ProgType.NETFILTER) == set()
    assert profile("5.10").attach_types(ProgType.NETFILTER) == set()


def test_kfuncs():
    known = profile("6.12")
    assert known.kfuncs(ProgType.TRACING)["bpf_task_acquire"].flags == {
        "acquire",
        "rcu",
        "ret_null",
    }
    assert "bpf_dynptr_from_xdp" in known.kfuncs(ProgType.XDP)
    assert "bpf_dynptr_from_xdp" not in known.kfuncs(ProgType.SCHED_CLS)
    assert "bpf_iter_num_new" in known.kfuncs(ProgType.XDP)
    assert profile("5.10").kfuncs(ProgType.XDP) == {}


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("4.19.0", "5.10"),
        ("5.10.13", "5.10"),
        ("5.14.0-70.el9", "5.10"),
        ("6.11.4", "6.6"),
        ("6.12.0+deb13-amd64", "6.12"),
        ("7.3.4", "7.3"),
        ("9.0", "7.3"),
    ],
)
def test_the_nearest(release, name):
    assert nearest(release) == name


def test_live_is_the_nearest_to_the_running_kernel():
    known = profile("live")

    assert known.name == "live"
    assert known.release == profile(nearest(os.uname().release)).release


def test_a_profile_is_read_once():
    assert profile("6.12") is profile("6.12")


def test_an_unknown_name():
    with pytest.raises(ProfileError) as caught:
        profile("6.13")

    assert str(caught.value) == (
        "unknown kernel profile '6.13'; did you mean '6.1', '6.12' or '6.18'?\n  hint: there are "
        "5.10, 5.15, 6.1, 6.6, 6.12, 6.18, 7.3, live, and files of tools/record_profile.py"
    )


@pytest.mark.parametrize(
    ("name", "lacking"),
    [
        ("5.10", {features.CPU_V4}),
        ("6.1", {features.CPU_V4, features.COMM_PADDED}),
        ("6.6", set()),
        ("7.3", set()),
    ],
)
def test_what_compiled_scripts_may_use(name, lacking):
    assert features.ALL - profile(name).code_features == lacking


def test_a_file(tmp_path):
    path = tmp_path / "mine.json"
    path.write_bytes(packaged("6.1"))

    assert profile(path).release == profile("6.1").release
    assert profile(str(path)).map_types == profile("6.1").map_types


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no kernel profile: Expecting value: line 1 column 1 (char 0)"),
        (b"\xff", "no kernel profile: "),
        (b"[" * 100_000, "no kernel profile: "),
        (b"[]", "no kernel profile: no JSON object"),
        (b"{}", "no kernel profile of version 1: 'profile' is None"),
        (b'{"profile": 2}', "no kernel profile of version 1: 'profile' is 2"),
        (b" " * (1 << 20) + b"{}", "no kernel profile: larger than 1 MiB"),
        (b'{"profile": 1}', "no kernel profile: there is no 'name'"),
        (b"[" * 100_000, "no kernel profile: nested too deeply"),
    ],
)
def test_a_file_that_is_none(tmp_path, content, message):
    path = tmp_path / "bad.json"
    path.write_bytes(content)

    with pytest.raises(ProfileError) as caught:
        profile(path)

    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    "changes",
    [
        {"release": "new"},
        {"origin": "guessed"},
        {"map_types": "1-999"},
        {"map_types": "1-99999999999999999999"},
        {"map_types": 7},
        {"limits": {"speed": 1}},
        {"limits": {"frames": "many"}},
        {"limits": {"frames": 0}},
        {"limits": {"processed": -1}},
        {"limits": {"insns": float("inf")}},
        {"limits": {"insns": 1.5}},
        {"limits": []},
        {"map_types": "5-1"},
        {"map_types": "1-"},
        {"map_types": "9" * 5000},
        {"name": {}},
        {"notes": "none"},
        {"release": None},
        {"program_types": {"xdp": {"helpers": "1", "helpers/xdp": "*1"}}},
        {"program_types": {"nonsense": {}}},
        {"program_types": []},
        {"program_types": {"xdp": {"helpers": "1-x"}}},
        {"kfuncs": 3},
        {"limits": None, "instructions": None},
    ],
)
def test_a_file_with_a_wrong_value(tmp_path, changes):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(json.loads(packaged("6.1")) | changes))

    with pytest.raises(ProfileError, match="no kernel "):
        profile(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ProfileError) as caught:
        profile(tmp_path / "none.json")

    assert str(caught.value) == f"{tmp_path}/none.json: No such file or directory"


def test_the_files_are_small():
    assert sum(len(packaged(name)) for name in NAMES) < 150_000


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([1, 2, 3], "1-3"), ([5, 1, 2, 2, 9], "1-2,5,9")],
)
def test_ranges(numbers, text):
    assert ranges(numbers) == text
