#include "bpf.h"

LICENSE("GPL");

SEC("freplace/get_verdict")
int get_verdict(struct xdp_md *ctx)
{
	return XDP_DROP;
}
