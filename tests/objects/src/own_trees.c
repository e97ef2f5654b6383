#include "own.h"

LICENSE("GPL");

struct node {
	u64 key;
	struct bpf_rb_node rb;
	u64 value;
};

/* A structure that two owners may share. */
struct shared {
	struct bpf_rb_node rb;
	struct bpf_list_node link;
	struct bpf_refcount refs;
	u64 key;
};

private(A) struct bpf_spin_lock lock;
private(A) struct bpf_rb_root root __contains(node, rb);
private(B) struct bpf_spin_lock shared_lock;
private(B) struct bpf_rb_root tree __contains(shared, rb);
private(B) struct bpf_list_head list __contains(shared, link);

static bool less(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	return container_of(a, struct node, rb)->key < container_of(b, struct node, rb)->key;
}

static bool shared_less(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	return container_of(a, struct shared, rb)->key < container_of(b, struct shared, rb)->key;
}

static bool less_removes(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	bpf_rbtree_remove(&root, a);
	return true;
}

static bool less_first(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	return bpf_rbtree_first(&root) == a;
}

static bool less_unlocks(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	bpf_spin_unlock(&lock);
	return true;
}

static bool less_helper(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	return bpf_get_prandom_u32() & 1;
}

static bool less_writes(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	container_of(a, struct node, rb)->value = 1;
	return false;
}

static u64 less_wide(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	return container_of(a, struct node, rb)->key;
}

SEC("tc")
int insert(struct __sk_buff *skb)
{
	struct node *one = new(struct node), *two;

	if (!one)
		return 0;
	two = new(struct node);
	if (!two) {
		drop(one);
		return 0;
	}
	one->key = skb->len;
	two->key = 3;
	bpf_spin_lock(&lock);
	add(&root, &one->rb, less);
	add(&root, &two->rb, less);
	one->value = 4;
	bpf_spin_unlock(&lock);
	return 0;
}

SEC("tc")
int remove_first(struct __sk_buff *skb)
{
	struct bpf_rb_node *rb;
	u64 key = 0;

	bpf_spin_lock(&lock);
	rb = bpf_rbtree_first(&root);
	if (!rb) {
		bpf_spin_unlock(&lock);
		return 0;
	}
	key = container_of(rb, struct node, rb)->key;
	rb = bpf_rbtree_remove(&root, rb);
	bpf_spin_unlock(&lock);
	if (!rb)
		return key;
	drop(container_of(rb, struct node, rb));
	return key;
}

SEC("tc")
int insert_remove(struct __sk_buff *skb)
{
	struct node *one = new(struct node);
	struct bpf_rb_node *rb;

	if (!one)
		return 0;
	bpf_spin_lock(&lock);
	add(&root, &one->rb, less);
	rb = bpf_rbtree_remove(&root, &one->rb);
	bpf_spin_unlock(&lock);
	if (rb)
		drop(container_of(rb, struct node, rb));
	return 0;
}

SEC("tc")
int share(struct __sk_buff *skb)
{
	struct shared *one = new(struct shared), *again;

	if (!one)
		return 0;
	one->key = 1;
	again = acquire(one);
	if (!again) {
		drop(one);
		return 0;
	}
	bpf_spin_lock(&shared_lock);
	add(&tree, &one->rb, shared_less);
	push_back(&list, &again->link);
	bpf_spin_unlock(&shared_lock);
	return 0;
}

SEC("tc")
int acquire_pushed(struct __sk_buff *skb)
{
	struct shared *one = new(struct shared), *again;

	if (!one)
		return 0;
	bpf_spin_lock(&shared_lock);
	add(&tree, &one->rb, shared_less);
	again = acquire(one);
	bpf_spin_unlock(&shared_lock);
	if (!again)
		return 0;
	again->key = 7;
	drop(again);
	return 0;
}

SEC("tc")
int acquire_leak(struct __sk_buff *skb)
{
	struct shared *one = new(struct shared);

	if (!one)
		return 0;
	acquire(one);
	drop(one);
	return 0;
}

SEC("tc")
int acquire_no_count(struct __sk_buff *skb)
{
	struct node *one = new(struct node), *again;

	if (!one)
		return 0;
	again = acquire(one);
	if (again)
		drop(again);
	drop(one);
	return 0;
}

SEC("tc")
int acquire_map_value(struct __sk_buff *skb)
{
	void *again = acquire(&list);

	if (again)
		drop(again);
	return 0;
}

