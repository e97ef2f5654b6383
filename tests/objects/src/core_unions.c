#include "bpf.h"

LICENSE("GPL");

struct hlist_node {
	struct hlist_node *next;
};

struct sock_common {
	union {
		u64 skc_addrpair;
		struct {
			u32 skc_daddr;
			u32 skc_rcv_saddr;
		};
	};
	u16 skc_family;
	u8 skc_reuse : 4;
} __core;

struct sock {
	struct sock_common __sk_common;
} __core;

struct file_ext {
	struct {
		struct {
			int x[4];
		} inner[2];
	} outer;
};

u64 result;

SEC("raw_tp/sys_enter")
int nested(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	u32 to = 0;
	u16 family = 0;

	bpf_probe_read_kernel(&to, sizeof(to), &sk->__sk_common.skc_rcv_saddr);
	bpf_probe_read_kernel(&family, sizeof(family), &sk->__sk_common.skc_family);
	result = to + family;
	return 0;
}
