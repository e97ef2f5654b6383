#include "bpf.h"

LICENSE("GPL");

struct {
	__uint(type, SOCKMAP);
	__uint(max_entries, 16);
	__type(key, u32);
	__type(value, u32);
} sockets SEC(".maps");

SEC("sk_skb/stream_parser")
int parse(struct __sk_buff *skb)
{
	return skb->len;
}

SEC("sk_skb/stream_verdict")
int verdict(struct __sk_buff *skb)
{
	return bpf_sk_redirect_map(skb, &sockets, 0, 0);
}

struct sk_msg_md {
	void *data, *data_end;
};

SEC("sk_msg")
int message(struct sk_msg_md *msg)
{
	return bpf_msg_redirect_map(msg, &sockets, 1, 0);
}
