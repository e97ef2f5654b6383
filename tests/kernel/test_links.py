"""Links and probes, each counting calls of getppid by this very thread."""

import ctypes
import os
import struct
import threading
from pathlib import Path

import pytest

from pybpf.errors import KernelError
from pybpf.isa.abi import AttachType, MapType, ProgType
from pybpf.isa.assembler import assemble
from pybpf.kernel import features, programs, syscall
from pybpf.kernel.fd import Fd
from pybpf.kernel.maps import Map

pytestmark = pytest.mark.kernel

GETPPID = {"x86_64": "__x64_sys_getppid", "aarch64": "__arm64_sys_getppid"}[os.uname().machine]

COUNT = """
    r6 = r1
    call bpf_get_current_pid_tgid
    if w0 != {thread} goto L1
    r1 = r6
    {cookie}
    *(u32 *)(r10 - 4) = 0
    r6 = r0
    r1 = map_fd[{fd}] ll
    r2 = r10
    r2 += -4
    call bpf_map_lookup_elem
    if r0 == 0 goto L1
    lock *(u64 *)(r0 + 0) += r6
L1: r0 = 0
    exit
"""


@pytest.fixture
def counter():
    with Map(MapType.ARRAY, "counter", 4, 8, 1) as array:
        yield array


def count(array):
    (value,) = array.lookup(bytes(4))
    return int.from_bytes(value, "little")


def load(array, attach_type=None, prog_type=ProgType.KPROBE, *, cookie=False, attach_btf_id=0):
    """Load a program that adds its cookie, or 1, to the counter."""
    add = "call bpf_get_attach_cookie" if cookie else "r0 = 1"
    text = COUNT.format(fd=array.fileno(), thread=threading.get_native_id(), cookie=add)
    return programs.load(
        bytes(assemble(text)),
        prog_type,
        "count",
        expected_attach_type=attach_type,
        attach_btf_id=attach_btf_id,
    )


def call_getppid(times=10):
    for _ in range(times):
        os.getppid()


def pmu(name, option):
    found = features.pmu(name)
    if found is None:
        pytest.skip(f"this kernel has no {name} PMU ({option})")
    return found


def libc_getppid():
    """Return the file that getppid was loaded from, and its offset there."""
    address = ctypes.cast(ctypes.CDLL(None).getppid, ctypes.c_void_p).value
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, _, offset, _, _, *path = line.split(maxsplit=5)
        first, last = (int(end, 16) for end in span.split("-"))
        if first <= address < last:
            return path[0], address - first + int(offset, 16)
    raise AssertionError("getppid lies nowhere")


def attach(prog, event):
    """Attach by a link where that is known, else to the event; return what holds it."""
    if features.perf_link():
        link = syscall.link_perf_event(prog, event)
    else:
        syscall.perf_set_bpf(event, prog)
        link = Fd(os.dup(event.fileno()))
    syscall.perf_enable(event)
    return link


@pytest.mark.parametrize("on_return", [False, True])
def test_a_uprobe_fires_until_it_is_closed(counter, on_return):
    bits = pmu("uprobe", "CONFIG_UPROBE_EVENTS")
    path, offset = libc_getppid()
    config = bits.bits["retprobe"] if on_return else 0
    with (
        load(counter) as prog,
        syscall.perf_open_probe(bits.type, config, path, offset, pid=os.getpid()) as event,
    ):
        with attach(prog, event):
            call_getppid()
        event.close()
        call_getppid()

    assert count(counter) == 10


@pytest.mark.parametrize("on_return", [False, True])
def test_a_kprobe_fires_until_it_is_closed(counter, on_return):
    bits = pmu("kprobe", "CONFIG_KPROBE_EVENTS")
    config = bits.bits["retprobe"] if on_return else 0
    with (
        load(counter) as prog,
        syscall.perf_open_probe(bits.type, config, GETPPID, 0, cpu=0) as event,
    ):
        with attach(prog, event):
            call_getppid()
        event.close()
        call_getppid()

    assert count(counter) == 10


