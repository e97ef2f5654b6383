#include "bpf.h"

LICENSE("GPL");

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64[4]);
} map SEC(".maps");

/* The pointer is not checked: the kernel refuses it. */
SEC("socket")
int unchecked(struct __sk_buff *skb)
{
	u32 zero = 0;
	u64 *value = bpf_map_lookup_elem(&map, &zero);

	return value[skb->len & 3];
}
