#include "bpf.h"

LICENSE("GPL");

/* As maps were declared before there was BTF. */
struct bpf_map_def {
	u32 type, key_size, value_size, max_entries, map_flags;
};

struct bpf_map_def SEC("maps") counts = {HASH, 4, 8, 100, 1};
struct bpf_map_def SEC("maps") slots = {ARRAY, 4, 8, 10};

u32 _version SEC("version") = 0x50a00;

SEC("socket")
int count(struct __sk_buff *skb)
{
	u32 key = skb->protocol, zero = 0;
	u64 one = 1, *slot = bpf_map_lookup_elem(&slots, &zero);

	bpf_map_update_elem(&counts, &key, &one, 0);
	return slot ? *slot : 0;
}
