#include "bpf.h"

LICENSE("GPL");

__noinline int scale(int value)
{
	return value * 7;
}

__noinline int clamp(int value)
{
	return value > 100 ? scale(value) & 127 : value;
}

__hidden __noinline int hidden(int value)
{
	return value ^ 85;
}

__weak __noinline int maybe(int value)
{
	return value + 1;
}

SEC("xdp")
int entry(struct xdp_md *ctx)
{
	int size = ctx->data_end - ctx->data;

	return clamp(size) + hidden(size) + maybe(size) ? XDP_PASS : XDP_DROP;
}

SEC("xdp")
int other(struct xdp_md *ctx)
{
	return scale(ctx->rx_queue_index) ? XDP_PASS : XDP_DROP;
}
