; tracepoint:syscalls/sys_enter_getppid
    call bpf_ktime_get_ns
    *(u64 *)(r10 - 8) = r0
    call bpf_get_current_pid_tgid
    *(u32 *)(r10 - 16) = r0
    r1 = map_fd:start ll
    r2 = r10
    r2 += -16
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

; tracepoint:syscalls/sys_exit_getppid
    call bpf_get_current_pid_tgid
    *(u32 *)(r10 - 8) = r0
    r1 = map_fd:start ll
    r2 = r10
    r2 += -8
    call bpf_map_lookup_elem
    if r0 == 0 goto leave
    r6 = *(u64 *)(r0 + 0)
    if r6 == 0 goto leave
    call bpf_ktime_get_ns
    r7 = r0
    r7 -= r6
    *(u32 *)(r10 - 16) = 0
    r1 = map_fd:@ ll
    r2 = r10
    r2 += -16
    call bpf_map_lookup_elem
    if r0 == 0 goto counted6
    r5 = 0
    if r7 s>= 0 goto positive9
    r5 = 63
    goto bucket7
positive9:
    w4 = -1
    if r7 <= r4 goto small11
    r7 >>= 32
    r5 = 32
small11:
    if r7 <= 65535 goto small13
    r7 >>= 16
    r5 += 16
small13:
    if r7 <= 255 goto small15
    r7 >>= 8
    r5 += 8
small15:
    if r7 <= 15 goto small17
    r7 >>= 4
    r5 += 4
small17:
    if r7 <= 3 goto small19
    r7 >>= 2
    r5 += 2
small19:
    if r7 <= 1 goto bucket7
    r5 += 1
bucket7:
    r5 <<= 3
    r0 += r5
    r5 = *(u64 *)(r0 + 0)
    r5 += 1
    *(u64 *)(r0 + 0) = r5
counted6:
    r1 = map_fd:start ll
    r2 = r10
    r2 += -8
    call bpf_map_delete_elem
leave:
    r0 = 0
    exit
