#include "bpf.h"

LICENSE("GPL");

#define LEVEL(n, next) \
	static __noinline u64 level##n(u64 *sum, u32 value) \
	{ \
		u64 local = *sum; \
		local += next(sum, value + n); \
		return local ^ value; \
	}

static __noinline u64 level0(u64 *sum, u32 value)
{
	*sum += value;
	return *sum;
}

LEVEL(1, level0)
LEVEL(2, level1)
LEVEL(3, level2)
LEVEL(4, level3)

SEC("socket")
int deep(struct __sk_buff *skb)
{
	u64 sum = skb->len;

	return level4(&sum, 1) + level2(&sum, 2);
}
