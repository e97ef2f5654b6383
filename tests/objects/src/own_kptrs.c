/* clang 15: type tags */
#include "own.h"

LICENSE("GPL");

struct task_struct {
	int pid;
} __core;

extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern struct task_struct *bpf_task_acquire(struct task_struct *task) __ksym;
extern void bpf_task_release(struct task_struct *task) __ksym;

struct kept {
	u64 key;
	u32 value;
};

struct linked {
	u64 key;
	struct bpf_rb_node rb;
};

struct value {
	u64 plain;
	struct task_struct __kptr *task;
	struct task_struct __kptr_untrusted *seen;
	struct kept __kptr *kept;
	struct linked __kptr *linked;
};

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct value);
} values SEC(".maps");

struct {
	__uint(type, PERCPU_HASH);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, struct value);
} spread SEC(".maps");

static __always_inline struct value *look(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&values, &zero);
}

SEC("tc")
int keep_task(struct __sk_buff *skb)
{
	struct value *value = look();
	struct task_struct *task;

	if (!value)
		return 0;
	task = bpf_task_from_pid(1);
	if (!task)
		return 0;
	task = bpf_kptr_xchg(&value->task, task);
	if (task)
		bpf_task_release(task);
	return 0;
}

SEC("tc")
int take_task(struct __sk_buff *skb)
{
	struct value *value = look();
	struct task_struct *task;

	if (!value)
		return 0;
	task = bpf_kptr_xchg(&value->task, NULL);
	if (task)
		bpf_task_release(task);
	return 0;
}

SEC("tc")
int keep_local(struct __sk_buff *skb)
{
	struct value *value = look();
	struct kept *kept;

	if (!value)
		return 0;
	kept = new(struct kept);
	if (!kept)
		return 0;
	kept->key = skb->len;
	kept = bpf_kptr_xchg(&value->kept, kept);
	if (kept)
		drop(kept);
	return 0;
}

SEC("tc")
int keep_linked(struct __sk_buff *skb)
{
	struct value *value = look();
	struct linked *linked;

	if (!value)
		return 0;
	linked = new(struct linked);
	if (!linked)
		return 0;
	linked = bpf_kptr_xchg(&value->linked, linked);
	if (linked)
		drop(linked);
	return 0;
}

SEC("tc")
int load_local(struct __sk_buff *skb)
{
	struct value *value = look();
	struct kept *kept;

	if (!value)
		return 0;
	kept = value->kept;
	return kept ? kept->value : 0;
}

SEC("tc")
int load_linked(struct __sk_buff *skb)
{
	struct value *value = look();
	struct linked *linked;

	if (!value)
		return 0;
	linked = value->linked;
	return linked ? linked->key : 0;
}

SEC("tc")
int write_loaded(struct __sk_buff *skb)
{
	struct value *value = look();
	struct kept *kept;

	if (!value)
		return 0;
	kept = value->kept;
	if (kept)
		kept->value = 1;
	return 0;
}

SEC("tc")
int drop_loaded(struct __sk_buff *skb)
{
	struct value *value = look();
	struct kept *kept;

	if (!value)
		return 0;
	kept = value->kept;
	if (kept)
		drop(kept);
	return 0;
}

SEC("tc")
int load_unchecked(struct __sk_buff *skb)
{
	struct value *value = look();

	if (!value)
		return 0;
	return ((volatile struct kept *)value->kept)->value;
}

SEC("tc")
int has_task(struct __sk_buff *skb)
{
	struct value *value = look();

	if (!value)
		return 0;
	return value->task ? 1 : 2;
}

SEC("tc")
int acquire_task(struct __sk_buff *skb)
{
	struct value *value = look();
	struct task_struct *task;

	if (!value)
		return 0;
	task = value->task;
	if (!task)
		return 0;
	task = bpf_task_acquire(task);
	if (task)
		bpf_task_release(task);
	return 0;
}

SEC("tc")
int acquire_seen(struct __sk_buff *skb)
{
	struct value *value = look();
	struct task_struct *task;

	if (!value)
		return 0;
	task = value->seen;
	if (!task)
		return 0;
	task = bpf_task_acquire(task);
	if (task)
		bpf_task_release(task);
	return 0;
}

SEC("tc")
int copy_seen(struct __sk_buff *skb)
{
	struct value *value = look();

	if (!value)
		return 0;
	value->seen = value->task;
	return 0;
}

SEC("tc")
int clear_seen(struct __sk_buff *skb)
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
int store_constant(struct __sk_buff *skb)
{
	struct value *value = look();

	if (!value)
		return 0;
	*(volatile u64 *)&value->seen = 16;
	return 0;
}

SEC("tc")
int store_wrong(struct __sk_buff *skb)
{
	struct value *value = look();

	if (!value)
		return 0;
	*(void *volatile *)&value->seen = skb;
	return 0;
}

SEC("tc")
int store_task(struct __sk_buff *skb)
{
	struct value *value = look();
	struct task_struct *task;

	if (!value)
		return 0;
	task = bpf_task_from_pid(1);
	if (!task)
		return 0;
	value->seen = task;
	bpf_task_release(task);
	return 0;
}

SEC("tc")
int store_kept(struct __sk_buff *skb)
{
	struct value *value = look();

	if (!value)
		return 0;
	*(volatile u64 *)&value->kept = 0;
	return 0;
}

SEC("tc")
int half(struct __sk_buff *skb)
{
	struct value *value = look();

	if (!value)
		return 0;
	return *(volatile u32 *)&value->task;
}

SEC("tc")
int misaligned(struct __sk_buff *skb)
{
	struct value *value = look();

	if (!value)
		return 0;
	return *(volatile u64 *)((void *)&value->task - 4);
}

