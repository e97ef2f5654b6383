#include "bpf.h"

LICENSE("GPL");

SEC("lwt_in")
int in(struct __sk_buff *skb)
{
	return 0;
}

SEC("lwt_out")
int out(struct __sk_buff *skb)
{
	return skb->len > 1400 ? 2 : 0;
}

SEC("lwt_xmit")
int xmit(struct __sk_buff *skb)
{
	return 0;
}

SEC("lwt_seg6local")
int seg6(struct __sk_buff *skb)
{
	return 0;
}
