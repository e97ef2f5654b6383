"""Harmless questions to the running kernel's bpf(2): a program or a map in, errno and log out.

Programs have a few instructions, are never attached and never run; each is closed at once. Used by
record_profile.py and by the tests that hold the tables of pybpf.verifier to a kernel.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from pybpf.btf.reader import Btf, Kind
from pybpf.isa.abi import AttachType, ProgType

_LIBC = ctypes.CDLL(None, use_errno=True)
_SYSCALL = 321  # bpf(2) on x86-64
_MAP_CREATE, _PROG_LOAD = 0, 5
_LOG_SIZE = 1 << 16
SLEEPABLE = 1 << 4
LARGE = 1000
"""A result that no program type with a range of results allows."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the kernel said: 0 or an errno, and the verifier's log."""

    errno: int
    log: str

    @property
    def accepted(self) -> bool:
        """Whether the program was loaded."""
        return self.errno == 0


def insn(code: int, dst: int = 0, src: int = 0, off: int = 0, imm: int = 0) -> bytes:
    """Encode one instruction of eight bytes, little-endian."""
    return struct.pack("<BBhi", code, dst | src << 4, off, imm)


EXIT = insn(0x95)


def mov(register: int, value: int) -> bytes:
    """Encode ``rN = value``."""
    return insn(0xB7, register, imm=value)


def call(helper: int) -> bytes:
    """Encode the call of a helper."""
    return insn(0x85, imm=helper)


def call_kfunc(number: int) -> bytes:
    """Encode the call of the kernel function with a number in the kernel's BTF."""
    return insn(0x85, src=2, imm=number)


@dataclass(frozen=True, slots=True)
class Subject:
    """A kind of program to ask about: a program type with all that changes what it may do.

    ``btf`` names what in the kernel's BTF it is loaded for, as ``KIND name``. ``result`` is a
    value that it may return.
    """

    name: str
    type: ProgType
    attach: AttachType | int = 0
    flags: int = 0
    btf: tuple[Kind, str] | None = None
    result: int = 0


def _cgroup(kind: ProgType, *attaches: AttachType, result: int = 1) -> Iterator[Subject]:
    for attach in attaches:
        name = attach.name.lower().removeprefix("cgroup_")
        yield Subject(f"{kind.name.lower()}/{name}", kind, attach, result=result)


