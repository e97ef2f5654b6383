/* clang 15: type tags, with their names before Linux 6.4 */
#include "own.h"

LICENSE("GPL");

#define __kptr_ref __attribute__((btf_type_tag("kptr_ref")))

struct task_struct {
	int pid;
} __core;

struct value {
	struct task_struct __kptr *seen;
	u64 plain;
};

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct value);
} values SEC(".maps");

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct { struct task_struct __kptr_ref *task; u64 plain; });
} referenced SEC(".maps");

static __always_inline struct value *look(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&values, &zero);
}

SEC("tc")
int copy(struct __sk_buff *skb)
{
	struct value *value = look();
	struct task_struct task = {};

	if (!value)
		return 0;
	bpf_probe_read_kernel(&task, sizeof(task), value->seen);
	return task.pid;
}

SEC("tc")
int has(struct __sk_buff *skb)
{
	struct value *value = look();

	return value && value->seen ? 1 : 0;
}

SEC("tc")
int clear(struct __sk_buff *skb)
{
	struct value *value = look();

	if (!value)
		return 0;
	value->seen = NULL;
	return 0;
}

SEC("tc")
int store_number(struct __sk_buff *skb)
{
	struct value *value = look();

	if (!value)
		return 0;
	*(volatile u64 *)&value->seen = skb->len;
	return 0;
}

SEC("tc")
int xchg(struct __sk_buff *skb)
{
	struct value *value = look();

	if (!value)
		return 0;
	return !!bpf_kptr_xchg(&value->seen, NULL);
}

SEC("tc")
int xchg_plain(struct __sk_buff *skb)
{
	struct value *value = look();

	if (!value)
		return 0;
	return !!bpf_kptr_xchg(&value->plain, NULL);
}

SEC("tc")
int half(struct __sk_buff *skb)
{
	struct value *value = look();

	if (!value)
		return 0;
	return *(volatile u32 *)&value->seen;
}

SEC("tc")
int ref_plain(struct __sk_buff *skb)
{
	u32 zero = 0;
	u64 *value = bpf_map_lookup_elem(&referenced, &zero);

	if (!value)
		return 0;
	value[0] = 3;
	return value[1];
}
