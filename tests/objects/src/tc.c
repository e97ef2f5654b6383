#include "bpf.h"

LICENSE("GPL");

SEC("tc")
int mark(struct __sk_buff *skb)
{
	skb->mark = 42;
	skb->cb[0] = skb->len;
	skb->tc_classid = skb->cb[0] & 7;
	return 0;
}

SEC("classifier")
int rewrite(struct __sk_buff *skb)
{
	struct iphdr *ip = (void *)(long)skb->data + sizeof(struct ethhdr);
	u32 to;

	if ((void *)(ip + 1) > (void *)(long)skb->data_end) {
		if (bpf_skb_pull_data(skb, sizeof(struct ethhdr) + sizeof(*ip)))
			return 2;
		ip = (void *)(long)skb->data + sizeof(struct ethhdr);
		if ((void *)(ip + 1) > (void *)(long)skb->data_end)
			return 2;
	}
	to = htonl(0x7f000001);
	bpf_l3_csum_replace(skb, 14 + 10, ip->to, to, 4);
	bpf_skb_store_bytes(skb, 14 + 16, &to, sizeof(to), 0);
	return 0;
}

SEC("action")
int act(struct __sk_buff *skb)
{
	return skb->protocol == htons(ETH_P_IP) ? 0 : 2;
}
