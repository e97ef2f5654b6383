#include "bpf.h"

LICENSE("GPL");

/* Keys, values and variables of all kinds of types. */
enum state { IDLE, BUSY = 5, GONE = -1 };

struct place {
	u32 cpu;
	char name[8];
};

struct record {
	u64 count;
	s16 low;
	bool ready;
	enum state state;
	u32 small : 3, signed_one : 5;
	s32 negative : 6;
	union {
		u32 whole;
		u8 parts[4];
	};
	struct place places[2];
	void *pointer;
	char text[10];
};

struct {
	__uint(type, HASH);
	__uint(max_entries, 8);
	__type(key, struct place);
	__type(value, struct record);
} records SEC(".maps");

struct {
	__uint(type, PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, s64);
} per_cpu SEC(".maps");

struct {
	__uint(type, HASH);
	__uint(max_entries, 4);
	__type(key, enum state);
	__type(value, u32[3]);
} by_state SEC(".maps");

struct {
	__uint(type, QUEUE);
	__uint(max_entries, 4);
	__type(value, u32);
} queue SEC(".maps");

struct {
	__uint(type, BLOOM_FILTER);
	__uint(max_entries, 100);
	__type(value, u32);
} filter SEC(".maps");

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 2);
	__uint(key_size, 4);
	__uint(value_size, 6);
} untyped SEC(".maps");

struct {
	__uint(type, RINGBUF);
	__uint(max_entries, 5000);
} ring SEC(".maps");

const volatile u32 limit = 100;
const volatile char label[8] = "first";
struct record initial = {.count = 7, .state = BUSY, .text = "hello"};
u64 counter;
static volatile s32 hidden = -3;

SEC("socket")
int fill(struct __sk_buff *skb)
{
	struct place key = {skb->len, "key"};
	struct record value = {.count = counter, .low = -2, .ready = true, .state = GONE,
			       .small = 5, .signed_one = 9, .negative = -7, .whole = 0x01020304,
			       .text = "text"};
	u32 zero = 0, one = 1;
	s64 *slot = bpf_map_lookup_elem(&per_cpu, &one);

	value.places[1].cpu = limit;
	if (slot)
		*slot -= 1;
	counter += initial.count;
	hidden--;
	bpf_map_update_elem(&records, &key, &value, 0);
	bpf_map_lookup_elem(&by_state, &zero);
	bpf_map_push_elem(&queue, &one, 0);
	bpf_map_peek_elem(&filter, &one);
	bpf_map_lookup_elem(&untyped, &zero);
	bpf_ringbuf_output(&ring, &key, sizeof(key), 0);
	return label[0];
}
