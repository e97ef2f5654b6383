#include "bpf.h"

LICENSE("GPL");

struct bpf_spin_lock {
	u32 val;
};

struct value {
	struct bpf_spin_lock lock;
	u32 count;
	u64 sum;
};

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct value);
} locked SEC(".maps");

SEC("tc")
int together(struct __sk_buff *skb)
{
	u32 zero = 0;
	struct value *value = bpf_map_lookup_elem(&locked, &zero);

	if (!value)
		return 0;
	bpf_spin_lock(&value->lock);
	value->count++;
	value->sum += skb->len;
	bpf_spin_unlock(&value->lock);
	return 0;
}
