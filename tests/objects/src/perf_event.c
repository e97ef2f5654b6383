#include "bpf.h"

LICENSE("GPL");

struct {
	__uint(type, STACK_TRACE);
	__uint(max_entries, 128);
	__uint(key_size, 4);
	__uint(value_size, 127 * 8);
} stacks SEC(".maps");

struct {
	__uint(type, PERCPU_HASH);
	__uint(max_entries, 128);
	__type(key, u32);
	__type(value, u64);
} counts SEC(".maps");

SEC("perf_event")
int sample(void *ctx)
{
	u32 id = bpf_get_stackid(ctx, &stacks, 0);
	u64 one = 1, *count = bpf_map_lookup_elem(&counts, &id);

	if (count)
		*count += 1;
	else
		bpf_map_update_elem(&counts, &id, &one, 1);
	return 0;
}
