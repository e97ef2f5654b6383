/* What programs that own objects need: special members of structures, and kernel functions. */
#pragma once
#include "bpf.h"

#define __kptr __attribute__((btf_type_tag("kptr")))
#define __kptr_untrusted __attribute__((btf_type_tag("kptr_untrusted")))
#define __percpu_kptr __attribute__((btf_type_tag("percpu_kptr")))
#define __contains(name, node) __attribute__((btf_decl_tag("contains:" #name ":" #node)))
#define private(name) SEC(".data." #name) __hidden __attribute__((aligned(8)))
#define container_of(ptr, type, member) \
	((type *)((void *)(ptr) - __builtin_offsetof(type, member)))

struct bpf_spin_lock {
	u32 val;
};

struct bpf_list_head {
	u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_list_node {
	u64 opaque[3];
} __attribute__((aligned(8)));

struct bpf_rb_root {
	u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_rb_node {
	u64 opaque[4];
} __attribute__((aligned(8)));

struct bpf_refcount {
	u32 opaque[1];
} __attribute__((aligned(4)));

struct bpf_cpumask;

extern void *bpf_obj_new_impl(u64 type, void *meta) __ksym;
extern void bpf_obj_drop_impl(void *object, void *meta) __ksym;
extern void *bpf_percpu_obj_new_impl(u64 type, void *meta) __ksym;
extern void bpf_percpu_obj_drop_impl(void *object, void *meta) __ksym;
extern void *bpf_refcount_acquire_impl(void *object, void *meta) __ksym;
extern int bpf_list_push_front_impl(struct bpf_list_head *head, struct bpf_list_node *node,
				    void *meta, u64 off) __ksym;
extern int bpf_list_push_back_impl(struct bpf_list_head *head, struct bpf_list_node *node,
				   void *meta, u64 off) __ksym;
extern struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *head) __ksym;
extern struct bpf_list_node *bpf_list_pop_back(struct bpf_list_head *head) __ksym;
extern struct bpf_list_node *bpf_list_front(struct bpf_list_head *head) __ksym;
extern struct bpf_list_node *bpf_list_back(struct bpf_list_head *head) __ksym;
extern int bpf_rbtree_add_impl(struct bpf_rb_root *root, struct bpf_rb_node *node,
			       bool (*less)(struct bpf_rb_node *a, const struct bpf_rb_node *b),
			       void *meta, u64 off) __ksym;
extern struct bpf_rb_node *bpf_rbtree_remove(struct bpf_rb_root *root,
					     struct bpf_rb_node *node) __ksym;
extern struct bpf_rb_node *bpf_rbtree_first(struct bpf_rb_root *root) __ksym;
extern struct bpf_rb_node *bpf_rbtree_root(struct bpf_rb_root *root) __ksym;
extern struct bpf_rb_node *bpf_rbtree_left(struct bpf_rb_root *root,
					   struct bpf_rb_node *node) __ksym;
extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;
extern void bpf_throw(u64 cookie) __ksym;

static void *(*bpf_kptr_xchg)(void *place, void *object) = (void *)194;

#define new(type) ((type *)bpf_obj_new_impl(__builtin_btf_type_id(*(type *)0, 0), NULL))
#define new_percpu(type) \
	((type *)bpf_percpu_obj_new_impl(__builtin_btf_type_id(*(type *)0, 0), NULL))
#define drop(object) bpf_obj_drop_impl(object, NULL)
#define acquire(object) bpf_refcount_acquire_impl(object, NULL)
#define push_front(head, node) bpf_list_push_front_impl(head, node, NULL, 0)
#define push_back(head, node) bpf_list_push_back_impl(head, node, NULL, 0)
#define add(root, node, less) bpf_rbtree_add_impl(root, node, less, NULL, 0)
