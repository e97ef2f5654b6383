"""The name of a section, ``SEC("xdp.frags/cpumap")``, in; the type of its programs out.

A row is a name as libbpf knows it. A trailing ``+`` says that what follows a slash belongs to the
program (``kprobe/vfs_read``) and may be missing; other names must match as they are. Of several
rows the first counts. Source: the table of section names in libbpf's documentation
(program_types.rst) and the attach types of include/uapi/linux/bpf.h.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Flag, auto
from functools import cache

from pybpf.dataclass import dataclass
from pybpf.isa.abi import AttachType, ProgFlag, ProgType


class Trait(Flag):
    """What else the name of a section says of its programs."""

    NONE = 0
    ATTACHABLE = auto()
    """It takes an expected attach type, which old kernels may do without (``OPTIONAL``)."""
    OPTIONAL = auto()
    BTF = auto()
    """It is attached to a function or type of the kernel's BTF, which the rest of the name says."""
    SLEEPABLE = auto()
    FRAGS = auto()
    """An XDP program that can do with packets of several buffers."""
    USDT = auto()


FLAGS: Mapping[Trait, ProgFlag] = {
    Trait.SLEEPABLE: ProgFlag.SLEEPABLE,
    Trait.FRAGS: ProgFlag.XDP_HAS_FRAGS,
}
"""The flags of BPF_PROG_LOAD that traits ask for."""


@dataclass(frozen=True, slots=True)
class SectionKind:
    """What ``SEC()`` says: program type, expected attach type, and how it is loaded."""

    name: str
    prog_type: ProgType
    attach_type: AttachType | None = None
    traits: Trait = Trait.NONE


@dataclass(frozen=True, slots=True)
class SectionName:
    """The name of a section, taken apart: its row of the table, and what it is attached to."""

    kind: SectionKind
    target: str


