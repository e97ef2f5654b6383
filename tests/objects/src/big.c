#include "bpf.h"

LICENSE("GPL");

/* Long enough that distances and tables matter. */
#define STEP(n) x = x * 33 + (x >> 7) + (n) * 0x9e3779b9; if (x & (1 << ((n) & 15))) x ^= skb->mark;
#define TEN(n) STEP(n) STEP(n + 1) STEP(n + 2) STEP(n + 3) STEP(n + 4) STEP(n + 5) STEP(n + 6) \
	STEP(n + 7) STEP(n + 8) STEP(n + 9)

SEC("socket")
int long_way(struct __sk_buff *skb)
{
	u32 x = skb->len;

	TEN(0) TEN(10) TEN(20) TEN(30) TEN(40)
	return x;
}
