"""Layouts of contexts, and what programs may load and store of them, as text tables.

LAYOUTS: a structure's name and size in bytes (``size@release`` where it grew), then its fields:
offset, name (``@release`` where it is younger), size or ``size/unit`` of an array, how it is
loaded, and what the verifier takes the value for, where that is no number. How it is loaded: ``=``
as a whole unit; ``n`` also in aligned parts; ``s`` also in parts, from its start on; ``a`` in any
aligned size; ``u`` in any size at all; ``w`` in parts, and two units at once where that is aligned
to 8; ``d``, ``e`` and ``b`` are ports, protocols and buffers, see contexts.py. The kernel does not
look whether an offset into the record of a tracepoint is negative.

VIEWS: program types (``type/attach`` for attach types), a layout, then what is different for
them: ``-field`` cannot be loaded, ``only field …`` are all that can; ``+field`` can be stored, as
it is loaded but without parts (``+field:n`` with parts); ``field:u`` is accessed in that way;
``!field`` and ``!+field`` only by privileged users. ``a..b`` are all fields from one to another;
``@release`` behind a word says since when it holds.

Source: the is_valid_access functions in net/core/filter.c, net/core/sock_reuseport.c,
kernel/trace/bpf_trace.c and kernel/bpf/cgroup.c, and the conversions below them, which refuse
padding; tests/guest/test_verifier_tables.py holds all of it to kernels.
"""

from __future__ import annotations

LAYOUTS = """
__sk_buff 184 192@5.16
0 len 4 n
4 pkt_type 4 n
8 mark 4 n
12 queue_mapping 4 n
16 protocol 4 n
20 vlan_present 4 n
24 vlan_tci 4 n
28 vlan_proto 4 n
32 priority 4 n
36 ingress_ifindex 4 n
40 ifindex 4 n
44 tc_index 4 n
48 cb 20/4 a
68 hash 4 n
72 tc_classid 4 n
76 data 4 = pkt
80 data_end 4 = pkt_end
84 napi_id 4 n
88 family 4 n
92 remote_ip4 4 =
96 local_ip4 4 =
100 remote_ip6 16/4 =
116 local_ip6 16/4 =
132 remote_port 4 n
136 local_port 4 n
140 data_meta 4 = pkt_meta
144 flow_keys 8 = flow_keys
152 tstamp 8 =
160 wire_len 4 n
164 gso_segs 4 n
168 sk 8 = sock_common_or_null
176 gso_size 4 n
180 tstamp_type@5.18 1 =
184 hwtstamp@5.16 8 =

xdp_md 24
0 data 4 = pkt
4 data_end 4 = pkt_end
8 data_meta 4 = pkt_meta
12 ingress_ifindex 4 =
16 rx_queue_index 4 =
20 egress_ifindex 4 =

bpf_sock 80
0 bound_dev_if 4 =
4 family 4 s
8 type 4 s
12 protocol 4 s
16 mark 4 =
20 priority 4 =
24 src_ip4 4 n
28 src_ip6 16/4 n
44 src_port 4 s
48 dst_port 4 d
52 dst_ip4 4 n
56 dst_ip6 16/4 n
72 state 4 s
76 rx_queue_mapping 4 s

bpf_sock_addr 72
0 user_family 4 =
4 user_ip4 4 n
8 user_ip6 16/4 w
24 user_port 4 n
28 family 4 =
32 type 4 =
36 protocol 4 =
40 msg_src_ip4 4 n
44 msg_src_ip6 16/4 w
64 sk 8 = sock

bpf_sock_ops 216 224@6.2
0 op 4 =
4 reply 4 =
8 args 12/4 =
20 family 4 =
24 remote_ip4 4 =
28 local_ip4 4 =
32 remote_ip6 16/4 =
48 local_ip6 16/4 =
64 remote_port 4 =
68 local_port 4 =
72 is_fullsock 4 =
76 snd_cwnd 4 =
80 srtt_us 4 =
84 bpf_sock_ops_cb_flags 4 =
88 counters 76/4 =
164 sk_txhash 4 =
168 bytes_received 8 =
176 bytes_acked 8 =
184 sk 8 = sock_or_null
192 skb_data 8 = pkt
200 skb_data_end 8 = pkt_end
208 skb_len 4 =
212 skb_tcp_flags 4 s
216 skb_hwtstamp@6.2 8 =

sk_msg_md 80
0 data 8 = pkt
8 data_end 8 = pkt_end
16 family 4 =
20 remote_ip4 4 =
24 local_ip4 4 =
28 remote_ip6 16/4 =
44 local_ip6 16/4 =
60 remote_port 4 =
64 local_port 4 =
68 size 4 =
72 sk 8 = sock

sk_reuseport_md 48 56@5.14
0 data 8 = pkt
8 data_end 8 = pkt_end
16 len 4 n
20 eth_protocol 4 e
24 ip_protocol 4 n
28 bind_inany 4 n
32 hash 4 =
40 sk@5.14 8 = sock
48 migrating_sk@5.14 8 = sock_common_or_null

bpf_sk_lookup 64 72@5.17
0 sk 8 = sock_or_null
8 family 4 n
12 protocol 4 n
16 remote_ip4 4 n
20 remote_ip6 16/4 n
36 remote_port 4 n
40 local_ip4 4 n
44 local_ip6 16/4 n
60 local_port 4 n
64 ingress_ifindex@5.17 4 n

bpf_sockopt 40
0 sk 8 = sock
8 optval 8 = pkt
16 optval_end 8 = pkt_end
24 level 4 =
28 optname 4 =
32 optlen 4 =
36 retval 4 =

bpf_sysctl 8
0 write 4 n
4 file_pos 4 n

bpf_cgroup_dev_ctx 12
0 access_type 4 n
4 major 4 =
8 minor 4 =

pt_regs 168
0 registers 168/8 a

bpf_perf_event_data 184
0 regs 168/8 =
168 sample_period 8 n
176 addr 8 n

tracepoint 8192
-32768 before 32768/8 a
8 record 8184/8 a

bpf_raw_tracepoint_args 96
0 args 96/8 a

writable_args 96
0 buffer 8 b tp_buffer
8 args 88/8 a

bpf_nf_ctx 16
0 state 8 = trusted_ptr_nf_hook_state
8 skb 8 = trusted_ptr_sk_buff

syscall 65535
0 arguments 65535/1 a

lirc 4
0 sample 4 =
"""

