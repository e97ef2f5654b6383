#include "own.h"

LICENSE("GPL");

#define __exception_cb(name) __attribute__((btf_decl_tag("exception_callback:" #name)))

extern void bpf_preempt_disable(void) __ksym;
extern void bpf_preempt_enable(void) __ksym;

struct item {
	u64 key;
};

struct value {
	struct bpf_spin_lock lock;
	u32 count;
};

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct value);
} values SEC(".maps");

__noinline int caught(u64 cookie)
{
	return cookie ? 1 : 2;
}

__noinline int caught_twice(u64 cookie, u64 more)
{
	return cookie + more;
}

__noinline int caught_pointer(struct __sk_buff *skb)
{
	return 1;
}

__noinline int caught_throws(u64 cookie)
{
	bpf_throw(cookie);
	return 0;
}

static __noinline int caught_static(u64 cookie)
{
	return cookie;
}

__noinline int caught_any(u64 cookie)
{
	return cookie;
}

static __noinline int deep(u32 length)
{
	if (length > 100)
		bpf_throw(2);
	return length;
}

__noinline int global(u32 length)
{
	if (length > 200)
		bpf_throw(3);
	return length & 1;
}

SEC("tc")
int throws(struct __sk_buff *skb)
{
	if (skb->len > 50)
		bpf_throw(1);
	return 0;
}

SEC("tc")
int throws_deep(struct __sk_buff *skb)
{
	return deep(skb->len) & global(skb->len);
}

SEC("tc")
__exception_cb(caught)
int catches(struct __sk_buff *skb)
{
	if (skb->len > 50)
		bpf_throw(skb->len);
	return 0;
}

SEC("cgroup/skb")
__exception_cb(caught_any)
int catches_range(struct __sk_buff *skb)
{
	if (skb->len > 50)
		bpf_throw(1);
	return 1;
}

SEC("cgroup_skb/ingress")
int throws_range(struct __sk_buff *skb)
{
	if (skb->len > 50)
		bpf_throw(7);
	return 1;
}

SEC("tc")
__exception_cb(caught_twice)
int catches_two(struct __sk_buff *skb)
{
	bpf_throw(0);
	return 0;
}

SEC("tc")
__exception_cb(caught_pointer)
int catches_pointer(struct __sk_buff *skb)
{
	bpf_throw(0);
	return 0;
}

SEC("tc")
__exception_cb(caught_throws)
int catches_throwing(struct __sk_buff *skb)
{
	bpf_throw(0);
	return 0;
}

SEC("tc")
__exception_cb(caught)
int calls_callback(struct __sk_buff *skb)
{
	if (skb->len)
		bpf_throw(0);
	return caught(1);
}

SEC("tc")
__exception_cb(nobody)
int catches_nobody(struct __sk_buff *skb)
{
	bpf_throw(0);
	return 0;
}

SEC("tc")
__exception_cb(caught_static)
int catches_static(struct __sk_buff *skb)
{
	if (skb->len)
		bpf_throw(0);
	return caught_static(skb->len);
}

SEC("tc")
int throws_owning(struct __sk_buff *skb)
{
	struct item *item = new(struct item);

	if (!item)
		return 0;
	if (skb->len > 50)
		bpf_throw(1);
	drop(item);
	return 0;
}

SEC("tc")
int throws_deep_owning(struct __sk_buff *skb)
{
	struct item *item = new(struct item);
	int result;

	if (!item)
		return 0;
	result = deep(skb->len);
	drop(item);
	return result;
}

SEC("tc")
int throws_global_owning(struct __sk_buff *skb)
{
	struct item *item = new(struct item);
	int result;

	if (!item)
		return 0;
	result = global(skb->len);
	drop(item);
	return result;
}

SEC("tc")
int throws_locked(struct __sk_buff *skb)
{
	u32 zero = 0;
	struct value *value = bpf_map_lookup_elem(&values, &zero);

	if (!value)
		return 0;
	bpf_spin_lock(&value->lock);
	if (value->count > 3)
		bpf_throw(1);
	bpf_spin_unlock(&value->lock);
	return 0;
}

SEC("tc")
int throws_in_rcu(struct __sk_buff *skb)
{
	bpf_rcu_read_lock();
	if (skb->len > 50)
		bpf_throw(1);
	bpf_rcu_read_unlock();
	return 0;
}

SEC("tc")
int throws_unpreempted(struct __sk_buff *skb)
{
	bpf_preempt_disable();
	if (skb->len > 50)
		bpf_throw(1);
	bpf_preempt_enable();
	return 0;
}

static int looped(u32 index, void *context)
{
	if (index > 3)
		bpf_throw(index);
	return 0;
}

SEC("tc")
int throws_in_loop(struct __sk_buff *skb)
{
	bpf_loop(8, looped, NULL, 0);
	return 0;
}

SEC("tc")
int throws_pointer(struct __sk_buff *skb)
{
	bpf_throw((u64)skb);
	return 0;
}
