#include "bpf.h"

LICENSE("GPL");

u64 hits;

SEC("kprobe.multi/vfs_*")
int many(void *ctx)
{
	__sync_fetch_and_add(&hits, bpf_get_func_ip(ctx) != 0);
	return 0;
}

SEC("kretprobe.multi/vfs_*")
int many_returns(void *ctx)
{
	return 0;
}
