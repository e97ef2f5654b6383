; tracepoint:syscalls/sys_enter_getppid
    r1 = r10
    r1 += -16
    r2 = 16
    call bpf_get_current_comm
    r0 = *(u32 *)(r10 - 16)
    if r0 != 1835884904 goto leave
    r0 = *(u16 *)(r10 - 12)
    if r0 != 29285 goto leave
    r0 = *(u8 *)(r10 - 10)
    if r0 != 0 goto leave
    *(u32 *)(r10 - 8) = 0
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