SEC("tc")
int root_child(struct __sk_buff *skb)
{
	struct bpf_rb_node *rb;
	u64 key = 0;

	bpf_spin_lock(&lock);
	rb = bpf_rbtree_root(&root);
	if (rb) {
		rb = bpf_rbtree_left(&root, rb);
		if (rb)
			key = container_of(rb, struct node, rb)->key;
	}
	bpf_spin_unlock(&lock);
	return key;
}

SEC("tc")
int first_unlocked(struct __sk_buff *skb)
{
	return !!bpf_rbtree_first(&root);
}

SEC("tc")
int first_kept(struct __sk_buff *skb)
{
	struct bpf_rb_node *rb;

	bpf_spin_lock(&lock);
	rb = bpf_rbtree_first(&root);
	bpf_spin_unlock(&lock);
	return rb ? container_of(rb, struct node, rb)->key : 0;
}

SEC("tc")
int first_unchecked(struct __sk_buff *skb)
{
	u64 key;

	bpf_spin_lock(&lock);
	key = *(volatile u64 *)((void *)bpf_rbtree_first(&root) + 32);
	bpf_spin_unlock(&lock);
	return key;
}

SEC("tc")
int first_dropped(struct __sk_buff *skb)
{
	struct bpf_rb_node *rb;

	bpf_spin_lock(&lock);
	rb = bpf_rbtree_first(&root);
	if (rb)
		drop(container_of(rb, struct node, rb));
	bpf_spin_unlock(&lock);
	return 0;
}

SEC("tc")
int add_first(struct __sk_buff *skb)
{
	struct bpf_rb_node *rb;

	bpf_spin_lock(&lock);
	rb = bpf_rbtree_first(&root);
	if (rb)
		add(&root, rb, less);
	bpf_spin_unlock(&lock);
	return 0;
}

SEC("tc")
int remove_owned(struct __sk_buff *skb)
{
	struct node *one = new(struct node);
	struct bpf_rb_node *rb;

	if (!one)
		return 0;
	bpf_spin_lock(&lock);
	rb = bpf_rbtree_remove(&root, &one->rb);
	bpf_spin_unlock(&lock);
	if (rb)
		drop(container_of(rb, struct node, rb));
	drop(one);
	return 0;
}

SEC("tc")
int remove_leak(struct __sk_buff *skb)
{
	struct bpf_rb_node *rb;

	bpf_spin_lock(&lock);
	rb = bpf_rbtree_first(&root);
	if (rb)
		bpf_rbtree_remove(&root, rb);
	bpf_spin_unlock(&lock);
	return 0;
}

SEC("tc")
int remove_twice(struct __sk_buff *skb)
{
	struct bpf_rb_node *rb, *one, *two;

	bpf_spin_lock(&lock);
	rb = bpf_rbtree_first(&root);
	if (!rb) {
		bpf_spin_unlock(&lock);
		return 0;
	}
	one = bpf_rbtree_remove(&root, rb);
	two = bpf_rbtree_remove(&root, rb);
	bpf_spin_unlock(&lock);
	if (one)
		drop(container_of(one, struct node, rb));
	if (two)
		drop(container_of(two, struct node, rb));
	return 0;
}

SEC("tc")
int wrong_root(struct __sk_buff *skb)
{
	struct node *one = new(struct node);

	if (!one)
		return 0;
	bpf_spin_lock(&shared_lock);
	add(&tree, &one->rb, less);
	bpf_spin_unlock(&shared_lock);
	return 0;
}

SEC("tc")
int list_of_tree(struct __sk_buff *skb)
{
	struct bpf_list_node *node;

	bpf_spin_lock(&shared_lock);
	node = bpf_list_pop_front((struct bpf_list_head *)&tree);
	bpf_spin_unlock(&shared_lock);
	if (node)
		drop(container_of(node, struct shared, link));
	return 0;
}

SEC("tc")
int add_no_callback(struct __sk_buff *skb)
{
	struct node *one = new(struct node);

	if (!one)
		return 0;
	bpf_spin_lock(&lock);
	add(&root, &one->rb, NULL);
	bpf_spin_unlock(&lock);
	return 0;
}

#define ADDS(name, callback)                       \
	SEC("tc")                                  \
	int name(struct __sk_buff *skb)            \
	{                                          \
		struct node *one = new(struct node); \
		if (!one)                          \
			return 0;                  \
		bpf_spin_lock(&lock);              \
		add(&root, &one->rb, (void *)callback); \
		bpf_spin_unlock(&lock);            \
		return 0;                          \
	}

ADDS(callback_removes, less_removes)
ADDS(callback_first, less_first)
ADDS(callback_unlocks, less_unlocks)
ADDS(callback_helper, less_helper)
ADDS(callback_writes, less_writes)
ADDS(callback_wide, less_wide)
