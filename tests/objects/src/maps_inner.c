#include "bpf.h"

LICENSE("GPL");

struct inner {
	__uint(type, ARRAY);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, u64);
};

struct inner first SEC(".maps"), second SEC(".maps");

struct {
	__uint(type, ARRAY_OF_MAPS);
	__uint(max_entries, 8);
	__type(key, u32);
	__array(values, struct inner);
} outer SEC(".maps") = {
	.values = {[0] = &first, [3] = &second},
};

struct {
	__uint(type, HASH_OF_MAPS);
	__uint(max_entries, 8);
	__type(key, u32);
	__array(values, struct {
		__uint(type, HASH);
		__uint(max_entries, 2);
		__type(key, u64);
		__type(value, u64);
	});
} by_name SEC(".maps");

SEC("xdp")
int look(struct xdp_md *ctx)
{
	u32 index = 0;
	u64 wide = 1, *value;
	void *map = bpf_map_lookup_elem(&outer, &index);

	if (!map)
		return XDP_ABORTED;
	value = bpf_map_lookup_elem(map, &index);
	map = bpf_map_lookup_elem(&by_name, &index);
	if (map)
		bpf_map_update_elem(map, &wide, &wide, 0);
	return value ? XDP_PASS : XDP_DROP;
}