@pytest.mark.parametrize("on_return", [False, True])
def test_a_kprobe_multi_link_gives_each_function_its_cookie(counter, on_return):
    if not features.kprobe_multi():
        pytest.skip("this kernel has no kprobe.multi (CONFIG_FPROBE)")
    functions = [GETPPID, GETPPID.replace("getppid", "getuid")]
    with load(counter, AttachType.TRACE_KPROBE_MULTI, cookie=True) as prog:
        with syscall.link_kprobe_multi(prog, functions, on_return=on_return, cookies=[1, 1000]):
            call_getppid()
            os.getuid()
        call_getppid()

    assert count(counter) == 1010


def test_a_kprobe_multi_link_takes_addresses(counter):
    if not features.kprobe_multi():
        pytest.skip("this kernel has no kprobe.multi (CONFIG_FPROBE)")
    symbols = (line.split() for line in Path("/proc/kallsyms").read_text().splitlines())
    address = next(int(s[0], 16) for s in symbols if s[2] == GETPPID)
    with (
        load(counter, AttachType.TRACE_KPROBE_MULTI) as prog,
        syscall.link_kprobe_multi(prog, [address]),
    ):
        call_getppid()

    assert count(counter) == 10


def test_a_kprobe_multi_link_to_an_unknown_function_is_refused(counter):
    if not features.kprobe_multi():
        pytest.skip("this kernel has no kprobe.multi (CONFIG_FPROBE)")
    with (
        load(counter, AttachType.TRACE_KPROBE_MULTI) as prog,
        pytest.raises(KernelError, match=r"cannot attach to 2 functions by kprobe\.multi"),
    ):
        syscall.link_kprobe_multi(prog, [GETPPID, "no_such_function"])


@pytest.mark.parametrize("on_return", [False, True])
def test_a_uprobe_multi_link_fires_until_it_is_closed(counter, on_return):
    if not features.uprobe_multi():
        pytest.skip("this kernel has no uprobe.multi")
    path, offset = libc_getppid()
    with load(counter, AttachType.TRACE_UPROBE_MULTI, cookie=True) as prog:
        with syscall.link_uprobe_multi(
            prog, path, [offset], on_return=on_return, cookies=[7], pid=os.getpid()
        ):
            call_getppid()
        call_getppid()

    assert count(counter) == 70


def btf_function(name):
    """Return the BTF id of a kernel function. Source: Documentation/bpf/btf.rst."""
    blob = Path("/sys/kernel/btf/vmlinux").read_bytes()
    _, _, _, header, type_at, type_size, string_at, _ = struct.unpack_from("=HBB5I", blob)
    wanted = blob.index(b"\0" + name.encode() + b"\0", header + string_at) + 1 - header - string_at
    # By kind: bytes after the common 12, fixed and for each member.
    fixed = {1: 4, 3: 12, 14: 4, 17: 4}
    each = {4: 12, 5: 12, 6: 8, 13: 8, 15: 12, 19: 12}
    at, number = header + type_at, 1
    while at < header + type_at + type_size:
        named, info = struct.unpack_from("=II", blob, at)
        kind, members = info >> 24 & 31, info & 0xFFFF
        if kind == 12 and named == wanted:
            return number
        at += 12 + fixed.get(kind, 0) + each.get(kind, 0) * members
        number += 1
    raise AssertionError(f"{name} is not in BTF")


@pytest.mark.parametrize("attach_type", [AttachType.TRACE_FENTRY, AttachType.TRACE_FEXIT])
@pytest.mark.parametrize("by", ["link", "raw_tracepoint_open"])
def test_a_tracing_program_fires_until_its_link_is_closed(counter, attach_type, by):
    number = btf_function("vfs_read")
    try:
        prog = load(counter, attach_type, ProgType.TRACING, attach_btf_id=number)
    except KernelError as error:
        pytest.skip(f"this kernel refuses TRACING programs: {error}")
    with prog:
        if by == "link":
            link = syscall.link_tracing(prog, attach_type)
        else:
            link = syscall.raw_tracepoint_open(prog, None)
        with link:
            read_zeros(10)
        read_zeros(10)

    assert count(counter) == 10


def read_zeros(times):
    fd = os.open("/dev/zero", os.O_RDONLY)
    for _ in range(times):
        os.read(fd, 1)
    os.close(fd)
