#include "bpf.h"

LICENSE("GPL");

int first(struct __sk_buff *skb);
int second(struct __sk_buff *skb);

struct {
	__uint(type, PROG_ARRAY);
	__uint(max_entries, 4);
	__uint(key_size, 4);
	__array(values, int(void *));
} jumps SEC(".maps") = {
	.values = {[0] = (void *)&first, [2] = (void *)&second},
};

SEC("tc")
int entry(struct __sk_buff *skb)
{
	bpf_tail_call(skb, &jumps, skb->len & 3);
	return 0;
}

SEC("tc")
int first(struct __sk_buff *skb)
{
	return 1;
}

SEC("tc")
int second(struct __sk_buff *skb)
{
	bpf_tail_call(skb, &jumps, 0);
	return 2;
}
