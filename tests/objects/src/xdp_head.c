#include "bpf.h"

LICENSE("GPL");

/* Pointers to the packet are worth nothing after its head has moved, and are made again. */
SEC("xdp")
int strip(struct xdp_md *ctx)
{
	struct ethhdr *eth = (void *)(long)ctx->data, old;

	if ((void *)(eth + 1) + 4 > (void *)(long)ctx->data_end)
		return XDP_PASS;
	old = *eth;
	if (bpf_xdp_adjust_head(ctx, 4))
		return XDP_DROP;
	eth = (void *)(long)ctx->data;
	if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	*eth = old;
	return XDP_TX;
}
