#include "bpf.h"

LICENSE("GPL");

struct bpf_sock_ops {
	u32 op, args[4], family, remote_ip4, local_ip4;
};

SEC("sockops")
int on_op(struct bpf_sock_ops *ctx)
{
	ctx->args[0] = ctx->op == 4 ? 10 : ~0u;
	return 1;
}
