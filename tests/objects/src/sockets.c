#include "bpf.h"

LICENSE("GPL");

struct tuple {
	u32 from, to;
	u16 from_port, to_port;
};

/* A reference to a socket has to be given back on every path. */
SEC("tc")
int is_local(struct __sk_buff *skb)
{
	struct tuple tuple = {.to = htonl(0x7f000001), .to_port = htons(22)};
	void *sk = bpf_sk_lookup_tcp(skb, &tuple, sizeof(tuple), -1, 0);

	if (!sk)
		return 0;
	bpf_sk_release(sk);
	return 2;
}
