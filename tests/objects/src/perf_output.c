#include "bpf.h"

LICENSE("GPL");

struct {
	__uint(type, PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} events SEC(".maps");

SEC("tp/sched/sched_process_exit")
int on_exit(void *ctx)
{
	struct {
		u64 time;
		u32 pid, cpu;
	} event = {
		.time = bpf_ktime_get_ns(),
		.pid = bpf_get_current_pid_tgid(),
		.cpu = bpf_get_smp_processor_id(),
	};

	bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &event, sizeof(event));
	return 0;
}
