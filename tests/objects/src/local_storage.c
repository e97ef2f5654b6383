#include "bpf.h"

LICENSE("GPL");

struct {
	__uint(type, SK_STORAGE);
	__uint(map_flags, 1);
	__type(key, int);
	__type(value, u64);
} per_socket SEC(".maps");

struct bpf_sock {
	u32 bound_dev_if;
};

SEC("cgroup/sock_create")
int on_create(struct bpf_sock *sk)
{
	u64 *value = bpf_sk_storage_get(&per_socket, sk, 0, 1);

	if (value)
		*value = 1;
	return 1;
}
