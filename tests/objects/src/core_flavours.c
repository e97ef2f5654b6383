#include "bpf.h"

LICENSE("GPL");

/* The field was renamed: two views of one structure, of which the kernel has one. */
struct task_struct {
	unsigned int __state;
} __core;

struct task_struct___before_5_14 {
	long state;
} __core;

u64 result;

SEC("raw_tp/sched_switch")
int state(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[1];
	struct task_struct___before_5_14 *old = (void *)task;

	if (__builtin_preserve_field_info(task->__state, 2)) {
		u32 now = 0;

		bpf_probe_read_kernel(&now, sizeof(now), &task->__state);
		result = now;
	} else {
		long now = 0;

		bpf_probe_read_kernel(&now, sizeof(now), &old->state);
		result = now;
	}
	return 0;
}
