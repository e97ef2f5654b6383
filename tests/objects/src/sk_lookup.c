#include "bpf.h"

LICENSE("GPL");

struct bpf_sk_lookup {
	u64 cookie;
	u32 family, protocol, remote_ip4, remote_ip6[4];
	u16 remote_port, zero;
	u32 local_ip4, local_ip6[4], local_port;
};

SEC("sk_lookup")
int select(struct bpf_sk_lookup *ctx)
{
	return ctx->local_port != 7777;
}

struct sk_reuseport_md {
	void *data, *data_end;
	u32 len, eth_protocol, ip_protocol, bind_inany, hash;
};

struct {
	__uint(type, REUSEPORT_SOCKARRAY);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, u64);
} group SEC(".maps");

SEC("sk_reuseport")
int by_hash(struct sk_reuseport_md *ctx)
{
	u32 index = ctx->hash & 3;

	return bpf_sk_select_reuseport(ctx, &group, &index, 0) ? 0 : 1;
}

SEC("sk_reuseport/migrate")
int or_migrate(struct sk_reuseport_md *ctx)
{
	return 1;
}