def _subjects() -> Iterator[Subject]:
    t, a = ProgType, AttachType
    plain = (t.SOCKET_FILTER, t.KPROBE, t.SCHED_CLS, t.SCHED_ACT, t.TRACEPOINT, t.XDP)
    for kind in (*plain, t.PERF_EVENT):
        yield Subject(kind.name.lower(), kind)
    yield Subject("kprobe/trace_kprobe_multi", t.KPROBE, a.TRACE_KPROBE_MULTI)
    yield Subject("kprobe/trace_kprobe_session", t.KPROBE, a.TRACE_KPROBE_SESSION)
    yield Subject("kprobe/trace_uprobe_multi", t.KPROBE, a.TRACE_UPROBE_MULTI)
    yield Subject("kprobe/sleepable", t.KPROBE, flags=SLEEPABLE)
    yield Subject("sched_cls/tcx_ingress", t.SCHED_CLS, a.TCX_INGRESS)
    yield Subject("xdp/xdp_devmap", t.XDP, a.XDP_DEVMAP)
    yield Subject("xdp/xdp_cpumap", t.XDP, a.XDP_CPUMAP)
    yield from _cgroup(t.CGROUP_SKB, a.CGROUP_INET_INGRESS, a.CGROUP_INET_EGRESS)
    yield from _cgroup(t.CGROUP_SOCK, a.CGROUP_INET_SOCK_CREATE, a.CGROUP_INET_SOCK_RELEASE)
    yield from _cgroup(t.CGROUP_SOCK, a.CGROUP_INET4_POST_BIND, a.CGROUP_INET6_POST_BIND)
    for kind in (t.LWT_IN, t.LWT_OUT, t.LWT_XMIT, t.LWT_SEG6LOCAL):
        yield Subject(kind.name.lower(), kind)
    yield Subject("sock_ops", t.SOCK_OPS, a.CGROUP_SOCK_OPS)
    yield Subject("sk_skb", t.SK_SKB)
    yield Subject("sk_skb/stream_verdict", t.SK_SKB, a.SK_SKB_STREAM_VERDICT)
    yield Subject("cgroup_device", t.CGROUP_DEVICE, a.CGROUP_DEVICE)
    yield Subject("cgroup_device/inet_ingress", t.CGROUP_DEVICE)  # where none is named
    yield Subject("sk_msg", t.SK_MSG, a.SK_MSG_VERDICT)
    yield Subject("raw_tracepoint", t.RAW_TRACEPOINT)
    yield Subject("raw_tracepoint_writable", t.RAW_TRACEPOINT_WRITABLE)
    for attach in AttachType:
        name = attach.name.removeprefix("CGROUP_")
        if name.startswith(("INET4", "INET6", "UDP", "UNIX")) and "POST" not in name:
            yield from _cgroup(t.CGROUP_SOCK_ADDR, attach)
    yield Subject("lirc_mode2", t.LIRC_MODE2, a.LIRC_MODE2)
    for attach in (a.SK_REUSEPORT_SELECT, a.SK_REUSEPORT_SELECT_OR_MIGRATE):
        yield Subject(f"sk_reuseport/{attach.name.lower()[13:]}", t.SK_REUSEPORT, attach)
    yield Subject("flow_dissector", t.FLOW_DISSECTOR, a.FLOW_DISSECTOR)
    yield Subject("cgroup_sysctl", t.CGROUP_SYSCTL, a.CGROUP_SYSCTL, result=1)
    yield Subject("cgroup_sysctl/inet_ingress", t.CGROUP_SYSCTL, result=1)
    yield from _cgroup(t.CGROUP_SOCKOPT, a.CGROUP_GETSOCKOPT, a.CGROUP_SETSOCKOPT)
    yield from _tracing()
    yield Subject("sk_lookup", t.SK_LOOKUP, a.SK_LOOKUP)
    yield Subject("syscall", t.SYSCALL, flags=SLEEPABLE)
    yield Subject("netfilter", t.NETFILTER, a.NETFILTER)


def _tracing() -> Iterator[Subject]:
    t, a = ProgType, AttachType
    switch = (Kind.TYPEDEF, "btf_trace_sched_switch")
    fork, open_file = (Kind.FUNC, "do_nanosleep"), (Kind.FUNC, "bpf_lsm_file_open")
    syscall = (Kind.FUNC, "__x64_sys_getpid")
    tcp = (Kind.STRUCT, "tcp_congestion_ops")
    yield Subject("tracing/trace_raw_tp", t.TRACING, a.TRACE_RAW_TP, btf=switch)
    yield Subject("tracing/trace_fentry", t.TRACING, a.TRACE_FENTRY, btf=fork)
    yield Subject("tracing/trace_fentry/sleepable", t.TRACING, a.TRACE_FENTRY, SLEEPABLE, syscall)
    yield Subject("tracing/trace_fexit", t.TRACING, a.TRACE_FEXIT, btf=fork)
    yield Subject(
        "tracing/modify_return", t.TRACING, a.MODIFY_RETURN, btf=(Kind.FUNC, "security_file_open")
    )
    task = (Kind.FUNC, "bpf_iter_task")
    yield Subject("tracing/trace_iter", t.TRACING, a.TRACE_ITER, btf=task)
    yield Subject("lsm/lsm_mac", t.LSM, a.LSM_MAC, btf=open_file)
    yield Subject("lsm/lsm_mac/sleepable", t.LSM, a.LSM_MAC, SLEEPABLE, open_file)
    yield Subject(
        "lsm/lsm_cgroup", t.LSM, a.LSM_CGROUP, btf=(Kind.FUNC, "bpf_lsm_socket_bind"), result=1
    )
    yield Subject("struct_ops", t.STRUCT_OPS, 0, btf=tcp)


