#include "bpf.h"

LICENSE("GPL");

const volatile u32 limit = 100;
u64 zeroed[4];
u32 seed = 0x12345678;
static u32 hidden_seed = 7;
struct {
	u8 a;
	u64 b;
} pair = {1, 2};
const char words[3][8] = {"one", "two", "three"};

SEC("socket")
int mix(struct __sk_buff *skb)
{
	u32 index = skb->len % 3;

	if (skb->len > limit)
		return 0;
	zeroed[skb->len & 3] += seed;
	pair.b += pair.a;
	hidden_seed = hidden_seed * 1103515245 + 12345;
	return words[index][0] + hidden_seed;
}
