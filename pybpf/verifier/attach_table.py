"""What kernels say of hooks, functions and iterators and their types do not, as tables.

RAW_TP: tracepoints whose arguments may be NULL, or an error that is no pointer: a digit for each
argument, the first at the right: 1 may be NULL, 2 may be an error. Source: raw_tp_null_args in
kernel/bpf/btf.c; sleepable_lsm_hooks and others in kernel/bpf/bpf_lsm.c; the iterators' lists
and the hooks of security modules are recorded from Linux 6.1, 6.12 and 7.3.
"""

from __future__ import annotations

from functools import cache

Version = tuple[int, int]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


DENIED = _names(
    """
    migrate_disable migrate_enable ___migrate_enable rcu_read_unlock_strict preempt_count_add
    preempt_count_sub __rcu_read_lock __rcu_read_unlock
    """
)
NO_RETURN = _names(
    """
    __ia32_sys_exit __ia32_sys_exit_group __kunit_abort kunit_try_catch_throw
    __module_put_and_kthread_exit __x64_sys_exit __x64_sys_exit_group do_exit do_group_exit
    kthread_complete_and_exit kthread_exit make_task_dead
    """
)
MODIFIABLE = _names(
    """
    bpf_fentry_test1 bpf_modify_return_test bpf_modify_return_test2 bpf_modify_return_test_tp
    update_socket_protocol
    """
)
"""Functions registered as such, of those whose results programs may change."""
SLEEPABLE_FUNCTIONS = frozenset({"bpf_fentry_test1"})
FAULTABLE = frozenset({"sys_enter", "sys_exit"})
"""Tracepoints whose programs may sleep, since Linux 7."""
MAY_D_PATH = _names(
    """
    security_file_permission security_inode_getattr security_file_open security_path_truncate
    vfs_truncate vfs_fallocate dentry_open vfs_getattr filp_close
    """
)
UNTRUSTED_HOOKS = _names(
    """
    bpf_map_free bpf_map_free_security bpf_prog_free bpf_prog_free_security file_alloc_security
    file_free_security sk_alloc_security sk_free_security task_free
    """
)
UNTRUSTED_HOOKS_SINCE_7 = _names("bdev_alloc_security bdev_free_security")
DISABLED_HOOKS = _names(
    """
    audit_rule_match getprocattr getselfattr inode_copy_up_xattr inode_getsecurity
    inode_listsecurity inode_need_killpriv ismaclabel key_getsecurity setprocattr vm_enough_memory
    xfrm_decode_session
    """
)
BOOL_HOOKS = frozenset({"audit_rule_known", "inode_xattr_skipcap", "xfrm_state_pol_flow_match"})
UNSUPPORTED_MEMBERS = frozenset({("tcp_congestion_ops", "get_info")})
KNOWN_OPERATIONS = frozenset({"tcp_congestion_ops"})

# Arguments of iterators that may be NULL: -: and that are not trusted, rdonly_buf and buf: memory
# whose size is not known.
_ITERATORS = """
bpf_link link?-
bpf_map map?
bpf_map_elem key?rdonly_buf value?buf
bpf_prog prog?-
bpf_sk_storage_map sk?- value?buf
cgroup cgroup?
dmabuf dmabuf?-
ipv6_route rt?-
kmem_cache s?
ksym ksym?-
netlink sk?-
sockmap key?rdonly_buf sk?-
task task?
task_file task?- file?-
task_vma task?- vma?-
tcp sk_common?
udp udp_sk?
unix unix_sk?-
"""


# Hooks of security modules whose programs may sleep; @release: since then.
_SLEEPABLE = """
bpf bpf_map bpf_map_alloc_security bpf_map_create bpf_map_free bpf_map_free_security bpf_prog
bpf_prog_load bpf_token_capable bpf_token_cmd bpf_token_create bpf_token_free
bprm_check_security bprm_committed_creds bprm_committing_creds bprm_creds_for_exec
bprm_creds_from_file capget capset cred_prepare current_getsecid_subj file_ioctl file_lock
file_open file_post_open file_receive inode_create inode_free_security inode_getattr
inode_getxattr inode_mknod inode_post_setxattr inode_readlink inode_rename inode_rmdir
inode_setattr inode_setxattr inode_symlink inode_unlink kernel_module_request kernel_read_file
kernfs_init_security key_free mmap_file netlink_send path_notify release_secctx
sb_alloc_security sb_eat_lsm_opts sb_kern_mount sb_mount sb_remount sb_set_mnt_opts
sb_show_options sb_statfs sb_umount settime socket_accept socket_bind socket_connect
socket_create socket_getpeername socket_getpeersec_dgram socket_getsockname socket_getsockopt
socket_listen socket_post_create socket_recvmsg socket_sendmsg socket_shutdown socket_socketpair
syslog task_alloc task_getsecid_obj task_prctl task_setscheduler userns_create
path_chmod@6.8 path_chown@6.8 path_link@6.8 path_mkdir@6.8 path_rename@6.8 path_rmdir@6.8
path_symlink@6.8 path_truncate@6.8 path_unlink@6.8 inode_post_removexattr@6.15
inode_removexattr@6.15 bdev_alloc_security@7.0 bdev_setintegrity@7.0
"""


@cache
def _sleepable() -> dict[str, Version]:
    found = {}
    for word in _SLEEPABLE.split():
        name, _, since = word.partition("@")
        major, _, minor = (since or "0.0").partition(".")
        found[name] = int(major), int(minor)
    return found


