#include "bpf.h"

LICENSE("GPL");

struct meta {
	void *seq;
	u64 session, number;
} __core;

struct bpf_iter__task {
	union {
		struct bpf_iter_meta *meta;
	};
	union {
		struct task_struct *task;
	};
} __core;

struct bpf_iter_meta {
	void *seq;
} __core;

struct task_struct {
	int pid;
} __core;

SEC("iter/task")
int each_task(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (task)
		bpf_seq_write(ctx->meta->seq, &task->pid, sizeof(task->pid));
	return 0;
}
