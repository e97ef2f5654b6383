#include "bpf.h"

LICENSE("GPL");

SEC("flow_dissector")
int dissect(struct __sk_buff *skb)
{
	return 2;
}
