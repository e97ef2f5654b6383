#include "bpf.h"

LICENSE("Dual MIT/GPL");

SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}
