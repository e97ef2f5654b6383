#include "bpf.h"

LICENSE("GPL");

struct bpf_sock {
	u32 bound_dev_if, family, type, protocol, mark, priority;
};

SEC("cgroup/sock_create")
int on_create(struct bpf_sock *sk)
{
	sk->mark = 7;
	return sk->family != 17;
}

SEC("cgroup/sock_release")
int on_release(struct bpf_sock *sk)
{
	return 1;
}

SEC("cgroup/post_bind4")
int on_bind(struct bpf_sock *sk)
{
	return 1;
}
