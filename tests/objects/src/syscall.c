#include "bpf.h"

LICENSE("GPL");

struct args {
	u64 a, b, sum;
};

SEC("syscall")
int add(struct args *ctx)
{
	ctx->sum = ctx->a + ctx->b;
	return 0;
}
