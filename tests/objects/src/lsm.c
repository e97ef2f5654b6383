#include "bpf.h"

LICENSE("GPL");

SEC("lsm/file_open")
int file_open(u64 *ctx)
{
	return 0;
}

SEC("lsm.s/file_open")
int file_open_slowly(u64 *ctx)
{
	return (int)ctx[1];
}
