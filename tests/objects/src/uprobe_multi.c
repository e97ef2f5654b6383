#include "bpf.h"

LICENSE("GPL");

/* One link reaches all functions of a library that a pattern matches. */
const volatile u32 pid;
u64 entered, returned;

SEC("uprobe.multi/libc.so.6:getpp*d")
int on_entry(void *ctx)
{
	if (bpf_get_current_pid_tgid() >> 32 == pid)
		__sync_fetch_and_add(&entered, 1);
	return 0;
}

SEC("uretprobe.multi/libc.so.6:getpp*d")
int on_return(void *ctx)
{
	if (bpf_get_current_pid_tgid() >> 32 == pid)
		__sync_fetch_and_add(&returned, 1);
	return 0;
}
