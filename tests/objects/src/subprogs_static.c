#include "bpf.h"

LICENSE("GPL");

static __noinline int add(int a, int b)
{
	return a + b * 3;
}

static __noinline int twice(struct __sk_buff *skb, int a)
{
	return add(skb->len, a) + add(a, 1);
}

SEC("socket")
int one(struct __sk_buff *skb)
{
	return twice(skb, 5);
}

SEC("tc")
int two(struct __sk_buff *skb)
{
	return add(skb->len, 2) & 1;
}
