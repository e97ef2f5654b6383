#include "bpf.h"

LICENSE("GPL");

/* One program for each way to attach to functions of the kernel. */
const volatile u32 pid;
u64 probes, returns, many, many_returns, calls, entries, exits, opened;

#define COUNT(variable) \
	do { \
		if (bpf_get_current_pid_tgid() >> 32 == pid) \
			__sync_fetch_and_add(&variable, 1); \
	} while (0)

SEC("kprobe/__x64_sys_getpgid")
int on_call(void *ctx)
{
	COUNT(probes);
	return 0;
}

SEC("kretprobe/__x64_sys_getpgid")
int on_return(void *ctx)
{
	COUNT(returns);
	return 0;
}

SEC("kprobe.multi/__x64_sys_getpg*d")
int on_many(void *ctx)
{
	COUNT(many);
	return 0;
}

SEC("kretprobe.multi/__x64_sys_getpg*d")
int on_many_returns(void *ctx)
{
	COUNT(many_returns);
	return 0;
}

SEC("ksyscall/getpgid")
int on_syscall(void *ctx)
{
	COUNT(calls);
	return 0;
}

SEC("fentry/__x64_sys_getpgid")
int on_entry(u64 *ctx)
{
	COUNT(entries);
	return 0;
}

SEC("fexit/__x64_sys_getpgid")
int on_exit(u64 *ctx)
{
	COUNT(exits);
	return 0;
}

SEC("lsm/file_open")
int on_open(u64 *ctx)
{
	COUNT(opened);
	return 0;
}
