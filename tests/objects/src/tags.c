#include "bpf.h"

LICENSE("GPL");

#define __user __attribute__((btf_type_tag("user")))
#define __tag(x) __attribute__((btf_decl_tag(x)))

enum big { SMALL = 1, LARGE = 0x123456789abULL };
enum negative { MINUS = -5, ZERO = 0 };

struct all_kinds {
	int number __tag("a number");
	const volatile char *restrict text;
	int __user *pointer;
	enum big big;
	enum negative negative;
	union {
		float f;
		double d;
	};
	struct forward *forward;
	int (*call)(int, char);
	s32 bits : 5;
	u32 more : 27;
	bool flag;
} __tag("whole");

struct all_kinds kinds = {};

__noinline int tagged(int value __tag("argument"))
{
	return value + kinds.number;
}

SEC("socket")
int use(struct __sk_buff *skb)
{
	return tagged(skb->len) + kinds.bits + kinds.more;
}
