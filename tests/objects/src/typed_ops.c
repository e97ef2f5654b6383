#include "typed.h"

LICENSE("GPL");

struct tcp_sock {
	u32 snd_cwnd, snd_ssthresh, srtt_us;
} __core;

struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 state);
	u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	u64 (*get_info)(struct sock *sk, u32 ext, int *attr, void *info);
	char name[16];
};

u64 seen;

SEC("struct_ops")
u32 ssthresh(u64 *ctx)
{
	struct tcp_sock *tp = (void *)ctx[0];

	return tp->snd_cwnd / 2;
}

SEC("struct_ops")
void cong_avoid(u64 *ctx)
{
	struct tcp_sock *tp = (void *)ctx[0];

	tp->snd_cwnd += ctx[2];
}

SEC("struct_ops")
void set_state(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];

	seen = sk->__sk_common.skc_family + (u8)ctx[1];
}

SEC("struct_ops")
u32 undo_cwnd(u64 *ctx)
{
	struct tcp_sock *tp = (void *)ctx[0];

	tp->srtt_us = 1;
	return 1;
}

SEC("struct_ops")
void init(u64 *ctx)
{
	seen = ctx[1];
}

SEC("struct_ops")
void release(u64 *ctx)
{
	ctx[0] = 1;
}

SEC("struct_ops")
u64 get_info(u64 *ctx)
{
	return 0;
}

SEC(".struct_ops")
struct tcp_congestion_ops ours = {
	.ssthresh = (void *)ssthresh,
	.cong_avoid = (void *)cong_avoid,
	.set_state = (void *)set_state,
	.undo_cwnd = (void *)undo_cwnd,
	.init = (void *)init,
	.release = (void *)release,
	.get_info = (void *)get_info,
	.name = "ours",
};
