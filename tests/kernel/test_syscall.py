import errno
import mmap
import os
import threading
from pathlib import Path

import pytest

from pybpf.errors import KernelError
from pybpf.isa.abi import MapType, ProgType
from pybpf.isa.assembler import assemble
from pybpf.kernel import features, programs, syscall
from pybpf.kernel.fd import Fd
from pybpf.kernel.maps import Map
from pybpf.kernel.syscall import Kind

# Counts the calls of getppid by one thread; the context of sys_enter is (pt_regs, number).
COUNT = """
    r1 = *(u64 *)(r1 + 8)
    if r1 != {getppid} goto L1
    call bpf_get_current_pid_tgid
    if w0 != {thread} goto L1
    *(u32 *)(r10 - 4) = 0
    r1 = map_fd[{fd}] ll
    r2 = r10
    r2 += -4
    call bpf_map_lookup_elem
    if r0 == 0 goto L1
    r1 = 1
    lock *(u64 *)(r0 + 0) += r1
L1: r0 = 0
    exit
"""
GETPPID = {"x86_64": 110, "aarch64": 173}[os.uname().machine]


@pytest.fixture
def counter():
    with Map(MapType.ARRAY, "counter", 4, 8, 1) as array:
        yield array


def count(array):
    (value,) = array.lookup(bytes(4))
    return int.from_bytes(value, "little")


def load_counting(array):
    text = COUNT.format(fd=array.fileno(), getppid=GETPPID, thread=threading.get_native_id())
    return programs.load(bytes(assemble(text)), ProgType.RAW_TRACEPOINT, "count")


def call_getppid(times):
    for _ in range(times):
        os.getppid()


def test_a_descriptor_closes_once():
    fd = Fd(os.open("/dev/null", os.O_RDONLY))
    number = fd.fileno()
    with fd:
        assert os.fstat(number)
    fd.close()

    assert fd.closed
    assert repr(fd) == "Fd(-1)"
    with pytest.raises(ValueError, match="the file descriptor is closed"):
        fd.fileno()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_a_detached_descriptor_stays_open():
    with Fd(os.open("/dev/null", os.O_RDONLY)) as fd:
        number = fd.detach()

    os.close(number)


def test_a_forgotten_descriptor_is_closed_with_a_warning():
    fd = Fd(os.open("/dev/null", os.O_RDONLY))
    number = fd.fileno()
    with pytest.warns(ResourceWarning, match=rf"unclosed Fd\({number}\)"):
        del fd
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


@pytest.mark.parametrize(
    ("name", "kernel_name"),
    [
        ("", b""),
        ("@", b"_"),
        ("@reads", b"_reads"),
        ("tracepoint:syscalls/sys_enter_read", b"tracepoint_sysc"),
        ("größe", b"gr__e"),
    ],
)
def test_object_names(name, kernel_name):
    assert kernel_name == syscall.object_name(name)


@pytest.mark.parametrize("why", ["", "this process lacks CAP_BPF"])
def test_a_refusal_names_what_was_tried(monkeypatch, why):
    monkeypatch.setattr("pybpf.kernel.rights.explain", lambda: why)
    with pytest.raises(KernelError) as caught:
        syscall.check(-errno.EPERM, "cannot do it")

    assert caught.value.errno == errno.EPERM
    assert str(caught.value) == (
        "cannot do it: Operation not permitted (errno 1)\n"
        "  hint: this needs root, or the capabilities CAP_BPF and CAP_PERFMON, "
        "and for tracepoints the right to read tracefs"
    ) + (f"\n  hint: {why}" if why else "")


def test_the_kernels_private_number_becomes_a_known_one():
    with pytest.raises(KernelError, match="Operation not supported"):
        syscall.check(-syscall.ENOTSUPP, "cannot do it")


@pytest.mark.kernel
def test_objects_are_listed_and_opened_by_number(counter):
    info = syscall.ffi.new("struct bpf_map_info *")
    syscall.object_info(counter, info)

    assert info.id in set(syscall.object_ids(Kind.MAP))
    with syscall.object_by_id(Kind.MAP, info.id) as same:
        again = syscall.ffi.new("struct bpf_map_info *")
        syscall.object_info(same, again)
    assert (
        syscall.ffi.string(again.name),
        again.key_size,
        again.value_size,
        again.max_entries,
    ) == (b"counter", 4, 8, 1)


@pytest.mark.kernel
def test_an_object_that_is_gone_cannot_be_opened(counter):
    info = syscall.ffi.new("struct bpf_map_info *")
    syscall.object_info(counter, info)
    counter.close()
    # The number stands for the map until a grace period after the last descriptor is over.
    with pytest.raises(KernelError, match=f"cannot open map {info.id}: No such file or directory"):
        open_until_gone(Kind.MAP, info.id)


def open_until_gone(kind, number):
    while True:
        syscall.object_by_id(kind, number).close()


@pytest.mark.kernel
def test_btf_and_link_ids_can_be_walked(counter):
    assert set(syscall.object_ids(Kind.BTF))
    with (
        load_counting(counter) as prog,
        syscall.raw_tracepoint_open(prog, "sys_enter") as link,
    ):
        info = syscall.ffi.new("struct bpf_link_info *")
        syscall.object_info(link, info)

        assert info.prog_id == prog.info().id
        assert info.id in set(syscall.object_ids(Kind.LINK))


