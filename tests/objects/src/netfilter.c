#include "bpf.h"

LICENSE("GPL");

SEC("netfilter")
int hook(void *ctx)
{
	return 1;
}
