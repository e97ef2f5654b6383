#include "own.h"

LICENSE("GPL");

struct item {
	u64 key;
	struct bpf_list_node link;
	u32 value;
};

struct other {
	struct bpf_list_node link;
	u64 key;
};

struct bag {
	struct bpf_spin_lock lock;
	u32 count;
	struct bpf_list_head head __contains(item, link);
};

struct {
	__uint(type, HASH);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, struct bag);
} bags SEC(".maps");

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bag);
} bag SEC(".maps");

private(A) struct bpf_spin_lock lock;
private(A) struct bpf_list_head head __contains(item, link);
private(B) struct bpf_spin_lock other_lock;
private(B) struct bpf_list_head others __contains(other, link);

static __always_inline struct bag *look(u32 key)
{
	return bpf_map_lookup_elem(&bags, &key);
}

SEC("tc")
int push_pop(struct __sk_buff *skb)
{
	struct bpf_list_node *node;
	struct item *item;
	struct bag *bag = look(1);
	u32 value;

	if (!bag)
		return 0;
	item = new(struct item);
	if (!item)
		return 0;
	item->key = skb->len;
	item->value = 3;
	bpf_spin_lock(&bag->lock);
	push_front(&bag->head, &item->link);
	bag->count++;
	node = bpf_list_pop_back(&bag->head);
	bpf_spin_unlock(&bag->lock);
	if (!node)
		return 0;
	item = container_of(node, struct item, link);
	value = item->value;
	drop(item);
	return value;
}

SEC("tc")
int global(struct __sk_buff *skb)
{
	struct item *item = new(struct item);
	struct bpf_list_node *node;

	if (!item)
		return 0;
	bpf_spin_lock(&lock);
	push_back(&head, &item->link);
	item->value = 7;
	node = bpf_list_pop_front(&head);
	bpf_spin_unlock(&lock);
	if (node)
		drop(container_of(node, struct item, link));
	return 0;
}

SEC("tc")
int drain(struct __sk_buff *skb)
{
	struct bpf_list_node *node;
	u32 i, sum = 0;

	for (i = 0; i < 4; i++) {
		bpf_spin_lock(&lock);
		node = bpf_list_pop_front(&head);
		bpf_spin_unlock(&lock);
		if (!node)
			break;
		sum += container_of(node, struct item, link)->value;
		drop(container_of(node, struct item, link));
	}
	return sum;
}

SEC("tc")
int peek(struct __sk_buff *skb)
{
	struct bpf_list_node *node;
	u32 value = 0;

	bpf_spin_lock(&lock);
	node = bpf_list_front(&head);
	if (node)
		value = container_of(node, struct item, link)->value;
	bpf_spin_unlock(&lock);
	return value;
}

SEC("tc")
int fields(struct __sk_buff *skb)
{
	struct item *item = new(struct item);
	u64 key;

	if (!item)
		return 0;
	key = item->key + *(u16 *)&item->value;
	item->key = key + 1;
	drop(item);
	return key;
}

SEC("tc")
int no_check(struct __sk_buff *skb)
{
	struct item *item = new(struct item);

	item->key = 1;
	drop(item);
	return 0;
}

SEC("tc")
int leak(struct __sk_buff *skb)
{
	struct item *item = new(struct item);

	if (item)
		item->key = 1;
	return 0;
}

SEC("tc")
int drop_unchecked(struct __sk_buff *skb)
{
	struct item *item = new(struct item);

	drop(item);
	return 0;
}

SEC("tc")
int drop_twice(struct __sk_buff *skb)
{
	struct item *item = new(struct item);

	if (!item)
		return 0;
	drop(item);
	drop(item);
	return 0;
}

SEC("tc")
int drop_member(struct __sk_buff *skb)
{
	struct item *item = new(struct item);

	if (!item)
		return 0;
	drop(&item->value);
	return 0;
}

SEC("tc")
int use_dropped(struct __sk_buff *skb)
{
	struct item *item = new(struct item);

	if (!item)
		return 0;
	drop(item);
	return item->value;
}

SEC("tc")
int store_link(struct __sk_buff *skb)
{
	struct item *item = new(struct item);

	if (!item)
		return 0;
	item->link.opaque[1] = 0;
	drop(item);
	return 0;
}

SEC("tc")
int load_link(struct __sk_buff *skb)
{
	struct item *item = new(struct item);
	u64 value;

	if (!item)
		return 0;
	value = *(volatile u64 *)&item->link.opaque[1];
	drop(item);
	return value;
}

SEC("tc")
int beyond(struct __sk_buff *skb)
{
	struct item *item = new(struct item);
	u32 value;

	if (!item)
		return 0;
	value = *((volatile u32 *)item + 12);
	drop(item);
	return value;
}

SEC("tc")
int before(struct __sk_buff *skb)
{
	struct item *item = new(struct item);
	u32 value;

	if (!item)
		return 0;
	value = *((volatile u32 *)item - 1);
	drop(item);
	return value;
}

SEC("tc")
int across(struct __sk_buff *skb)
{
	struct item *item = new(struct item);
	u64 value;

	if (!item)
		return 0;
	value = *(volatile u64 *)&item->value;
	drop(item);
	return value;
}

SEC("tc")
int variable(struct __sk_buff *skb)
{
	struct item *item = new(struct item);
	u64 value;

	if (!item)
		return 0;
	value = *((volatile u8 *)item + (skb->len & 7));
	drop(item);
	return value;
}

