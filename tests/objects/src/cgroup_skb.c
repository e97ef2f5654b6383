#include "bpf.h"

LICENSE("GPL");

u64 received, sent;

SEC("cgroup_skb/ingress")
int in(struct __sk_buff *skb)
{
	__sync_fetch_and_add(&received, skb->len);
	return 1;
}

SEC("cgroup_skb/egress")
int out(struct __sk_buff *skb)
{
	__sync_fetch_and_add(&sent, skb->len);
	return 1;
}

SEC("cgroup/skb")
int either(struct __sk_buff *skb)
{
	return skb->family == 2;
}
