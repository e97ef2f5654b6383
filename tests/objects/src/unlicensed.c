#include "bpf.h"

/* No licence, and a helper that wants the GPL: the kernel refuses it. */
SEC("tp/sched/sched_switch")
int forbidden(void *ctx)
{
	u64 task = bpf_get_current_task();
	u64 value;

	return bpf_probe_read_kernel(&value, sizeof(value), (void *)task);
}
