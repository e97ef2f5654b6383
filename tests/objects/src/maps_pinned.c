#include "bpf.h"

LICENSE("GPL");

struct {
	__uint(type, HASH);
	__uint(max_entries, 4);
	__uint(pinning, 0);
	__type(key, u32);
	__type(value, u32);
} not_pinned SEC(".maps");

struct {
	__uint(type, RINGBUF);
	__uint(max_entries, 4096);
	__uint(numa_node, 0);
	__uint(map_flags, 4);
} on_node SEC(".maps");

struct {
	__uint(type, BLOOM_FILTER);
	__uint(max_entries, 100);
	__uint(map_extra, 3);
	__type(value, u32);
} seen SEC(".maps");

SEC("tp/sched/sched_switch")
int on_switch(void *ctx)
{
	u32 pid = bpf_get_current_pid_tgid();

	if (bpf_map_peek_elem(&seen, &pid) == 0)
		return 0;
	bpf_map_push_elem(&seen, &pid, 0);
	bpf_map_update_elem(&not_pinned, &pid, &pid, 0);
	bpf_ringbuf_output(&on_node, &pid, sizeof(pid), 0);
	return 0;
}
