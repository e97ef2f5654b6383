/* flags: -mcpu=v3 */
#include "bpf.h"

LICENSE("GPL");

u64 wide;
u32 narrow;

SEC("socket")
int all(struct __sk_buff *skb)
{
	u64 a = __sync_fetch_and_add(&wide, 1), b = __sync_fetch_and_or(&wide, 2),
	    c = __sync_fetch_and_and(&wide, 0xff), d = __sync_fetch_and_xor(&wide, 3);
	u32 e = __sync_fetch_and_add(&narrow, 1), f = __sync_lock_test_and_set(&narrow, skb->len);

	__sync_val_compare_and_swap(&wide, a, b);
	return c + d + e + f;
}
