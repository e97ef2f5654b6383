#include "bpf.h"

LICENSE("GPL");

/* No section is named: the only function of .text is the program. */
int alone(struct __sk_buff *skb)
{
	return 0;
}
