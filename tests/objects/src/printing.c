#include "bpf.h"

LICENSE("GPL");

/* What bpf_printk() writes goes to trace_pipe. */
const volatile u32 pid;

SEC("tp/syscalls/sys_enter_getppid")
int hello(void *ctx)
{
	static const char text[] = "hello from %d\n";

	if (bpf_get_current_pid_tgid() >> 32 == pid)
		bpf_trace_printk(text, sizeof(text), pid);
	return 0;
}
