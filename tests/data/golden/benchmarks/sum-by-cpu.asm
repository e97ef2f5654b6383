; tracepoint:syscalls/sys_enter_getppid
    call bpf_get_current_pid_tgid
    r6 = r0
    r6 >>= 32
    call bpf_get_smp_processor_id
    *(u32 *)(r10 - 8) = r0
    r1 = map_fd:@ ll
    r2 = r10
    r2 += -8
    call bpf_map_lookup_elem
    if r0 == 0 goto missing1
    r5 = *(u64 *)(r0 + 0)
    r5 += r6
    *(u64 *)(r0 + 0) = r5
    goto leave
missing1:
    *(u64 *)(r10 - 16) = r6
    r1 = map_fd:@ ll
    r2 = r10
    r2 += -8
    r3 = r10
    r3 += -16
    r4 = 0
    call bpf_map_update_elem
    if w0 s>= 0 goto leave
    r0 = map_value:.lost + 8 ll
    r5 = 1
    lock *(u64 *)(r0 + 0) += r5
leave:
    r0 = 0
    exit
