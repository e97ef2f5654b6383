#include "bpf.h"

LICENSE("GPL");

struct key {
	u32 prefix;
	u8 address[4];
};

struct value {
	u64 packets, bytes;
	char name[16];
};

#define MAP(name, kind, key_type, value_type, entries, flags) \
	struct { \
		__uint(type, kind); \
		__uint(max_entries, entries); \
		__uint(map_flags, flags); \
		__type(key, key_type); \
		__type(value, value_type); \
	} name SEC(".maps")

MAP(hash, HASH, u32, struct value, 10, 1);
MAP(array, ARRAY, u32, struct value, 10, 0);
MAP(per_cpu_hash, PERCPU_HASH, u64, u64, 10, 0);
MAP(per_cpu_array, PERCPU_ARRAY, u32, u64, 10, 0);
MAP(lru, LRU_HASH, u32, u32, 10, 0);
MAP(lru_per_cpu, LRU_PERCPU_HASH, u32, u32, 10, 0);
MAP(routes, LPM_TRIE, struct key, u32, 10, 1);
MAP(a_map_with_a_long_name, HASH, u32, u32, 1, 0);

struct {
	__uint(type, QUEUE);
	__uint(max_entries, 10);
	__type(value, u64);
} queue SEC(".maps");

struct {
	__uint(type, STACK);
	__uint(max_entries, 10);
	__uint(key_size, 0);
	__uint(value_size, 8);
} stack SEC(".maps");

struct {
	__uint(type, CGROUP_ARRAY);
	__uint(max_entries, 2);
	__uint(key_size, 4);
	__uint(value_size, 4);
} cgroups SEC(".maps");

SEC("tc")
int use_all(struct __sk_buff *skb)
{
	u32 zero = 0;
	u64 wide = 0, popped = 0;
	struct key key = {32, {127, 0, 0, 1}};
	struct value *value = bpf_map_lookup_elem(&hash, &zero);

	if (value)
		value->packets++;
	value = bpf_map_lookup_elem(&array, &zero);
	if (value)
		value->bytes += skb->len;
	bpf_map_lookup_elem(&per_cpu_hash, &wide);
	bpf_map_lookup_elem(&per_cpu_array, &zero);
	bpf_map_lookup_elem(&lru, &zero);
	bpf_map_lookup_elem(&lru_per_cpu, &zero);
	bpf_map_lookup_elem(&routes, &key);
	bpf_map_delete_elem(&a_map_with_a_long_name, &zero);
	bpf_map_push_elem(&queue, &wide, 0);
	bpf_map_pop_elem(&stack, &popped);
	bpf_map_peek_elem(&queue, &popped);
	return popped;
}
