/* What the typed programs need of the kernel's structures: only the members that they use. */
#pragma once
#include "bpf.h"

static void *(*bpf_get_current_task_btf)(void) = (void *)158;
static void *(*bpf_task_storage_get)(void *map, void *task, void *value, u64 flags) = (void *)156;
static long (*bpf_d_path)(void *path, char *to, u32 size) = (void *)147;
static long (*bpf_seq_printf)(void *seq, const char *format, u32 size, const void *data,
			      u32 data_size) = (void *)126;
static long (*bpf_get_func_arg)(void *ctx, u32 number, u64 *value) = (void *)183;
static long (*bpf_get_func_ret)(void *ctx, u64 *value) = (void *)184;
static long (*bpf_get_func_arg_cnt)(void *ctx) = (void *)185;
static long (*bpf_copy_from_user)(void *to, u32 size, const void *from) = (void *)148;
static void *(*bpf_sock_from_file)(void *file) = (void *)162;
static void *(*bpf_task_pt_regs)(void *task) = (void *)175;
static void *(*bpf_skc_to_tcp_sock)(void *sock) = (void *)137;

struct path {
	void *dentry;
} __core;

struct file {
	struct path f_path;
	struct inode *f_inode;
	unsigned int f_flags;
	void *private_data;
} __core;

struct inode {
	unsigned long i_ino;
	struct super_block *i_sb;
} __core;

struct super_block {
	unsigned long s_magic;
} __core;

struct mm_struct {
	unsigned long task_size;
	struct file *exe_file;
} __core;

struct list_head {
	struct list_head *next;
} __core;

struct css_set {
	struct cgroup *dfl_cgrp;
} __core;

struct kernfs_node {
	u64 id;
} __core;

struct cgroup {
	int level;
	struct kernfs_node *kn;
} __core;

struct task_struct {
	int pid, tgid;
	char comm[16];
	unsigned long flags;
	unsigned int policy;
	unsigned in_execve : 1;
	struct mm_struct *mm;
	struct task_struct *real_parent, *group_leader;
	struct css_set *cgroups;
	const void *cpus_ptr;
	struct list_head tasks;
	void *stack;
	struct file *no_such_member;
} __core;

struct sock_common {
	unsigned short skc_family;
} __core;

struct sock {
	struct sock_common __sk_common;
} __core;

struct sk_buff {
	unsigned int len;
	struct sock *sk;
	char cb[48];
} __core;

struct linux_binprm {
	struct file *file;
	const char *filename;
} __core;
