#include "bpf.h"

LICENSE("GPL");

/* A map that is pinned by its name: the next one that is loaded finds it. */
struct {
	__uint(type, ARRAY);
	__uint(max_entries, 4);
	__uint(pinning, 1);
	__type(key, u32);
	__type(value, u64);
} kept SEC(".maps");

u64 runs;

SEC("socket")
int count(struct __sk_buff *skb)
{
	u32 zero = 0;
	u64 *value = bpf_map_lookup_elem(&kept, &zero);

	runs++;
	if (value)
		(*value)++;
	return 0;
}
