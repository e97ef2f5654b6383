/* flags: -mcpu=v1 */
#include "bpf.h"

LICENSE("GPL");

SEC("socket")
int oldest(struct __sk_buff *skb)
{
	s32 a = skb->len - 100;

	return a < 0 ? skb->mark >> 3 : a <= 20;
}
