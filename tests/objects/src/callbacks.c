#include "bpf.h"

LICENSE("GPL");

struct {
	__uint(type, HASH);
	__uint(max_entries, 16);
	__type(key, u32);
	__type(value, u64);
} map SEC(".maps");

struct sums {
	u64 keys, values;
};

static long add_entry(void *map, u32 *key, u64 *value, struct sums *sums)
{
	sums->keys += *key;
	sums->values += *value;
	return sums->keys > 1000;
}

static long add_index(u32 index, struct sums *sums)
{
	sums->keys += index;
	return 0;
}

SEC("tp/sched/sched_switch")
int walk(void *ctx)
{
	struct sums sums = {};

	bpf_for_each_map_elem(&map, add_entry, &sums, 0);
	bpf_loop(100, add_index, &sums, 0);
	return sums.keys + sums.values != 0;
}
