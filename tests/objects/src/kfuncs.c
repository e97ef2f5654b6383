#include "bpf.h"

LICENSE("GPL");

struct task_struct;
extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *task) __ksym;
extern void bpf_not_there(void) __ksym __weak;

u32 found;

SEC("tp_btf/task_newtask")
int use(u64 *ctx)
{
	struct task_struct *task = bpf_task_from_pid(1);

	if (!task)
		return 0;
	bpf_task_release(task);
	found++;
	if (bpf_not_there)
		bpf_not_there();
	return 0;
}
