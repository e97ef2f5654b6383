"""Stores into structures of the kernel, which few programs may do: an access in; Refusal out.

Source: bpf_tcp_ca_btf_struct_access in net/ipv4/bpf_tcp_ca.c; the others that have such a function
write through pointers of modules or of operations that are not modelled.
"""

from __future__ import annotations

from pybpf.verifier.env import Env
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.registers import EACCES

# Members of a tcp_sock, and of what is in it, that congestion control may write.
_TCP = (
    "inet_conn.icsk_inet.sk.sk_pacing_rate",
    "inet_conn.icsk_inet.sk.sk_pacing_status",
    "inet_conn.icsk_ca_priv",
    "inet_conn.icsk_ack.pending",
    "snd_cwnd",
    "snd_cwnd_cnt",
    "snd_cwnd_stamp",
    "snd_ssthresh",
    "ecn_flags",
    "app_limited",
)


def check_write(env: Env, struct: int, off: int, size: int) -> None:
    """Raise Refusal unless the program may store ``size`` bytes at ``off`` of a structure."""
    target, btf = env.target, env.types.btf
    operations = "" if target is None else target.struct
    if operations != "tcp_congestion_ops" or btf.name(struct) != "tcp_sock":
        raise Refusal("only read is supported", errno=EACCES)
    for path in _TCP:
        start, number, whole = 0, struct, 0
        for name in path.split("."):
            member = btf.member(number, name)
            if member is None:
                break
            start += member.bit_offset // 8
            number, whole = btf.skip(member.type), btf.size(member.type) or 0
        else:
            anywhere = path.endswith("icsk_ca_priv")
            if off == start or (anywhere and start <= off < start + whole):
                if off + size > start + whole:
                    raise Refusal(
                        f"write access at off {off} with size {size} beyond the member of "
                        f"tcp_sock ended at {start + whole}",
                        errno=EACCES,
                    )
                return
    raise Refusal(f"no write support to tcp_sock at off {off}", errno=EACCES)
