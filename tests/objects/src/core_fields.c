#include "bpf.h"

LICENSE("GPL");

struct list_head {
	struct list_head *next, *prev;
} __core;

struct nsproxy {
	void *uts_ns;
} __core;

struct task_struct {
	int pid;
	int tgid;
	char comm[16];
	struct task_struct *real_parent;
	struct list_head children;
	struct nsproxy *nsproxy;
	u64 no_such_field;
} __core;

#define READ(to, from) bpf_probe_read_kernel(&(to), sizeof(to), &(from))

u64 result;

SEC("raw_tp/sched_switch")
int fields(u64 *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task(), *parent;
	int pid;
	char first;

	READ(parent, task->real_parent);
	READ(pid, parent->tgid);
	READ(first, task->comm[1]);
	result = pid + first;
	result += __builtin_preserve_field_info(task->comm, 1);
	result += __builtin_preserve_field_info(task->children.prev, 0);
	if (__builtin_preserve_field_info(task->no_such_field, 2))
		READ(result, task->no_such_field);
	result += __builtin_preserve_field_info(task->pid, 3);
	return 0;
}
