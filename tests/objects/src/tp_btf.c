#include "bpf.h"

LICENSE("GPL");

struct task_struct {
	int pid;
} __core;

u32 next_pid;

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	struct task_struct *next = (void *)ctx[2];

	next_pid = next->pid;
	return 0;
}
