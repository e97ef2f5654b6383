#include "bpf.h"

LICENSE("GPL");

SEC("xdp.frags")
int with_frags(struct xdp_md *ctx)
{
	return ctx->ingress_ifindex == 1 ? XDP_PASS : XDP_DROP;
}

SEC("xdp.frags/devmap")
int on_egress(struct xdp_md *ctx)
{
	return ctx->egress_ifindex ? XDP_PASS : XDP_DROP;
}
