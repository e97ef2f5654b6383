#include "bpf.h"

LICENSE("GPL");

u64 calls, sum;

SEC("fentry/vfs_read")
int enter(u64 *ctx)
{
	__sync_fetch_and_add(&calls, 1);
	return 0;
}

SEC("fexit/vfs_read")
int leave(u64 *ctx)
{
	__sync_fetch_and_add(&sum, ctx[4]);
	return 0;
}

SEC("fmod_ret/security_file_open")
int modify(u64 *ctx)
{
	return (int)ctx[1];
}
