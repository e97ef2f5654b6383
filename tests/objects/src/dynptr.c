#include "bpf.h"

LICENSE("GPL");

struct bpf_dynptr {
	u64 opaque[2];
} __attribute__((aligned(8)));

struct {
	__uint(type, RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

SEC("tp/sched/sched_process_exit")
int write(void *ctx)
{
	struct bpf_dynptr place;
	u64 now = bpf_ktime_get_ns();

	bpf_ringbuf_reserve_dynptr(&events, 64, 0, &place);
	bpf_dynptr_write(&place, 8, &now, sizeof(now), 0);
	bpf_ringbuf_submit_dynptr(&place, 0);
	return 0;
}
