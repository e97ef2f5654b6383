; tracepoint:syscalls/sys_enter_getppid
    r1 = r10
    r1 += -16
    r2 = 16
    call bpf_get_current_comm
    r1 = map_fd:@ ll
    r2 = r10
    r2 += -16
    call bpf_map_lookup_elem
    if r0 == 0 goto missing1
    r5 = *(u64 *)(r0 + 0)
    r5 += 1
    *(u64 *)(r0 + 0) = r5
    goto leave
missing1:
    r3 = map_value:.lost + 16 ll
    r1 = map_fd:@ ll
    r2 = r10
    r2 += -16
    r4 = 0
    call bpf_map_update_elem
    w0 >>= 31
    r5 = map_value:.lost + 8 ll
    lock *(u64 *)(r5 + 0) += r0
leave:
    r0 = 0
    exit