VIEWS = """
socket_filter: __sk_buff -tc_classid -data -data_end -data_meta -family..local_port -flow_keys \
 -tstamp -wire_len -hwtstamp -tstamp_type +cb
cgroup_skb: __sk_buff -tc_classid -data_meta -flow_keys -wire_len -tstamp_type !data !data_end \
 +mark +priority +cb !+tstamp
lwt_in lwt_out lwt_xmit lwt_seg6local: __sk_buff -tc_classid -family..local_port -data_meta \
 -flow_keys -tstamp -wire_len -hwtstamp -tstamp_type +mark +priority +cb
sched_cls sched_act: __sk_buff -family..local_port -flow_keys \
 +mark +tc_index +priority +tc_classid +cb +tstamp +queue_mapping
sk_skb: __sk_buff -mark -tc_classid -data_meta -flow_keys -tstamp -wire_len -hwtstamp \
 -tstamp_type +tc_index +priority
flow_dissector: __sk_buff only data data_end flow_keys
xdp: xdp_md -egress_ifindex
xdp/xdp_devmap: xdp_md
cgroup_sock: bpf_sock -src_ip4 -src_ip6 -src_port +bound_dev_if +mark +priority
cgroup_sock/inet4_post_bind: bpf_sock -bound_dev_if -mark -priority -src_ip6
cgroup_sock/inet6_post_bind: bpf_sock -bound_dev_if -mark -priority -src_ip4
cgroup_sock_addr/inet4_bind,inet4_connect,inet4_getpeername,inet4_getsockname,udp4_recvmsg: \
 bpf_sock_addr -user_ip6 -msg_src_ip4 -msg_src_ip6 +user_ip4 +user_port
cgroup_sock_addr/udp4_sendmsg: bpf_sock_addr -user_ip6 -msg_src_ip6 +user_ip4 +user_port \
 +msg_src_ip4
cgroup_sock_addr/inet6_bind,inet6_connect,inet6_getpeername,inet6_getsockname,udp6_recvmsg: \
 bpf_sock_addr -user_ip4 -msg_src_ip4 -msg_src_ip6 +user_ip6 +user_port
cgroup_sock_addr/udp6_sendmsg: bpf_sock_addr -user_ip4 -msg_src_ip4 +user_ip6 +user_port \
 +msg_src_ip6
cgroup_sock_addr/unix_connect,unix_sendmsg,unix_recvmsg,unix_getpeername,unix_getsockname: \
 bpf_sock_addr -user_ip4 -user_ip6 -msg_src_ip4 -msg_src_ip6 +user_port
sock_ops: bpf_sock_ops +reply +sk_txhash
sk_msg: sk_msg_md
sk_reuseport: sk_reuseport_md
sk_lookup: bpf_sk_lookup
cgroup_sockopt/getsockopt: bpf_sockopt +optlen +retval
cgroup_sockopt/setsockopt: bpf_sockopt -retval +optlen +level +optname
cgroup_sysctl: bpf_sysctl +file_pos
cgroup_device: bpf_cgroup_dev_ctx
kprobe: pt_regs +registers:a@6.18
perf_event: bpf_perf_event_data
tracepoint: tracepoint
raw_tracepoint: bpf_raw_tracepoint_args
raw_tracepoint_writable: writable_args
netfilter: bpf_nf_ctx
syscall: syscall +arguments:a arguments:u@7.1
lirc_mode2: lirc
"""
