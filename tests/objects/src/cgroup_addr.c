#include "bpf.h"

LICENSE("GPL");

struct bpf_sock_addr {
	u32 user_family, user_ip4, user_ip6[4], user_port, family, type, protocol;
};

SEC("cgroup/connect4")
int to_loopback(struct bpf_sock_addr *ctx)
{
	if (ctx->user_port == htons(80))
		ctx->user_ip4 = htonl(0x7f000001);
	return 1;
}

SEC("cgroup/bind6")
int no_bind(struct bpf_sock_addr *ctx)
{
	return 0;
}

SEC("cgroup/sendmsg4")
int on_send(struct bpf_sock_addr *ctx)
{
	return 1;
}

SEC("cgroup/recvmsg6")
int on_receive(struct bpf_sock_addr *ctx)
{
	return 1;
}

SEC("cgroup/getpeername4")
int who(struct bpf_sock_addr *ctx)
{
	return 1;
}
