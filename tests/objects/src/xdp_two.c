#include "bpf.h"

LICENSE("GPL");

/* An interface takes one of them. */
SEC("xdp")
int first(struct xdp_md *ctx)
{
	return XDP_PASS;
}

SEC("xdp")
int second(struct xdp_md *ctx)
{
	return XDP_PASS;
}