SEC("tc")
int head_direct(struct __sk_buff *skb)
{
	struct bag *bag = look(1);

	if (!bag)
		return 0;
	return *(volatile u64 *)&bag->head.opaque[0];
}

SEC("tc")
int push_unlocked(struct __sk_buff *skb)
{
	struct item *item = new(struct item);
	struct bag *bag = look(1);

	if (!item)
		return 0;
	if (bag)
		push_front(&bag->head, &item->link);
	else
		drop(item);
	return 0;
}

SEC("tc")
int pop_unlocked(struct __sk_buff *skb)
{
	bpf_list_pop_front(&head);
	return 0;
}

SEC("tc")
int wrong_lock(struct __sk_buff *skb)
{
	struct bpf_list_node *node;

	bpf_spin_lock(&other_lock);
	node = bpf_list_pop_front(&head);
	bpf_spin_unlock(&other_lock);
	if (node)
		drop(container_of(node, struct item, link));
	return 0;
}

SEC("tc")
int wrong_value(struct __sk_buff *skb)
{
	struct bag *one = look(1), *two = look(2);
	struct bpf_list_node *node;

	if (!one || !two)
		return 0;
	bpf_spin_lock(&one->lock);
	node = bpf_list_pop_front(&two->head);
	bpf_spin_unlock(&one->lock);
	if (node)
		drop(container_of(node, struct item, link));
	return 0;
}

SEC("tc")
int wrong_type(struct __sk_buff *skb)
{
	struct other *other = new(struct other);

	if (!other)
		return 0;
	bpf_spin_lock(&lock);
	push_front(&head, &other->link);
	bpf_spin_unlock(&lock);
	return 0;
}

SEC("tc")
int wrong_offset(struct __sk_buff *skb)
{
	struct item *item = new(struct item);

	if (!item)
		return 0;
	bpf_spin_lock(&lock);
	push_front(&head, (struct bpf_list_node *)&item->key);
	bpf_spin_unlock(&lock);
	return 0;
}

SEC("tc")
int wrong_head(struct __sk_buff *skb)
{
	struct item *item = new(struct item);

	if (!item)
		return 0;
	bpf_spin_lock(&lock);
	push_front((void *)&head + 8, &item->link);
	bpf_spin_unlock(&lock);
	return 0;
}

SEC("tc")
int head_on_stack(struct __sk_buff *skb)
{
	struct bpf_list_head mine = {};

	bpf_spin_lock(&lock);
	bpf_list_pop_front(&mine);
	bpf_spin_unlock(&lock);
	return 0;
}

SEC("tc")
int push_twice(struct __sk_buff *skb)
{
	struct item *item = new(struct item);

	if (!item)
		return 0;
	bpf_spin_lock(&lock);
	push_front(&head, &item->link);
	push_front(&head, &item->link);
	bpf_spin_unlock(&lock);
	return 0;
}

SEC("tc")
int drop_pushed(struct __sk_buff *skb)
{
	struct item *item = new(struct item);

	if (!item)
		return 0;
	bpf_spin_lock(&lock);
	push_front(&head, &item->link);
	bpf_spin_unlock(&lock);
	drop(item);
	return 0;
}

SEC("tc")
int write_pushed(struct __sk_buff *skb)
{
	struct item *item = new(struct item);

	if (!item)
		return 0;
	bpf_spin_lock(&lock);
	push_front(&head, &item->link);
	bpf_spin_unlock(&lock);
	item->value = 1;
	return 0;
}

SEC("tc")
int push_unchecked(struct __sk_buff *skb)
{
	struct item *item = new(struct item);

	bpf_spin_lock(&lock);
	push_front(&head, &item->link);
	bpf_spin_unlock(&lock);
	return 0;
}

SEC("tc")
int pop_leak(struct __sk_buff *skb)
{
	bpf_spin_lock(&lock);
	bpf_list_pop_front(&head);
	bpf_spin_unlock(&lock);
	return 0;
}

SEC("tc")
int new_locked(struct __sk_buff *skb)
{
	struct item *item;

	bpf_spin_lock(&lock);
	item = new(struct item);
	bpf_spin_unlock(&lock);
	if (item)
		drop(item);
	return 0;
}

SEC("tc")
int helper_locked(struct __sk_buff *skb)
{
	u64 now;

	bpf_spin_lock(&lock);
	now = bpf_ktime_get_ns();
	bpf_spin_unlock(&lock);
	return now;
}

SEC("tc")
int exit_locked(struct __sk_buff *skb)
{
	bpf_spin_lock(&lock);
	return 0;
}

SEC("tc")
int new_no_struct(struct __sk_buff *skb)
{
	void *object = bpf_obj_new_impl(1, NULL);

	if (object)
		drop(object);
	return 0;
}

SEC("tc")
int new_variable(struct __sk_buff *skb)
{
	void *object = bpf_obj_new_impl(skb->len, NULL);

	if (object)
		drop(object);
	return 0;
}

SEC("tc")
int new_wide(struct __sk_buff *skb)
{
	void *object = bpf_obj_new_impl(1ULL << 32, NULL);

	if (object)
		drop(object);
	return 0;
}

SEC("tc")
int drop_value(struct __sk_buff *skb)
{
	struct bag *bag = look(1);

	if (bag)
		drop(bag);
	return 0;
}

SEC("tc")
int tail(struct __sk_buff *skb)
{
	struct item *item = new(struct item);
	struct item *again = item;

	if (!item)
		return 0;
	item->key = 5;
	bpf_skb_load_bytes(skb, 0, item, 4);
	drop(again);
	return 0;
}
