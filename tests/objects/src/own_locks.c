#include "own.h"

LICENSE("GPL");

struct bpf_res_spin_lock {
	u32 val;
} __attribute__((aligned(4)));

extern int bpf_res_spin_lock(struct bpf_res_spin_lock *lock) __ksym;
extern void bpf_res_spin_unlock(struct bpf_res_spin_lock *lock) __ksym;
extern int bpf_res_spin_lock_irqsave(struct bpf_res_spin_lock *lock, unsigned long *flags) __ksym;
extern void bpf_res_spin_unlock_irqrestore(struct bpf_res_spin_lock *lock,
					   unsigned long *flags) __ksym;
extern void bpf_local_irq_save(unsigned long *flags) __ksym;
extern void bpf_local_irq_restore(unsigned long *flags) __ksym;
extern void bpf_preempt_disable(void) __ksym;
extern void bpf_preempt_enable(void) __ksym;

struct value {
	struct bpf_res_spin_lock lock;
	u32 count;
};

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct value);
} values SEC(".maps");

struct item {
	struct bpf_spin_lock lock;
	u32 count;
};

private(A) struct bpf_res_spin_lock first;
private(B) struct bpf_res_spin_lock second;
private(C) struct bpf_spin_lock plain;

static __always_inline struct value *look(u32 key)
{
	return bpf_map_lookup_elem(&values, &key);
}

SEC("tc")
int once(struct __sk_buff *skb)
{
	struct value *value = look(0);

	if (!value || bpf_res_spin_lock(&value->lock))
		return 0;
	value->count++;
	bpf_res_spin_unlock(&value->lock);
	return 1;
}

SEC("tc")
int nested(struct __sk_buff *skb)
{
	if (bpf_res_spin_lock(&first))
		return 0;
	if (bpf_res_spin_lock(&second)) {
		bpf_res_spin_unlock(&first);
		return 0;
	}
	bpf_res_spin_unlock(&second);
	bpf_res_spin_unlock(&first);
	return 1;
}

SEC("tc")
int out_of_order(struct __sk_buff *skb)
{
	if (bpf_res_spin_lock(&first))
		return 0;
	if (bpf_res_spin_lock(&second)) {
		bpf_res_spin_unlock(&first);
		return 0;
	}
	bpf_res_spin_unlock(&first);
	bpf_res_spin_unlock(&second);
	return 1;
}

SEC("tc")
int twice(struct __sk_buff *skb)
{
	if (bpf_res_spin_lock(&first))
		return 0;
	if (bpf_res_spin_lock(&first)) {
		bpf_res_spin_unlock(&first);
		return 0;
	}
	bpf_res_spin_unlock(&first);
	return 1;
}

SEC("tc")
int unchecked(struct __sk_buff *skb)
{
	bpf_res_spin_lock(&first);
	bpf_res_spin_unlock(&first);
	return 1;
}

SEC("tc")
int missing(struct __sk_buff *skb)
{
	if (bpf_res_spin_lock(&first))
		return 0;
	return 1;
}

SEC("tc")
int unlock_only(struct __sk_buff *skb)
{
	bpf_res_spin_unlock(&first);
	return 1;
}

SEC("tc")
int different(struct __sk_buff *skb)
{
	if (bpf_res_spin_lock(&first))
		return 0;
	bpf_res_spin_unlock(&second);
	return 1;
}

SEC("tc")
int different_kind(struct __sk_buff *skb)
{
	unsigned long flags;

	if (bpf_res_spin_lock_irqsave(&first, &flags))
		return 0;
	bpf_res_spin_unlock(&first);
	return 1;
}

SEC("tc")
int with_flags(struct __sk_buff *skb)
{
	unsigned long flags;

	if (bpf_res_spin_lock_irqsave(&first, &flags))
		return 0;
	bpf_res_spin_unlock_irqrestore(&first, &flags);
	return 1;
}