@pytest.mark.kernel
def test_a_raw_tracepoint_fires_until_its_link_is_closed(counter):
    with load_counting(counter) as prog:
        call_getppid(10)
        with syscall.raw_tracepoint_open(prog, "sys_enter"):
            call_getppid(100)
        call_getppid(10)

    assert count(counter) == 100


@pytest.mark.kernel
def test_a_link_of_a_kind_that_only_closing_ends(counter):
    # As all kinds for tracing; the kernel's word is passed on.
    with (
        load_counting(counter) as prog,
        syscall.raw_tracepoint_open(prog, "sys_enter") as link,
        pytest.raises(KernelError, match="cannot detach a link: Operation not supported"),
    ):
        syscall.link_detach(link)


@pytest.mark.kernel
def test_an_unknown_raw_tracepoint_is_named(counter):
    with (
        load_counting(counter) as prog,
        pytest.raises(KernelError, match="cannot attach to the raw tracepoint no_such: No such"),
    ):
        syscall.raw_tracepoint_open(prog, "no_such")


PERF_COUNT = """
    *(u32 *)(r10 - 4) = 0
    r1 = map_fd[{fd}] ll
    r2 = r10
    r2 += -4
    call bpf_map_lookup_elem
    if r0 == 0 goto L1
    r1 = 1
    lock *(u64 *)(r0 + 0) += r1
L1: r0 = 0
    exit
"""
SOFTWARE, PAGE_FAULTS = 1, 2


def fault_pages(pages):
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        for page in range(pages):
            memory[page * mmap.PAGESIZE] = 1


@pytest.mark.kernel
@pytest.mark.parametrize("by", ["link", "ioctl"])
def test_a_perf_event_runs_its_program_while_enabled(counter, by):
    if by == "link" and not features.perf_link():
        pytest.skip("this kernel has no links to perf events")
    text = PERF_COUNT.format(fd=counter.fileno())
    prog = programs.load(bytes(assemble(text)), ProgType.PERF_EVENT, "faults")
    with prog, syscall.perf_open(SOFTWARE, PAGE_FAULTS, period=1, pid=0) as event:
        link = None
        if by == "link":
            link = syscall.link_perf_event(prog, event)
        else:
            syscall.perf_set_bpf(event, prog)
        fault_pages(50)
        before = count(counter)
        syscall.perf_enable(event)
        fault_pages(50)
        syscall.perf_disable(event)
        during = count(counter)
        fault_pages(50)
        after = count(counter)
        if link:
            link.close()

    assert before == 0
    assert during >= 50
    assert during == after


@pytest.mark.kernel
def test_perf_events_have_distinct_ids():
    with (
        syscall.perf_open(SOFTWARE, PAGE_FAULTS, pid=0) as one,
        syscall.perf_open(SOFTWARE, PAGE_FAULTS, pid=0) as two,
    ):
        assert syscall.perf_id(one) != syscall.perf_id(two)


@pytest.mark.kernel
def test_a_filter_is_refused_by_an_event_that_has_none():
    with (
        syscall.perf_open(SOFTWARE, PAGE_FAULTS, pid=0) as event,
        pytest.raises(KernelError, match=r"cannot set the filter 'x == 1': Invalid argument"),
    ):
        syscall.perf_set_filter(event, "x == 1")


@pytest.mark.kernel
def test_a_perf_event_on_no_cpu_is_refused():
    with pytest.raises(KernelError, match="cannot open perf event 1:2 on CPU 65000"):
        syscall.perf_open(SOFTWARE, PAGE_FAULTS, cpu=65000)


@pytest.mark.kernel
def test_a_uprobe_of_a_missing_file_is_refused():
    pmu = features.pmu("uprobe")
    if pmu is None:
        pytest.skip("this kernel has no uprobe PMU (CONFIG_UPROBE_EVENTS)")
    with pytest.raises(KernelError, match=r"cannot open a probe on /no/such\+0x10: No such file"):
        syscall.perf_open_probe(pmu.type, 0, "/no/such", 16, pid=0)


@pytest.mark.kernel
def test_a_kprobe_of_a_missing_function_is_refused():
    pmu = features.pmu("kprobe")
    if pmu is None:
        pytest.skip("this kernel has no kprobe PMU (CONFIG_KPROBE_EVENTS)")
    with pytest.raises(KernelError, match=r"cannot open a probe on no_such\+0x0: No such file"):
        syscall.perf_open_probe(pmu.type, 0, "no_such", 0, cpu=0)


@pytest.mark.kernel
def test_a_detached_mount_is_seen_by_nobody_else():
    before = Path("/proc/self/mountinfo").read_text()
    with syscall.mount_detached("tmpfs") as root:
        fd = os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=root.fileno())
        os.close(fd)

        assert os.stat("file", dir_fd=root.fileno()).st_size == 0
        assert before == Path("/proc/self/mountinfo").read_text()


@pytest.mark.kernel
def test_an_unknown_file_system_is_named():
    with pytest.raises(KernelError, match="cannot mount nosuchfs: No such device"):
        syscall.mount_detached("nosuchfs")
