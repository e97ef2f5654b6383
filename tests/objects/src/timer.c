#include "bpf.h"

LICENSE("GPL");

struct bpf_timer {
	u64 opaque[2];
} __attribute__((aligned(8)));

struct value {
	struct bpf_timer timer;
	u64 fired;
};

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct value);
} timers SEC(".maps");

static int fired(void *map, u32 *key, struct value *value)
{
	value->fired++;
	return 0;
}

SEC("tc")
int start(struct __sk_buff *skb)
{
	u32 zero = 0;
	struct value *value = bpf_map_lookup_elem(&timers, &zero);

	if (!value)
		return 0;
	bpf_timer_init(&value->timer, &timers, 1);
	bpf_timer_set_callback(&value->timer, fired);
	bpf_timer_start(&value->timer, 1000, 0);
	return 0;
}
