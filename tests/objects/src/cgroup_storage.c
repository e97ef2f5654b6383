#include "bpf.h"

LICENSE("GPL");

struct key {
	u64 cgroup;
	u32 attach_type;
};

struct {
	__uint(type, CGROUP_STORAGE);
	__type(key, struct key);
	__type(value, u64);
} here SEC(".maps");

SEC("cgroup_skb/egress")
int count(struct __sk_buff *skb)
{
	u64 *packets = bpf_get_local_storage(&here, 0);

	__sync_fetch_and_add(packets, 1);
	return *packets < 1000;
}
