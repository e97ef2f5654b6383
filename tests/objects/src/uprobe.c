#include "bpf.h"

LICENSE("GPL");

u64 calls;

SEC("uprobe//bin/sh:main")
int on_main(void *ctx)
{
	__sync_fetch_and_add(&calls, 1);
	return 0;
}

SEC("uretprobe")
int on_return(void *ctx)
{
	return 0;
}

SEC("uprobe.s")
int may_sleep(void *ctx)
{
	return 0;
}
