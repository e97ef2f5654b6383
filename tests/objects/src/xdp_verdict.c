#include "bpf.h"

LICENSE("GPL");

/* A global function, which an freplace program may take the place of. */
__noinline int get_verdict(struct xdp_md *ctx)
{
	return ctx->data_end > ctx->data ? XDP_PASS : XDP_ABORTED;
}

SEC("xdp")
int judge(struct xdp_md *ctx)
{
	return get_verdict(ctx);
}
