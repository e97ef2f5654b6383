#include "bpf.h"

LICENSE("GPL");

struct args {
	u64 args[0];
};

u64 last;

SEC("raw_tp/sys_enter")
int on_enter(struct args *ctx)
{
	last = ctx->args[1];
	return 0;
}

SEC("raw_tracepoint/sys_exit")
int on_exit(struct args *ctx)
{
	last = ctx->args[1];
	return 0;
}
