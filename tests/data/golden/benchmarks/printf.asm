; tracepoint:syscalls/sys_enter_getppid
    call bpf_get_current_pid_tgid
    r6 = r0
    r6 >>= 32
    r1 = map_fd:.events ll
    r2 = 24
    r3 = 0
    call bpf_ringbuf_reserve
    r7 = r0
    if r7 != 0 goto room3
    r0 = map_value:.lost ll
    r5 = 1
    lock *(u64 *)(r0 + 0) += r5
    goto leave
room3:
    *(u32 *)(r7 + 0) = 0
    r1 = r7
    r1 += 4
    r2 = 16
    call bpf_get_current_comm
    *(u32 *)(r7 + 20) = r6
    r1 = r7
    r2 = 0
    call bpf_ringbuf_submit
leave:
    r0 = 0
    exit
