#include "bpf.h"

LICENSE("GPL");

SEC(".data.counts") u64 counts[2] = {1, 2};
SEC(".rodata.limits") const volatile u32 limits[2] = {10, 20};

SEC("socket")
int custom(struct __sk_buff *skb)
{
	counts[1] += limits[skb->len & 1];
	return counts[0];
}
