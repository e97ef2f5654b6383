"""Prototypes of the kernel's helpers as a text table; pybpf.verifier.protos reads it.

A row: the helper's name without ``bpf_``; ``@6.12`` where the row holds from that release on;
``[group]`` where it holds for the program types of GROUPS, or of one type, only; its arguments
``->`` its result; then ``!`` flags. A later row of a helper takes precedence over an earlier one.

Arguments and results are the kernel's, shortened: ``any`` is ARG_ANYTHING, ``map``
ARG_CONST_MAP_PTR, ``key`` and ``value`` ARG_PTR_TO_MAP_KEY and _VALUE, ``mem`` ARG_PTR_TO_MEM
(``mem<8>``: of a fixed size), ``size`` and ``size0`` ARG_CONST_SIZE and _OR_ZERO, ``btf<type>``
ARG_PTR_TO_BTF_ID, ``sk`` ARG_PTR_TO_BTF_ID_SOCK_COMMON; the others keep their names. Behind ``|``
are the flags that an argument type is combined with.

Recorded from the prototypes in the memory of Linux 6.1, 6.12 and 7.3 (tools/kernel_memory.py);
what is only in other kernels, and the releases of changes between those, are from their sources.
"""

from __future__ import annotations

from collections.abc import Mapping

GROUPS: Mapping[str, str] = {
    "current": (
        "cgroup_sock cgroup_sock_addr cgroup_device cgroup_sysctl cgroup_sockopt sk_msg sock_ops"
    ),
    "raw": "raw_tracepoint raw_tracepoint_writable tracing syscall lsm",
    "by_ctx": "cgroup_sock_addr sock_ops cgroup_sock",
    "by_sock": "tracing lsm sk_reuseport syscall",
    "typed": "tracing syscall",
    "traced": "tracing syscall lsm",
    "raw_cpu": "sk_reuseport socket_filter",
}

