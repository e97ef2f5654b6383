#include "bpf.h"

LICENSE("GPL");

struct sock;
struct rate_sample;

struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
};

SEC("struct_ops/ssthresh")
u32 half(u64 *ctx)
{
	return 2;
}

SEC("struct_ops/avoid")
void avoid(u64 *ctx)
{
}

SEC("struct_ops/undo")
u32 undo(u64 *ctx)
{
	return 10;
}

SEC(".struct_ops")
struct tcp_congestion_ops slow = {
	.ssthresh = (void *)half,
	.cong_avoid = (void *)avoid,
	.undo_cwnd = (void *)undo,
	.name = "slow",
};
