#include "bpf.h"

LICENSE("GPL");

/* Bytes of the packet by the old instructions, which the kernel still takes. */
unsigned long long load_byte(void *skb, unsigned long long at) asm("llvm.bpf.load.byte");
unsigned long long load_half(void *skb, unsigned long long at) asm("llvm.bpf.load.half");

struct {
	__uint(type, ARRAY);
	__type(key, u32);
	__type(value, u64);
	__uint(max_entries, 256);
} protocols SEC(".maps");

SEC("socket")
int count_protocols(struct __sk_buff *skb)
{
	u32 protocol;
	u64 *count;

	if (load_half(skb, 12) != ETH_P_IP)
		return 0;
	protocol = load_byte(skb, 14 + 9);
	count = bpf_map_lookup_elem(&protocols, &protocol);
	if (count)
		__sync_fetch_and_add(count, skb->len);
	return skb->len;
}
