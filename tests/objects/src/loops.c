#include "bpf.h"

LICENSE("GPL");

SEC("socket")
int bounded(struct __sk_buff *skb)
{
	u32 i, sum = 0, n = skb->len & 31;
	u8 bytes[32] = {};

	bpf_skb_load_bytes(skb, 0, bytes, sizeof(bytes));
	for (i = 0; i < n; i++)
		sum = sum * 31 + bytes[i];
	return sum;
}

SEC("xdp")
int over_packet(struct xdp_md *ctx)
{
	u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	u32 sum = 0;
	int i;

#pragma clang loop unroll(disable)
	for (i = 0; i < 64; i++) {
		if (data + i + 1 > end)
			break;
		sum += data[i];
	}
	return sum & 1 ? XDP_PASS : XDP_DROP;
}
