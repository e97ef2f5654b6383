#include "bpf.h"

LICENSE("GPL");

/* Every size, sign and shift, and the numbers that want a lddw. */
SEC("socket")
int everything(struct __sk_buff *skb)
{
	u64 a = skb->len | (u64)skb->hash << 32, b = skb->mark | 1;
	s64 c = (s64)a >> (b & 63);
	s32 d = (s32)a >> (b & 31);
	u64 e = a / b + a % b + (u32)a / (u32)b + (u32)a % (u32)b;

	e ^= htons((u16)a) + htonl((u32)b) + __builtin_bswap64(a);
	e += (s8)a + (s16)b + (s32)e;
	e *= 0x123456789abcdef0ULL;
	return (e << (a & 63)) - c + d + (a < b) + (c < d) + ((s64)a >= -1);
}