SUBJECTS = tuple(_subjects())


class Kernel:
    """The running kernel, asked by bpf(2) as the calling user. x86-64 only."""

    def __init__(self) -> None:
        self._log = ctypes.create_string_buffer(_LOG_SIZE)
        self._licence = ctypes.create_string_buffer(b"GPL")
        self._other = ctypes.create_string_buffer(b"Proprietary")
        self._numbers: dict[tuple[Kind, str], int] = {}
        self.btf = self._read_btf()

    def _read_btf(self) -> Btf | None:
        try:
            with open("/sys/kernel/btf/vmlinux", "rb") as file:  # noqa: PTH123
                btf = Btf(file.read())
        except OSError:
            return None
        wanted = {subject.btf for subject in SUBJECTS if subject.btf}
        wanted_kinds = {kind for kind, _ in wanted}
        for number in range(1, len(btf)):
            if (kind := btf.kind(number)) in wanted_kinds:
                self._numbers.setdefault((kind, btf.name(number)), number)
        return btf

    def enumerators(self, name: str) -> frozenset[str]:
        """Return the names of the values of an enumeration in the kernel's BTF."""
        for number in range(1, len(self.btf) if self.btf else 0):
            if self.btf and self.btf.kind(number) is Kind.ENUM and self.btf.name(number) == name:
                return frozenset(text for text, _ in self.btf.enumerators(number))
        return frozenset()

    def can_ask(self, subject: Subject) -> bool:
        """Whether what the subject is loaded for is in this kernel."""
        return subject.btf is None or subject.btf in self._numbers

    def load(
        self,
        subject: Subject,
        insns: bytes,
        *,
        log_level: int = 1,
        gpl: bool = True,
        flags: int = 0,
        maps: tuple[int, ...] = (),
    ) -> Answer:
        """Load a program of the subject's kind, and close it where that succeeds."""
        code = ctypes.create_string_buffer(insns, len(insns))
        files = (ctypes.c_int * len(maps))(*maps) if maps else None
        self._log[0] = b"\0"
        attr = struct.pack(
            "<IIQQIIQII16sIIIIQIIQIIIIQ",
            subject.type,
            len(insns) // 8,
            ctypes.addressof(code),
            ctypes.addressof(self._licence if gpl else self._other),
            log_level,
            _LOG_SIZE if log_level else 0,
            ctypes.addressof(self._log) if log_level else 0,
            0,
            subject.flags | flags,
            b"probe",
            0,
            subject.attach,
            *(0, 0, 0, 0, 0, 0, 0),
            self._numbers[subject.btf] if subject.btf else 0,
            0,
            0,
            ctypes.addressof(files) if files else 0,
        )
        fd, number = self._bpf(_PROG_LOAD, attr)
        if fd >= 0:
            os.close(fd)
        return Answer(number, self._log.value.decode(errors="replace") if log_level else "")

    def loads(self, subject: Subject) -> bool:
        """Whether the kernel takes programs of a kind at all."""
        return self.can_ask(subject) and any(
            self.load(subject, mov(0, result) + EXIT, log_level=0).accepted
            for result in (subject.result, 0, 1)
        )

    def create_map(
        self, kind: int, key: int, value: int, entries: int, flags: int = 0, inner: int = 0
    ) -> int:
        """Create a map; return its descriptor, or -errno."""
        attr = struct.pack("<IIIIIII16s", kind, key, value, entries, flags, inner, 0, b"probe")
        fd, number = self._bpf(_MAP_CREATE, attr + bytes(40))
        return fd if fd >= 0 else -number

    @staticmethod
    def _bpf(command: int, attr: bytes) -> tuple[int, int]:
        buffer = ctypes.create_string_buffer(attr, len(attr))
        fd = _LIBC.syscall(_SYSCALL, command, buffer, len(attr))
        return fd, (ctypes.get_errno() if fd < 0 else 0)
