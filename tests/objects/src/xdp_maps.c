#include "bpf.h"

LICENSE("GPL");

struct {
	__uint(type, DEVMAP_HASH);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, u64);
} ports SEC(".maps");

struct {
	__uint(type, CPUMAP);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, u64);
} cpus SEC(".maps");

struct {
	__uint(type, XSKMAP);
	__uint(max_entries, 4);
	__uint(key_size, 4);
	__uint(value_size, 4);
} sockets SEC(".maps");

SEC("xdp")
int spread(struct xdp_md *ctx)
{
	u32 queue = ctx->rx_queue_index;

	if (bpf_map_lookup_elem(&sockets, &queue))
		return bpf_redirect_map(&sockets, queue, XDP_PASS);
	return queue & 1 ? bpf_redirect_map(&cpus, queue & 3, 0)
			 : bpf_redirect_map(&ports, ctx->ingress_ifindex, XDP_DROP);
}

SEC("xdp/devmap")
int last_look(struct xdp_md *ctx)
{
	return XDP_PASS;
}

SEC("xdp/cpumap")
int other_cpu(struct xdp_md *ctx)
{
	return XDP_PASS;
}