SEC("tc")
int wrong_flags(struct __sk_buff *skb)
{
	unsigned long flags, other;

	bpf_local_irq_save(&other);
	if (bpf_res_spin_lock_irqsave(&first, &flags)) {
		bpf_local_irq_restore(&other);
		return 0;
	}
	bpf_res_spin_unlock_irqrestore(&first, &other);
	bpf_local_irq_restore(&flags);
	return 1;
}

SEC("tc")
int flags_nested(struct __sk_buff *skb)
{
	unsigned long flags, other;

	bpf_local_irq_save(&other);
	if (bpf_res_spin_lock_irqsave(&first, &flags)) {
		bpf_local_irq_restore(&other);
		return 0;
	}
	bpf_res_spin_unlock_irqrestore(&first, &flags);
	bpf_local_irq_restore(&other);
	return 1;
}

SEC("tc")
int helper(struct __sk_buff *skb)
{
	if (bpf_res_spin_lock(&first))
		return 0;
	bpf_ktime_get_ns();
	bpf_res_spin_unlock(&first);
	return 1;
}

SEC("tc")
int plain_within(struct __sk_buff *skb)
{
	if (bpf_res_spin_lock(&first))
		return 0;
	bpf_spin_lock(&plain);
	bpf_spin_unlock(&plain);
	bpf_res_spin_unlock(&first);
	return 1;
}

SEC("tc")
int within_plain(struct __sk_buff *skb)
{
	bpf_spin_lock(&plain);
	if (bpf_res_spin_lock(&first)) {
		bpf_spin_unlock(&plain);
		return 0;
	}
	bpf_res_spin_unlock(&first);
	bpf_spin_unlock(&plain);
	return 1;
}

SEC("tc")
int direct(struct __sk_buff *skb)
{
	struct value *value = look(0);

	if (!value)
		return 0;
	return *(volatile u32 *)&value->lock;
}

SEC("tc")
int elsewhere(struct __sk_buff *skb)
{
	struct value *value = look(0);

	if (!value || bpf_res_spin_lock((void *)&value->count))
		return 0;
	bpf_res_spin_unlock((void *)&value->count);
	return 1;
}

SEC("tc")
int on_stack(struct __sk_buff *skb)
{
	struct bpf_res_spin_lock mine = {};

	if (bpf_res_spin_lock(&mine))
		return 0;
	bpf_res_spin_unlock(&mine);
	return 1;
}

SEC("tc")
int two_values(struct __sk_buff *skb)
{
	struct value *one = look(0), *two = look(1);

	if (!one || !two)
		return 0;
	if (bpf_res_spin_lock(&one->lock))
		return 0;
	if (!bpf_res_spin_lock(&two->lock))
		bpf_res_spin_unlock(&two->lock);
	bpf_res_spin_unlock(&one->lock);
	return 1;
}

SEC("tc")
int object_lock(struct __sk_buff *skb)
{
	struct item *item = new(struct item);

	if (!item)
		return 0;
	bpf_spin_lock(&item->lock);
	item->count++;
	bpf_spin_unlock(&item->lock);
	drop(item);
	return 1;
}

SEC("tc")
int object_lock_elsewhere(struct __sk_buff *skb)
{
	struct item *item = new(struct item);

	if (!item)
		return 0;
	bpf_spin_lock((void *)&item->count);
	bpf_spin_unlock((void *)&item->count);
	drop(item);
	return 1;
}

SEC("tc")
int object_two(struct __sk_buff *skb)
{
	struct item *item = new(struct item), *other = new(struct item);

	if (!item) {
		if (other)
			drop(other);
		return 0;
	}
	if (!other) {
		drop(item);
		return 0;
	}
	bpf_spin_lock(&item->lock);
	bpf_spin_unlock(&other->lock);
	drop(item);
	drop(other);
	return 1;
}

SEC("tc")
int unpreempted(struct __sk_buff *skb)
{
	bpf_preempt_disable();
	if (bpf_res_spin_lock(&first)) {
		bpf_preempt_enable();
		return 0;
	}
	bpf_res_spin_unlock(&first);
	bpf_preempt_enable();
	return 1;
}
