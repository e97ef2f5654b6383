; tracepoint:syscalls/sys_enter_getppid
    call bpf_get_current_pid_tgid
    r6 = r0
    r6 >>= 32
    *(u32 *)(r10 - 8) = 0
    r1 = map_fd:@ ll
    r2 = r10
    r2 += -8
    call bpf_map_lookup_elem
    if r0 == 0 goto leave
    r5 = *(u64 *)(r0 + 0)
    r5 += r6
    *(u64 *)(r0 + 0) = r5
    *(u64 *)(r0 + 8) = 1
leave:
    r0 = 0
    exit
