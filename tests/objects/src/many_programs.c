#include "bpf.h"

LICENSE("GPL");

static __noinline int shared(int value)
{
	return value & 1;
}

#define PROGRAM(n) \
	SEC("socket") \
	int program##n(struct __sk_buff *skb) \
	{ \
		return shared(skb->len + n) + n; \
	}

PROGRAM(0)
PROGRAM(1)
PROGRAM(2)
PROGRAM(3)
PROGRAM(4)
PROGRAM(5)
