/* flags: -g0 */
#include "bpf.h"

LICENSE("GPL");

struct bpf_map_def {
	u32 type, key_size, value_size, max_entries, map_flags;
};

struct bpf_map_def SEC("maps") counts = {ARRAY, 4, 8, 2};

u32 seen;

static __noinline int next(int value)
{
	return value + 1;
}

SEC("socket")
int without_types(struct __sk_buff *skb)
{
	u32 zero = 0;

	seen += next(skb->len);
	return bpf_map_lookup_elem(&counts, &zero) != NULL;
}