# name | program type | attach type | s: sleepable, b: by BTF, f: XDP frags, o: the attach type is
# optional, u: a statically defined probe of user space
_TABLE = """
socket                     SOCKET_FILTER
sk_reuseport/migrate       SK_REUSEPORT    SK_REUSEPORT_SELECT_OR_MIGRATE
sk_reuseport               SK_REUSEPORT    SK_REUSEPORT_SELECT
kprobe+                    KPROBE
uprobe+                    KPROBE
uprobe.s+                  KPROBE          -  s
kretprobe+                 KPROBE
uretprobe+                 KPROBE
uretprobe.s+               KPROBE          -  s
kprobe.multi+              KPROBE          TRACE_KPROBE_MULTI
kretprobe.multi+           KPROBE          TRACE_KPROBE_MULTI
kprobe.session+            KPROBE          TRACE_KPROBE_SESSION
uprobe.multi+              KPROBE          TRACE_UPROBE_MULTI
uretprobe.multi+           KPROBE          TRACE_UPROBE_MULTI
uprobe.session+            KPROBE          TRACE_UPROBE_SESSION
uprobe.multi.s+            KPROBE          TRACE_UPROBE_MULTI    s
uretprobe.multi.s+         KPROBE          TRACE_UPROBE_MULTI    s
uprobe.session.s+          KPROBE          TRACE_UPROBE_SESSION  s
ksyscall+                  KPROBE
kretsyscall+               KPROBE
usdt+                      KPROBE          -  u
usdt.s+                    KPROBE          -  us
tc/ingress                 SCHED_CLS       TCX_INGRESS
tc/egress                  SCHED_CLS       TCX_EGRESS
tcx/ingress                SCHED_CLS       TCX_INGRESS
tcx/egress                 SCHED_CLS       TCX_EGRESS
tc                         SCHED_CLS
classifier                 SCHED_CLS
action                     SCHED_ACT
netkit/primary             SCHED_CLS       NETKIT_PRIMARY
netkit/peer                SCHED_CLS       NETKIT_PEER
tracepoint+                TRACEPOINT
tp+                        TRACEPOINT
raw_tracepoint+            RAW_TRACEPOINT
raw_tp+                    RAW_TRACEPOINT
raw_tracepoint.w+          RAW_TRACEPOINT_WRITABLE
raw_tp.w+                  RAW_TRACEPOINT_WRITABLE
tp_btf+                    TRACING         TRACE_RAW_TP     b
fentry+                    TRACING         TRACE_FENTRY     b
fmod_ret+                  TRACING         MODIFY_RETURN    b
fexit+                     TRACING         TRACE_FEXIT      b
fentry.s+                  TRACING         TRACE_FENTRY     bs
fmod_ret.s+                TRACING         MODIFY_RETURN    bs
fexit.s+                   TRACING         TRACE_FEXIT      bs
freplace+                  EXT             -                b
lsm+                       LSM             LSM_MAC          b
lsm.s+                     LSM             LSM_MAC          bs
lsm_cgroup+                LSM             LSM_CGROUP       b
iter+                      TRACING         TRACE_ITER       b
iter.s+                    TRACING         TRACE_ITER       bs
syscall                    SYSCALL         -                s
xdp.frags/devmap           XDP             XDP_DEVMAP       f
xdp/devmap                 XDP             XDP_DEVMAP
xdp.frags/cpumap           XDP             XDP_CPUMAP       f
xdp/cpumap                 XDP             XDP_CPUMAP
xdp.frags                  XDP             XDP              fo
xdp                        XDP             XDP              o
perf_event                 PERF_EVENT
lwt_in                     LWT_IN
lwt_out                    LWT_OUT
lwt_xmit                   LWT_XMIT
lwt_seg6local              LWT_SEG6LOCAL
sockops                    SOCK_OPS        CGROUP_SOCK_OPS  o
sk_skb/stream_parser       SK_SKB          SK_SKB_STREAM_PARSER   o
sk_skb/stream_verdict      SK_SKB          SK_SKB_STREAM_VERDICT  o
sk_skb/verdict             SK_SKB          SK_SKB_VERDICT
sk_skb                     SK_SKB
sk_msg                     SK_MSG          SK_MSG_VERDICT   o
lirc_mode2                 LIRC_MODE2      LIRC_MODE2       o
flow_dissector             FLOW_DISSECTOR  FLOW_DISSECTOR   o
cgroup_skb/ingress         CGROUP_SKB      CGROUP_INET_INGRESS      o
cgroup_skb/egress          CGROUP_SKB      CGROUP_INET_EGRESS       o
cgroup/skb                 CGROUP_SKB
cgroup/sock_create         CGROUP_SOCK     CGROUP_INET_SOCK_CREATE
cgroup/sock_release        CGROUP_SOCK     CGROUP_INET_SOCK_RELEASE
cgroup/sock                CGROUP_SOCK     CGROUP_INET_SOCK_CREATE  o
cgroup/post_bind4          CGROUP_SOCK     CGROUP_INET4_POST_BIND
cgroup/post_bind6          CGROUP_SOCK     CGROUP_INET6_POST_BIND
cgroup/bind4               CGROUP_SOCK_ADDR  CGROUP_INET4_BIND
cgroup/bind6               CGROUP_SOCK_ADDR  CGROUP_INET6_BIND
cgroup/connect4            CGROUP_SOCK_ADDR  CGROUP_INET4_CONNECT
cgroup/connect6            CGROUP_SOCK_ADDR  CGROUP_INET6_CONNECT
cgroup/connect_unix        CGROUP_SOCK_ADDR  CGROUP_UNIX_CONNECT
cgroup/sendmsg4            CGROUP_SOCK_ADDR  CGROUP_UDP4_SENDMSG
cgroup/sendmsg6            CGROUP_SOCK_ADDR  CGROUP_UDP6_SENDMSG
cgroup/sendmsg_unix        CGROUP_SOCK_ADDR  CGROUP_UNIX_SENDMSG
cgroup/recvmsg4            CGROUP_SOCK_ADDR  CGROUP_UDP4_RECVMSG
cgroup/recvmsg6            CGROUP_SOCK_ADDR  CGROUP_UDP6_RECVMSG
cgroup/recvmsg_unix        CGROUP_SOCK_ADDR  CGROUP_UNIX_RECVMSG
cgroup/getpeername4        CGROUP_SOCK_ADDR  CGROUP_INET4_GETPEERNAME
cgroup/getpeername6        CGROUP_SOCK_ADDR  CGROUP_INET6_GETPEERNAME
cgroup/getpeername_unix    CGROUP_SOCK_ADDR  CGROUP_UNIX_GETPEERNAME
cgroup/getsockname4        CGROUP_SOCK_ADDR  CGROUP_INET4_GETSOCKNAME
cgroup/getsockname6        CGROUP_SOCK_ADDR  CGROUP_INET6_GETSOCKNAME
cgroup/getsockname_unix    CGROUP_SOCK_ADDR  CGROUP_UNIX_GETSOCKNAME
cgroup/sysctl              CGROUP_SYSCTL   CGROUP_SYSCTL
cgroup/getsockopt          CGROUP_SOCKOPT  CGROUP_GETSOCKOPT
cgroup/setsockopt          CGROUP_SOCKOPT  CGROUP_SETSOCKOPT
cgroup/dev                 CGROUP_DEVICE   CGROUP_DEVICE    o
struct_ops+                STRUCT_OPS
struct_ops.s+              STRUCT_OPS      -                s
sk_lookup                  SK_LOOKUP       SK_LOOKUP
netfilter                  NETFILTER       NETFILTER
"""

_LETTERS = {
    "s": Trait.SLEEPABLE,
    "b": Trait.BTF,
    "f": Trait.FRAGS,
    "o": Trait.OPTIONAL,
    "u": Trait.USDT,
}


@cache
def kinds() -> tuple[SectionKind, ...]:
    """Return every name that programs' sections may have, in the order in which they are tried."""
    return tuple(_rows())


def _rows() -> Iterator[SectionKind]:
    for row in _TABLE.strip().splitlines():
        name, prog_type, *rest = row.split()
        attach = rest[0] if rest else "-"
        traits = Trait.NONE if attach == "-" else Trait.ATTACHABLE
        for letter in rest[1] if len(rest) > 1 else "":
            traits |= _LETTERS[letter]
        attach_type = None if attach == "-" else AttachType[attach]
        yield SectionKind(name, ProgType[prog_type], attach_type, traits)


def parse(name: str) -> SectionName | None:
    """Return what ``SEC(name)`` says, None where no program is known by that name.

    A leading ``?``, which keeps a program from being loaded unless asked for, is not part of it.
    """
    bare = name.removeprefix("?")
    for kind in kinds():
        word = kind.name.removesuffix("+")
        if bare == word:
            return SectionName(kind, "")
        if kind.name != word and bare.startswith(f"{word}/"):
            return SectionName(kind, bare[len(word) + 1 :])
    return None
