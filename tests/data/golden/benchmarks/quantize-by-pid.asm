; tracepoint:syscalls/sys_enter_getppid
    call bpf_get_current_pid_tgid
    r6 = r0
    r6 >>= 32
    *(u32 *)(r10 - 8) = r6
    r1 = map_fd:@ ll
    r2 = r10
    r2 += -8
    call bpf_map_lookup_elem
    if r0 != 0 goto found2
    r3 = map_value:.zero ll
    r1 = map_fd:@ ll
    r2 = r10
    r2 += -8
    r4 = 0
    call bpf_map_update_elem
    r1 = map_fd:@ ll
    r2 = r10
    r2 += -8
    call bpf_map_lookup_elem
    if r0 == 0 goto full4
found2:
    r5 = 0
    if r6 <= 65535 goto small8
    r6 >>= 16
    r5 = 16
small8:
    if r6 <= 255 goto small10
    r6 >>= 8
    r5 += 8
small10:
    if r6 <= 15 goto small12
    r6 >>= 4
    r5 += 4
small12:
    if r6 <= 3 goto small14
    r6 >>= 2
    r5 += 2
small14:
    if r6 <= 1 goto bucket6
    r5 += 1
bucket6:
    r5 <<= 3
    r0 += r5
    r5 = *(u64 *)(r0 + 0)
    r5 += 1
    *(u64 *)(r0 + 0) = r5
    goto leave
full4:
    r0 = map_value:.lost + 8 ll
    r5 = 1
    lock *(u64 *)(r0 + 0) += r5
leave:
    r0 = 0
    exit
