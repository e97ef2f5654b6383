#include "typed.h"

LICENSE("Proprietary");

u64 seen;

SEC("tp_btf/sched_switch")
int walk(u64 *ctx)
{
	struct task_struct *next = (void *)ctx[2];

	seen = next->pid;
	return 0;
}

SEC("tp_btf/sched_switch")
int look(u64 *ctx)
{
	seen = ctx[3];
	return 0;
}

SEC("lsm/file_open")
int hook(u64 *ctx)
{
	return 0;
}
