#include "bpf.h"

LICENSE("GPL");

struct flow {
	u32 from, to;
	u16 from_port, to_port;
};

struct {
	__uint(type, LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct flow);
	__type(value, u64);
} flows SEC(".maps");

SEC("xdp")
int count_flows(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = data + sizeof(*eth);
	struct tcphdr *tcp;
	struct flow flow = {};
	u64 one = 1, *count;
	u32 size;

	if ((void *)(ip + 1) > end || eth->proto != htons(ETH_P_IP) || ip->protocol != 6)
		return XDP_PASS;
	size = (ip->ihl_version & 15) * 4;
	if (size < sizeof(*ip))
		return XDP_DROP;
	tcp = (void *)ip + size;
	if ((void *)(tcp + 1) > end)
		return XDP_DROP;
	flow.from = ip->from;
	flow.to = ip->to;
	flow.from_port = tcp->from;
	flow.to_port = tcp->to;
	count = bpf_map_lookup_elem(&flows, &flow);
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&flows, &flow, &one, 0);
	return XDP_PASS;
}
