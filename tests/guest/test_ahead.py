"""Objects made ahead of time, as libbpf attaches them: they count in the script's maps."""

import ctypes
import os
import struct
from pathlib import Path

import pytest

from pybpf.compiler.pipeline import compile_ahead
from pybpf.objfile.pack import pack

SCRIPT = """
    kprobe:vfs_read / !strcmp(comm, "{name}") && arg2 == 7 / {{ @k[1] = count(); }}
    kprobe:vfs_read+0x0 / !strcmp(comm, "{name}") && arg2 == 7 / {{ @o[1] = count(); }}
    kretprobe:vfs_read / !strcmp(comm, "{name}") && retval == 7 / {{ @r[1] = count(); }}
    kprobe:vfs_rea? / !strcmp(comm, "{name}") && arg2 == 7 / {{ @m[1] = count(); }}
    t:syscalls/sys_enter_read / !strcmp(comm, "{name}") && data->count == 7 / {{ @t[1] = count(); }}
    profile:99hz {{ @p[1] = count(); }}
    BEGIN {{ @b[1] = count(); }}
"""
COUNTED = {"k": 5, "o": 5, "r": 5, "m": 5, "t": 5, "p": 0, "b": 0}


@pytest.fixture(scope="module")
def libbpf():
    try:
        library = ctypes.CDLL("libbpf.so.1", use_errno=True)
    except OSError as error:
        pytest.skip(f"libbpf is not installed: {error}")
    for name in ("object__open_file", "object__next_program", "program__attach"):
        getattr(library, f"bpf_{name}").restype = ctypes.c_void_p
    return library


def attached(libbpf, path):
    """Load an object and attach what can be attached; return it, and the links."""
    opened = ctypes.c_void_p(libbpf.bpf_object__open_file(os.fsencode(path), None))
    assert opened.value
    assert libbpf.bpf_object__load(opened) == 0
    links, program = [], None
    while program := libbpf.bpf_object__next_program(opened, ctypes.c_void_p(program)):
        if link := libbpf.bpf_program__attach(ctypes.c_void_p(program)):
            links.append(ctypes.c_void_p(link))
    return opened, links


def counted(libbpf, opened, name):
    """Return what a map of one entry has counted on all CPUs."""
    size = 8 * os.sysconf("SC_NPROCESSORS_CONF")
    value = ctypes.create_string_buffer(size)
    fd = libbpf.bpf_object__find_map_fd_by_name(opened, name.encode())
    assert fd >= 0
    if libbpf.bpf_map_lookup_elem(fd, struct.pack("=I", 0), value):
        return 0
    return sum(struct.unpack(f"={size // 8}Q", value.raw))


def test_libbpf_attaches_what_it_can(libbpf, target, tmp_path):
    from pybpf.kernel.features import kprobe_multi

    name = f"probed{os.getpid()}"
    patterns = kprobe_multi()
    script, needs = compile_ahead(SCRIPT.format(name=name), target)
    path = tmp_path / "probe.o"
    path.write_bytes(pack(script, needs))
    opened, links = attached(libbpf, path)
    try:
        assert len(links) == 4 + patterns
        comm = Path("/proc/self/comm")
        before = comm.read_text()
        comm.write_text(name)
        expected = COUNTED if patterns else COUNTED | {"m": 0}
        with Path("/dev/zero").open("rb", buffering=0) as zero:
            for _ in range(5):
                zero.read(7)
        comm.write_text(before)
        assert {each: counted(libbpf, opened, each) for each in COUNTED} == expected
    finally:
        for link in links:
            libbpf.bpf_link__destroy(link)
        libbpf.bpf_object__close(opened)
