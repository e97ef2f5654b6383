; tracepoint:syscalls/sys_enter_getppid
    *(u64 *)(r10 - 24) = 0
    *(u64 *)(r10 - 16) = 0
    r1 = r10
    r1 += -24
    r2 = 16
    call bpf_get_current_comm
    r1 = map_fd:@ ll
    r2 = r10
    r2 += -24
    call bpf_map_lookup_elem
    if r0 == 0 goto missing1
    r5 = *(u64 *)(r0 + 0)
    r5 += 1
    *(u64 *)(r0 + 0) = r5
    goto leave
missing1:
    *(u64 *)(r10 - 8) = 1
    r1 = map_fd:@ ll
    r2 = r10
    r2 += -24
    r3 = r10
    r3 += -8
    r4 = 0
    call bpf_map_update_elem
    if w0 s>= 0 goto leave
    r0 = map_value:.lost + 8 ll
    r5 = 1
    lock *(u64 *)(r0 + 0) += r5
leave:
    r0 = 0
    exit
