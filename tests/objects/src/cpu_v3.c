/* flags: -mcpu=v3 */
#include "bpf.h"

LICENSE("GPL");

SEC("socket")
int with_32_bit_jumps(struct __sk_buff *skb)
{
	u32 a = skb->len;

	return a < skb->mark ? a >> 2 : a * skb->mark;
}
