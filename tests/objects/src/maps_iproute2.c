#include "bpf.h"

LICENSE("GPL");

struct bpf_elf_map {
	u32 type, size_key, size_value, max_elem, flags, id, pinning, inner_id, inner_idx;
};

struct bpf_elf_map SEC("maps") seen = {
	.type = HASH, .size_key = 4, .size_value = 4, .max_elem = 16, .id = 1, .pinning = 2,
};

SEC("classifier")
int ingress(struct __sk_buff *skb)
{
	u32 key = skb->ifindex, value = 1;

	bpf_map_update_elem(&seen, &key, &value, 0);
	return -1;
}
