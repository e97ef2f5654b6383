/* clang 15: type tags */
#include "own.h"

LICENSE("GPL");

struct counter {
	u64 count;
	u32 last;
};

struct big {
	u64 words[80];
};

struct linked {
	struct bpf_list_node link;
};

struct pointing {
	struct counter *other;
};

struct value {
	struct counter __percpu_kptr *counter;
	u64 plain;
	struct counter __kptr *single;
};

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct value);
} values SEC(".maps");

static __always_inline struct value *look(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&values, &zero);
}

SEC("tc")
int keep(struct __sk_buff *skb)
{
	struct value *value = look();
	struct counter *made, *mine;
	u32 seen = 0;

	if (!value)
		return 0;
	made = new_percpu(struct counter);
	if (!made)
		return 0;
	made = bpf_kptr_xchg(&value->counter, made);
	if (made)
		bpf_percpu_obj_drop_impl(made, NULL);
	made = value->counter;
	if (made) {
		mine = bpf_this_cpu_ptr(made);
		mine->count++;
		mine = bpf_per_cpu_ptr(made, 0);
		if (mine)
			seen = mine->last;
	}
	return seen;
}

SEC("syscall")
int sleepable(void *ctx)
{
	struct value *value = look();
	struct counter *made, *mine;
	u32 seen = 0;

	if (!value)
		return 0;
	bpf_rcu_read_lock();
	made = value->counter;
	if (made) {
		mine = bpf_this_cpu_ptr(made);
		seen = mine->last;
	}
	bpf_rcu_read_unlock();
	return seen;
}

SEC("syscall")
int sleepable_no_rcu(void *ctx)
{
	struct value *value = look();
	struct counter *made, *mine;

	if (!value)
		return 0;
	made = value->counter;
	if (!made)
		return 0;
	mine = bpf_this_cpu_ptr(made);
	return mine->last;
}

SEC("tc")
int direct(struct __sk_buff *skb)
{
	struct value *value = look();
	struct counter *made;

	if (!value)
		return 0;
	made = value->counter;
	return made ? made->count : 0;
}

SEC("tc")
int unchecked(struct __sk_buff *skb)
{
	struct value *value = look();
	struct counter *mine;

	if (!value)
		return 0;
	mine = bpf_this_cpu_ptr(value->counter);
	return mine->last;
}

SEC("tc")
int per_unchecked(struct __sk_buff *skb)
{
	struct value *value = look();
	struct counter *made, *mine;

	if (!value)
		return 0;
	made = value->counter;
	if (!made)
		return 0;
	mine = bpf_per_cpu_ptr(made, 1);
	return mine->last;
}

SEC("tc")
int beyond(struct __sk_buff *skb)
{
	struct value *value = look();
	struct counter *made, *mine;

	if (!value)
		return 0;
	made = value->counter;
	if (!made)
		return 0;
	mine = bpf_this_cpu_ptr(made);
	return ((volatile u64 *)mine)[2];
}

SEC("tc")
int leak(struct __sk_buff *skb)
{
	struct counter *made = new_percpu(struct counter);

	return made ? 1 : 0;
}

SEC("tc")
int dropped(struct __sk_buff *skb)
{
	struct counter *made = new_percpu(struct counter);

	if (made)
		bpf_percpu_obj_drop_impl(made, NULL);
	return 0;
}

SEC("tc")
int wrong_drop(struct __sk_buff *skb)
{
	struct counter *made = new_percpu(struct counter);

	if (made)
		drop(made);
	return 0;
}

SEC("tc")
int wrong_drop_single(struct __sk_buff *skb)
{
	struct counter *made = new(struct counter);

	if (made)
		bpf_percpu_obj_drop_impl(made, NULL);
	return 0;
}

SEC("tc")
int fresh_this(struct __sk_buff *skb)
{
	struct counter *made = new_percpu(struct counter), *mine;

	if (!made)
		return 0;
	mine = bpf_this_cpu_ptr(made);
	mine->count = 1;
	bpf_percpu_obj_drop_impl(made, NULL);
	return 0;
}

SEC("tc")
int too_big(struct __sk_buff *skb)
{
	struct big *made = new_percpu(struct big);

	if (made)
		bpf_percpu_obj_drop_impl(made, NULL);
	return 0;
}

SEC("tc")
int special(struct __sk_buff *skb)
{
	struct linked *made = new_percpu(struct linked);

	if (made)
		bpf_percpu_obj_drop_impl(made, NULL);
	return 0;
}

SEC("tc")
int pointers(struct __sk_buff *skb)
{
	struct pointing *made = new_percpu(struct pointing);

	if (made)
		bpf_percpu_obj_drop_impl(made, NULL);
	return 0;
}

SEC("tc")
int single_into_percpu(struct __sk_buff *skb)
{
	struct value *value = look();
	struct counter *made;

	if (!value)
		return 0;
	made = new(struct counter);
	if (!made)
		return 0;
	made = bpf_kptr_xchg(&value->counter, made);
	if (made)
		bpf_percpu_obj_drop_impl(made, NULL);
	return 0;
}

SEC("tc")
int percpu_into_single(struct __sk_buff *skb)
{
	struct value *value = look();
	struct counter *made;

	if (!value)
		return 0;
	made = new_percpu(struct counter);
	if (!made)
		return 0;
	made = bpf_kptr_xchg(&value->single, made);
	if (made)
		drop(made);
	return 0;
}

SEC("tc")
int use_kept(struct __sk_buff *skb)
{
	struct value *value = look();
	struct counter *made, *old, *mine;

	if (!value)
		return 0;
	made = new_percpu(struct counter);
	if (!made)
		return 0;
	old = bpf_kptr_xchg(&value->counter, made);
	if (old)
		bpf_percpu_obj_drop_impl(old, NULL);
	mine = bpf_this_cpu_ptr(made);
	mine->count = 1;
	return 0;
}
