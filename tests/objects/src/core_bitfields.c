#include "bpf.h"

LICENSE("GPL");

struct sk_buff {
	u8 cloned : 1;
	u8 nohdr : 1;
	u8 pkt_type : 3;
	u16 queue_mapping;
} __core;

#define INFO(field, kind) __builtin_preserve_field_info(field, kind)

u64 result;

SEC("raw_tp/netif_receive_skb")
int bits(u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	u64 value = 0;
	u32 size = INFO(skb->pkt_type, 1);

	bpf_probe_read_kernel(&value, size & 7, (void *)skb + INFO(skb->pkt_type, 0));
	value <<= INFO(skb->pkt_type, 4);
	result = INFO(skb->pkt_type, 3) ? (u64)((s64)value >> INFO(skb->pkt_type, 5))
					: value >> INFO(skb->pkt_type, 5);
	return 0;
}