def may_sleep(hook: str, version: Version) -> bool:
    """Whether programs at a hook of security modules may sleep."""
    if hook == "inet_conn_established":
        return version < (6, 2)
    since = _sleepable().get(hook)
    return since is not None and version >= since


@cache
def _iterators() -> dict[str, dict[str, str]]:
    rows = (line.split() for line in _ITERATORS.strip().splitlines())
    return {
        name: {word.partition("?")[0]: word.partition("?")[2] for word in words}
        for name, *words in rows
    }


def iterator_argument(iterator: str, name: str) -> str | None:
    """Return what is particular of an iterator's argument that may be NULL; None for others.

    That is ``-`` for one that is not trusted, the kind of memory, or nothing.
    """
    return _iterators().get(iterator, {}).get(name)


def null_argument(tracepoint: str, index: int) -> int:
    """Return 1 where an argument of a tracepoint may be NULL, 2 where it may be an error, or 0."""
    return _null_masks().get(tracepoint, 0) >> 4 * index & 15


@cache
def _null_masks() -> dict[str, int]:
    found = {}
    for line in RAW_TP.strip().splitlines():
        mask, *names = line.split()
        found.update(dict.fromkeys(names, int(mask, 16)))
    return found


RAW_TP = """
1 afs_protocol_error amdgpu_vm_bo_map amdgpu_vm_bo_unmap cachefiles_io_error
1 cachefiles_mark_active cachefiles_mark_failed cachefiles_mark_inactive
1 cachefiles_ondemand_close cachefiles_ondemand_copen cachefiles_ondemand_cread
1 cachefiles_ondemand_fd_release cachefiles_ondemand_fd_write cachefiles_ondemand_open
1 cachefiles_ondemand_read cachefiles_prep_read cachefiles_rename cachefiles_unlink
1 cachefiles_vfs_error mm_collapse_huge_page_isolate mm_page_alloc mm_page_alloc_zone_locked
1 mm_page_pcpu_drain netfs_folioq nfs4_setup_sequence nfsd_dirent nfsd_file_cons_err
1 nfsd_file_insert_err rxrpc_client rxrpc_recvdata tmigr_update_events xfs_blockgc_flush_all
1 xfs_blockgc_start xfs_blockgc_stop xfs_blockgc_worker xfs_defer_add_item xfs_defer_cancel_item
1 xfs_defer_cancel_list xfs_defer_create_intent xfs_defer_finish_item xfs_defer_isolate_paused
1 xfs_defer_item_pause xfs_defer_item_unpause xfs_defer_pending_abort xfs_defer_pending_finish
1 xfs_defer_relog_intent xfs_fs_sync_fs xfs_inodegc_flush xfs_inodegc_push xfs_inodegc_queue
1 xfs_inodegc_start xfs_inodegc_stop xfs_inodegc_throttle xs_stream_read_data
10 afs_flock_ev afs_make_fs_call afs_make_fs_call1 afs_make_fs_call2 afs_make_fs_calli
10 break_lease_block break_lease_noblock break_lease_unblock coda_dec_pic_done coda_dec_pic_run
10 device_pm_callback_start ext4_mballoc_discard ext4_mballoc_free fcntl_setlk flock_lock_inode
10 folio_wait_writeback generic_delete_lease hugetlbfs_alloc_inode locks_remove_posix
10 mm_khugepaged_collapse_file mm_khugepaged_scan_file mm_khugepaged_scan_pmd neigh_update
10 netfs_failure posix_lock_inode rdev_set_coalesce rxrpc_resend rxrpc_tq sched_pi_setprio
10 spufs_context time_out_leases wiphy_work_cancel wiphy_work_flush wiphy_work_queue
10 wiphy_work_run writeback_dirty_folio xchk_nlinks_live_update xfs_blockgc_free_space
10 xfs_ioc_free_eofblocks xprt_get_cong xprt_put_cong xprt_release_cong xprt_reserve_cong
11 cfg80211_scan_done tcp_send_reset
100 amdtp_packet binder_transaction btree_path_free cfg80211_inform_bss_frame
100 cfg80211_report_wowlan_wakeup dpu_crtc_setup_mixer fib_table_lookup kvm_page_fault_enter
100 sched_stick_numa sched_swap_numa tcp_sendmsg_locked tegra_dma_tx_status xchk_metapath_lookup
100 xfs_btree_overlapped_query_range xfs_btree_updkeys
200 nfs4_inode_callback_event nfs4_inode_stateid_callback_event
201 cachefiles_lookup
1000 hfi1_sdma_progress iptfs_ingress_postq_event kfree_skb qdisc_dequeue xfs_iomap_alloc
1000 xfs_iomap_found
1001 nfsd_file_acquire
2000 mr_integ_alloc
10000 cfg80211_michael_mic_failure host1x_cdma_push_gather pnfs_mds_fallback_pg_get_mirror_count
10000 pnfs_mds_fallback_pg_init_read pnfs_mds_fallback_pg_init_write pnfs_mds_fallback_read_done
10000 pnfs_mds_fallback_read_pagelist pnfs_mds_fallback_write_done pnfs_mds_fallback_write_pagelist
10000 pnfs_update_layout xfs_map_blocks_alloc xfs_map_blocks_found
"""