SEC("tc")
int variable(struct __sk_buff *skb)
{
	struct value *value = look();
	u32 at = skb->len & 8;

	if (!value)
		return 0;
	return *(volatile u64 *)((void *)value + at);
}

SEC("tc")
int plain(struct __sk_buff *skb)
{
	struct value *value = look();

	if (!value)
		return 0;
	value->plain++;
	return value->plain;
}

SEC("tc")
int add_atomic(struct __sk_buff *skb)
{
	struct value *value = look();

	if (!value)
		return 0;
	__sync_fetch_and_add((u64 *)&value->seen, 1);
	return 0;
}

SEC("tc")
int by_helper(struct __sk_buff *skb)
{
	struct value *value = look();

	if (!value)
		return 0;
	bpf_skb_load_bytes(skb, 0, value, sizeof(*value));
	return 0;
}

SEC("tc")
int by_helper_plain(struct __sk_buff *skb)
{
	struct value *value = look();

	if (!value)
		return 0;
	bpf_skb_load_bytes(skb, 0, value, 8);
	return 0;
}

SEC("tc")
int xchg_leak(struct __sk_buff *skb)
{
	struct value *value = look();

	if (!value)
		return 0;
	bpf_kptr_xchg(&value->task, NULL);
	return 0;
}

SEC("tc")
int xchg_plain(struct __sk_buff *skb)
{
	struct value *value = look();

	if (!value)
		return 0;
	bpf_kptr_xchg(&value->plain, NULL);
	return 0;
}

SEC("tc")
int xchg_untrusted(struct __sk_buff *skb)
{
	struct value *value = look();

	if (!value)
		return 0;
	bpf_kptr_xchg(&value->seen, NULL);
	return 0;
}

SEC("tc")
int xchg_wrong(struct __sk_buff *skb)
{
	struct value *value = look();
	struct kept *kept;

	if (!value)
		return 0;
	kept = new(struct kept);
	if (!kept)
		return 0;
	kept = bpf_kptr_xchg(&value->linked, kept);
	if (kept)
		drop(kept);
	return 0;
}

SEC("tc")
int xchg_task_wrong(struct __sk_buff *skb)
{
	struct value *value = look();
	struct kept *kept;

	if (!value)
		return 0;
	kept = new(struct kept);
	if (!kept)
		return 0;
	kept = bpf_kptr_xchg(&value->task, kept);
	if (kept)
		bpf_task_release((struct task_struct *)kept);
	return 0;
}

SEC("tc")
int xchg_twice(struct __sk_buff *skb)
{
	struct value *value = look();
	struct kept *kept, *old;

	if (!value)
		return 0;
	kept = new(struct kept);
	if (!kept)
		return 0;
	old = bpf_kptr_xchg(&value->kept, kept);
	if (old)
		drop(old);
	old = bpf_kptr_xchg(&value->kept, kept);
	if (old)
		drop(old);
	return 0;
}

SEC("tc")
int xchg_seen(struct __sk_buff *skb)
{
	struct value *value = look();
	struct task_struct *task;

	if (!value)
		return 0;
	task = value->seen;
	if (!task)
		return 0;
	task = bpf_kptr_xchg(&value->task, task);
	if (task)
		bpf_task_release(task);
	return 0;
}

SEC("tc")
int xchg_unchecked(struct __sk_buff *skb)
{
	struct value *value = look();
	struct task_struct *task;

	if (!value)
		return 0;
	task = bpf_kptr_xchg(&value->task, bpf_task_from_pid(1));
	if (task)
		bpf_task_release(task);
	return 0;
}

SEC("tc")
int xchg_number(struct __sk_buff *skb)
{
	struct value *value = look();
	struct task_struct *task;

	if (!value)
		return 0;
	task = bpf_kptr_xchg(&value->task, (void *)(u64)skb->len);
	if (task)
		bpf_task_release(task);
	return 0;
}

SEC("tc")
int xchg_variable(struct __sk_buff *skb)
{
	struct value *value = look();
	struct task_struct *task;

	if (!value)
		return 0;
	task = bpf_kptr_xchg((void *)value + (skb->len & 8), NULL);
	if (task)
		bpf_task_release(task);
	return 0;
}

SEC("tc")
int per_cpu(struct __sk_buff *skb)
{
	u32 key = 2;
	struct value *value = bpf_map_lookup_elem(&spread, &key);
	struct task_struct *task;

	if (!value)
		return 0;
	task = bpf_kptr_xchg(&value->task, NULL);
	if (task)
		bpf_task_release(task);
	return 0;
}

SEC("syscall")
int sleepable_load(void *ctx)
{
	struct value *value = look();
	struct kept *kept;

	if (!value)
		return 0;
	kept = value->kept;
	return kept ? kept->value : 0;
}

SEC("syscall")
int sleepable_write(void *ctx)
{
	struct value *value = look();
	struct kept *kept;

	if (!value)
		return 0;
	kept = value->kept;
	if (kept)
		kept->value = 2;
	return 0;
}

SEC("syscall")
int sleepable_rcu(void *ctx)
{
	struct value *value = look();
	struct kept *kept;
	u32 found = 0;

	if (!value)
		return 0;
	bpf_rcu_read_lock();
	kept = value->kept;
	if (kept)
		kept->value = found = 2;
	bpf_rcu_read_unlock();
	return found;
}

SEC("syscall")
int sleepable_kept(void *ctx)
{
	struct value *value = look();
	struct kept *kept;

	if (!value)
		return 0;
	bpf_rcu_read_lock();
	kept = value->kept;
	bpf_rcu_read_unlock();
	if (kept)
		kept->value = 2;
	return 0;
}