ROWS = """
map_lookup_elem                map key -> value|null !pkt
map_update_elem                map key value any -> int !pkt
map_delete_elem                map key -> int !pkt
probe_read                     mem|uninit|write size0 any -> int !gpl
ktime_get_ns                   -> int
trace_printk                   mem|rdonly size -> int !gpl
get_prandom_u32                -> int
get_smp_processor_id           -> int
get_smp_processor_id@6.12      -> int !fast
get_smp_processor_id [raw_cpu] -> int
skb_store_bytes                ctx any mem|rdonly size any -> int !packet
l3_csum_replace                ctx any any any any -> int !packet
l4_csum_replace                ctx any any any any -> int !packet
tail_call                      ctx map any -> void
clone_redirect                 ctx any any -> int !packet
get_current_pid_tgid           -> int
get_current_uid_gid            -> int
get_current_comm               mem|uninit|write size -> int
get_cgroup_classid             ctx -> int
get_cgroup_classid [cgroup]    -> int
skb_vlan_push                  ctx any any -> int !packet
skb_vlan_pop                   ctx -> int !packet
skb_get_tunnel_key             ctx mem|uninit|write size any -> int
skb_set_tunnel_key             ctx mem|rdonly size any -> int
perf_event_read                map any -> int !gpl
redirect                       any any -> int
get_route_realm                ctx -> int
perf_event_output              ctx map any mem|rdonly size0 -> int !gpl
skb_load_bytes                 ctx any mem|uninit|write size -> int
get_stackid                    ctx map any -> int !gpl
get_stackid [perf_event]       ctx map any -> int
csum_diff                      mem|rdonly|null size0 mem|rdonly|null size0 any -> int !pkt
skb_get_tunnel_opt             ctx mem|uninit|write size -> int
skb_set_tunnel_opt             ctx mem|rdonly size -> int
skb_change_proto               ctx any any -> int !packet
skb_change_type                ctx any -> int
skb_under_cgroup               ctx map any -> int
get_hash_recalc                ctx -> int
get_current_task               -> int !gpl
probe_write_user               any mem|rdonly size -> int !gpl
current_task_under_cgroup      map any -> int
skb_change_tail                ctx any any -> int !packet
skb_pull_data                  ctx any -> int !packet
csum_update                    ctx any -> int
set_hash_invalid               ctx -> int
get_numa_node_id               -> int
skb_change_head                ctx any any -> int !packet
xdp_adjust_head                ctx any -> int !packet
probe_read_str                 mem|uninit|write size0 any -> int !gpl
get_socket_cookie              ctx -> int
get_socket_cookie [by_sock]    sk -> int
get_socket_cookie@6.6 [by_sock] sk|null -> int
get_socket_uid                 ctx -> int
set_hash                       ctx any -> int
setsockopt                     sk any any mem|rdonly size -> int
setsockopt [by_ctx]            ctx any any mem|rdonly size -> int
skb_adjust_room                ctx any any any -> int !packet
redirect_map                   map any any -> int
sk_redirect_map                ctx map any any -> int
sock_map_update                ctx map key any -> int !pkt
xdp_adjust_meta                ctx any -> int !packet
perf_event_read_value          map any mem|uninit|write size -> int !gpl
perf_prog_read_value           ctx mem|uninit|write size -> int !gpl
getsockopt                     sk any any mem|uninit|write size -> int
getsockopt [by_ctx]            ctx any any mem|uninit|write size -> int
override_return                ctx any -> int !gpl
sock_ops_cb_flags_set          ctx any -> int
msg_redirect_map               ctx map any any -> int
msg_apply_bytes                ctx any -> int
msg_cork_bytes                 ctx any -> int
msg_pull_data                  ctx any any any -> int !packet
bind                           ctx mem|rdonly size -> int
xdp_adjust_tail                ctx any -> int !packet
skb_get_xfrm_state             ctx any mem|uninit|write size any -> int
get_stack                      ctx mem|uninit|write size0 any -> int !gpl
get_stack [raw]                ctx mem|rdonly size0 any -> int !gpl
get_stack@7.3 [raw]            ctx mem|uninit|write size0 any -> int !gpl
skb_load_bytes_relative        ctx any mem|uninit|write size any -> int
fib_lookup                     ctx mem size any -> int !gpl
fib_lookup@7.3                 ctx mem|write size any -> int !gpl
sock_hash_update               ctx map key any -> int !pkt
msg_redirect_hash              ctx map key any -> int
sk_redirect_hash               ctx map key any -> int
lwt_push_encap                 ctx any mem|rdonly size -> int !packet
lwt_seg6_store_bytes           ctx any mem|rdonly size -> int !packet
lwt_seg6_adjust_srh            ctx any any -> int !packet
lwt_seg6_action                ctx any mem|rdonly size -> int !packet
rc_repeat                      ctx -> int !gpl
rc_keydown                     ctx any any any -> int !gpl
skb_cgroup_id                  ctx -> int
get_current_cgroup_id          -> int
get_local_storage              map any -> value
sk_select_reuseport            ctx map key any -> int
skb_ancestor_cgroup_id         ctx any -> int
sk_lookup_tcp                  ctx mem|rdonly size any any -> socket|null !pkt !acquire
sk_lookup_tcp@6.6              ctx mem|rdonly size0 any any -> socket|null !pkt !acquire
sk_lookup_tcp [cgroup_sock_addr] ctx mem|rdonly size any any -> socket|null !acquire
sk_lookup_tcp@6.6 [cgroup_sock_addr] ctx mem|rdonly size0 any any -> socket|null !acquire
sk_lookup_udp                  ctx mem|rdonly size any any -> socket|null !pkt !acquire
sk_lookup_udp@6.6              ctx mem|rdonly size0 any any -> socket|null !pkt !acquire
sk_lookup_udp [cgroup_sock_addr] ctx mem|rdonly size any any -> socket|null !acquire
sk_lookup_udp@6.6 [cgroup_sock_addr] ctx mem|rdonly size0 any any -> socket|null !acquire
sk_release                     sk|release -> int
map_push_elem                  map value any -> int !pkt
map_pop_elem                   map value|uninit|write -> int
map_peek_elem                  map value|uninit|write -> int
msg_push_data                  ctx any any any -> int !packet
msg_pop_data                   ctx any any any -> int !packet
rc_pointer_rel                 ctx any any -> int !gpl
spin_lock                      spin_lock -> void
spin_unlock                    spin_lock -> void
sk_fullsock                    sock_common -> socket|null
tcp_sock                       sock_common -> tcp_sock|null
skb_ecn_set_ce                 ctx -> int
get_listener_sock              sock_common -> socket|null
skc_lookup_tcp                 ctx mem|rdonly size any any -> sock_common|null !pkt !acquire
skc_lookup_tcp@6.6             ctx mem|rdonly size0 any any -> sock_common|null !pkt !acquire
skc_lookup_tcp [cgroup_sock_addr] ctx mem|rdonly size any any -> sock_common|null !acquire
skc_lookup_tcp@6.6 [cgroup_sock_addr] ctx mem|rdonly size0 any any -> sock_common|null !acquire
tcp_check_syncookie            sk mem|rdonly size mem|rdonly size -> int !gpl !pkt
sysctl_get_name                ctx mem size any -> int
sysctl_get_name@7.3            ctx mem|write size any -> int
sysctl_get_current_value       ctx mem|uninit|write size -> int
sysctl_get_new_value           ctx mem|uninit|write size -> int
sysctl_set_new_value           ctx mem|rdonly size -> int
strtol                         mem|rdonly size any mem<8>|aligned -> int
strtol@6.1                     mem|rdonly size any mem<8>|aligned|uninit|write -> int
strtoul                        mem|rdonly size any mem<8>|aligned -> int
strtoul@6.1                    mem|rdonly size any mem<8>|aligned|uninit|write -> int
sk_storage_get                 map sk value|null any -> value|null
sk_storage_get [cgroup_sock]   map ctx value|null any -> value|null
sk_storage_get [typed]       map btf<sock_common> value|null any -> value|null !limited
sk_storage_get@6.6 [typed]   map btf<sock_common>|null value|null any -> value|null !limited
sk_storage_delete              map sk -> int
sk_storage_delete [typed]    map btf<sock_common> -> int !limited
sk_storage_delete@6.6 [typed] map btf<sock_common>|null -> int !limited
send_signal                    any -> int
tcp_gen_syncookie              sk mem|rdonly size mem|rdonly size -> int !gpl !pkt
skb_output                     btf<sk_buff> map any mem|rdonly size0 -> int !gpl
probe_read_user                mem|uninit|write size0 any -> int !gpl
probe_read_kernel              mem|uninit|write size0 any -> int !gpl
probe_read_user_str            mem|uninit|write size0 any -> int !gpl
probe_read_kernel_str          mem|uninit|write size0 any -> int !gpl
tcp_send_ack                   btf<tcp_sock> any -> int
send_signal_thread             any -> int
jiffies64                      -> int
read_branch_records            ctx mem|null size0 any -> int !gpl
read_branch_records@7.3        ctx mem|write|null size0 any -> int !gpl
get_ns_current_pid_tgid        any any mem|uninit|write size -> int
xdp_output                     btf<xdp_buff> map any mem|rdonly size0 -> int !gpl
get_netns_cookie               ctx|null -> int
get_current_ancestor_cgroup_id any -> int
sk_assign                      ctx sk any -> int
sk_assign [sk_lookup]          ctx socket|null any -> int
ktime_get_boot_ns              -> int
seq_printf                     btf<seq_file> mem|rdonly size mem|rdonly|null size0 -> int !gpl
seq_write                      btf<seq_file> mem|rdonly size0 -> int !gpl
sk_cgroup_id                   sk -> int
sk_ancestor_cgroup_id          sk any -> int
ringbuf_output                 map mem|rdonly size0 any -> int
ringbuf_reserve                map alloc_size0 any -> mem|ringbuf|null !acquire
ringbuf_submit                 ringbuf_mem|release any -> void
ringbuf_discard                ringbuf_mem|release any -> void
ringbuf_query                  map any -> int
csum_level                     ctx any -> int
skc_to_tcp6_sock               sk -> btf<tcp6_sock>|null
skc_to_tcp_sock                sk -> btf<tcp_sock>|null
skc_to_tcp_timewait_sock       sk -> btf<tcp_timewait_sock>|null
skc_to_tcp_request_sock        sk -> btf<tcp_request_sock>|null
skc_to_udp6_sock               sk -> btf<udp6_sock>|null
get_task_stack                 btf<task_struct> mem|uninit|write size0 any -> int
load_hdr_opt                   ctx mem|write size any -> int
store_hdr_opt                  ctx mem|rdonly size any -> int !packet
reserve_hdr_opt                ctx any any -> int
inode_storage_get              map btf<inode> value|null any -> value|null
inode_storage_get@6.6          map btf<inode>|null value|null any -> value|null
inode_storage_delete           map btf<inode> -> int
inode_storage_delete@6.6       map btf<inode>|null -> int
d_path                         btf<path> mem size0 -> int !limited
d_path@7.3                     btf<path> mem|write size0 -> int !limited
copy_from_user                 mem|uninit|write size0 any -> int !sleep
snprintf_btf                   mem size mem|rdonly size any -> int
snprintf_btf@7.3               mem|write size mem|rdonly size any -> int
seq_printf_btf                 btf<seq_file> mem|rdonly size0 any -> int !gpl
skb_cgroup_classid             ctx -> int
redirect_neigh                 any mem|rdonly|null size0 any -> int
per_cpu_ptr                    percpu_btf any -> mem_or_btf|rdonly|null
this_cpu_ptr                   percpu_btf -> mem_or_btf|rdonly
redirect_peer                  any any -> int
task_storage_get               map btf<task_struct> value|null any -> value|null
task_storage_get@6.6           map btf<task_struct>|null value|null any -> value|null
task_storage_delete            map btf<task_struct> -> int
task_storage_delete@6.6        map btf<task_struct>|null -> int
get_current_task_btf           -> btf<task_struct> !gpl
get_current_task_btf@6.6       -> btf<task_struct>|trusted !gpl
bprm_opts_set                  btf<linux_binprm> any -> int
ktime_get_coarse_ns            -> int
ima_inode_hash                 btf<inode> mem|uninit|write size -> int !sleep !limited
sock_from_file                 btf<file> -> btf<socket>|null
check_mtu                      ctx any mem<4>|aligned|uninit|write any any -> int !gpl
check_mtu@6.12                 ctx any mem<4>|aligned|write any any -> int !gpl
for_each_map_elem              map func stack|null any -> int
snprintf                       mem|null size0 const_str mem|rdonly|null size0 -> int !gpl
snprintf@7.3                   mem|write|null size0 const_str mem|rdonly|null size0 -> int !gpl
sys_bpf                        any mem|rdonly size -> int
sys_bpf@6.6                    any mem|rdonly size -> int !sleep
btf_find_by_name_kind          mem|rdonly size any any -> int !sleep
sys_close                      any -> int
sys_close@6.6                  any -> int !sleep
timer_init                     timer map any -> int !gpl
timer_set_callback             timer func -> int !gpl
timer_start                    timer any any -> int !gpl
timer_cancel                   timer -> int !gpl
get_func_ip                    ctx -> int !gpl
get_attach_cookie              ctx -> int
task_pt_regs                   btf<task_struct> -> btf<pt_regs> !gpl
get_branch_snapshot            mem|uninit|write size0 -> int !gpl
trace_vprintk                  mem|rdonly size mem|rdonly|null size0 -> int !gpl
skc_to_unix_sock               sk -> btf<unix_sock>|null
kallsyms_lookup_name           mem size0 any mem<8>|aligned|uninit|write -> int
kallsyms_lookup_name@7.3       mem|rdonly size0 any mem<8>|aligned|uninit|write -> int
find_vma                       btf<task_struct> any func stack|null any -> int
loop                           any func stack|null any -> int
loop@6.12                      scalar func stack|null any -> int
loop@6.18                      any func stack|null any -> int
loop@7.3                       scalar func stack|null any -> int
strncmp                        mem size const_str -> int
strncmp@6.12                   mem|rdonly size const_str -> int
get_func_arg                   ctx any mem<8>|aligned|uninit|write -> int
get_func_ret                   ctx mem<8>|aligned|uninit|write -> int
get_func_arg_cnt               ctx -> int
get_retval                     -> int
set_retval                     any -> int
xdp_get_buff_len               ctx -> int
xdp_get_buff_len [traced]      btf<xdp_buff> -> int
xdp_load_bytes                 ctx any mem|uninit|write size -> int
xdp_store_bytes                ctx any mem|rdonly size -> int
copy_from_user_task            mem|uninit|write size0 any btf<task_struct> any -> int !gpl !sleep
skb_set_tstamp                 ctx any any -> int
ima_file_hash                  btf<file> mem|uninit|write size -> int !sleep !limited
kptr_xchg                      kptr_xchg_dest btf|release|null -> btf|null
map_lookup_percpu_elem         map key any -> value|null !pkt
skc_to_mptcp_sock              sock_common -> btf<mptcp_sock>|null
dynptr_from_mem                mem|uninit|write size0 any dynptr|local|uninit|write -> int
ringbuf_reserve_dynptr         map any any dynptr|ringbuf|uninit|write -> int
ringbuf_submit_dynptr          dynptr|ringbuf|release any -> void
ringbuf_discard_dynptr         dynptr|ringbuf|release any -> void
dynptr_read                    mem|uninit|write size0 dynptr any any -> int
dynptr_read@6.6                mem|uninit|write size0 dynptr|rdonly any any -> int
dynptr_read@7.3                mem|uninit|write size0 dynptr any any -> int
dynptr_write                   dynptr any mem|rdonly size0 any -> int
dynptr_write@6.6               dynptr|rdonly any mem|rdonly size0 any -> int
dynptr_write@7.3               dynptr any mem|rdonly size0 any -> int
dynptr_data                    dynptr any alloc_size0 -> mem|null
dynptr_data@6.6                dynptr|rdonly any alloc_size0 -> mem|null
dynptr_data@7.3                dynptr any alloc_size0 -> mem|null
tcp_raw_gen_syncookie_ipv4     mem<20> mem size -> int !gpl !pkt
tcp_raw_gen_syncookie_ipv4@6.6 mem<20> mem size0 -> int !gpl !pkt
tcp_raw_gen_syncookie_ipv4@7.3 mem<20>|rdonly mem|rdonly size0 -> int !gpl !pkt
tcp_raw_gen_syncookie_ipv6     mem<40> mem size -> int !gpl !pkt
tcp_raw_gen_syncookie_ipv6@6.6 mem<40> mem size0 -> int !gpl !pkt
tcp_raw_gen_syncookie_ipv6@7.3 mem<40>|rdonly mem|rdonly size0 -> int !gpl !pkt
tcp_raw_check_syncookie_ipv4   mem<20> mem<20> -> int !gpl !pkt
tcp_raw_check_syncookie_ipv4@7.3 mem<20>|rdonly mem<20>|rdonly -> int !gpl !pkt
tcp_raw_check_syncookie_ipv6   mem<40> mem<20> -> int !gpl !pkt
tcp_raw_check_syncookie_ipv6@7.3 mem<40>|rdonly mem<20>|rdonly -> int !gpl !pkt
ktime_get_tai_ns               -> int
user_ringbuf_drain             map func stack|null any -> int
cgrp_storage_get               map btf<cgroup>|null value|null any -> value|null
cgrp_storage_delete            map btf<cgroup>|null -> int
"""
