; tracepoint:syscalls/sys_enter_getppid
    r2 = map_fd:.stacks ll
    r3 = 0
    call bpf_get_stackid
    w0 += 128
    *(u32 *)(r10 - 8) = r0
    r1 = map_fd:@ ll
    r2 = r10
    r2 += -8
    call bpf_map_lookup_elem
    if r0 == 0 goto leave
    r5 = *(u64 *)(r0 + 0)
    r5 += 1
    *(u64 *)(r0 + 0) = r5
leave:
    r0 = 0
    exit
