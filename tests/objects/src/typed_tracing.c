#include "typed.h"

LICENSE("GPL");

u64 seen;
char name[16];

/* Arguments of typed tracepoints are valid, and may be walked. */
SEC("tp_btf/sched_switch")
int walk(u64 *ctx)
{
	struct task_struct *next = (void *)ctx[2];

	seen = next->pid + next->real_parent->tgid;
	seen += next->group_leader->real_parent->mm->task_size;
	return 0;
}

SEC("tp_btf/sched_switch")
int numbers(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1];

	seen = ctx[0] & 1 ? ctx[3] : 0;
	seen += prev->comm[3] + prev->in_execve + prev->policy;
	return 0;
}

SEC("tp_btf/sched_switch")
int pointers_are_numbers(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1];

	seen = (u64)prev->stack;
	bpf_probe_read_kernel(name, sizeof(name), prev->stack);
	bpf_probe_read_kernel(name, sizeof(name), prev->comm);
	return 0;
}

SEC("tp_btf/sched_switch")
int list(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1];

	seen = (u64)prev->tasks.next->next->next;
	return 0;
}

SEC("tp_btf/sched_switch")
int narrow(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1];

	seen = *(volatile u8 *)&prev->pid + *((volatile u8 *)&prev->pid + 3);
	return 0;
}

SEC("tp_btf/task_newtask")
int current(u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	seen = task->pid;
	if (task != (void *)ctx[0])
		seen += task->real_parent->pid;
	return 0;
}

SEC("tp_btf/sys_enter")
int registers(u64 *ctx)
{
	unsigned long *regs = (void *)ctx[0];

	seen = regs[2] + ctx[1];
	return 0;
}

SEC("fentry/vfs_read")
int enter(u64 *ctx)
{
	struct file *file = (void *)ctx[0];

	seen = file->f_inode->i_ino + file->f_inode->i_sb->s_magic + file->f_flags + ctx[2];
	return 0;
}

SEC("fexit/vfs_read")
int leave(u64 *ctx)
{
	struct file *file = (void *)ctx[0];
	s64 result = ctx[4];

	if (result > 0)
		seen += result + file->f_flags;
	return 0;
}

SEC("fexit/vfs_read")
int arguments(u64 *ctx)
{
	u64 value = 0;

	if (!bpf_get_func_arg(ctx, 2, &value))
		seen = value;
	if (!bpf_get_func_ret(ctx, &value))
		seen += value;
	seen += bpf_get_func_arg_cnt(ctx) + bpf_get_func_ip(ctx);
	return 0;
}

SEC("fentry/dentry_open")
int path(u64 *ctx)
{
	bpf_d_path((void *)ctx[0], name, sizeof(name));
	return 0;
}

SEC("fmod_ret/security_file_permission")
int permit(u64 *ctx)
{
	struct file *file = (void *)ctx[0];
	int result = ctx[2];

	return file->f_flags ? result : 0;
}

struct {
	__uint(type, TASK_STORAGE);
	__uint(map_flags, 1);
	__type(key, int);
	__type(value, u64);
} per_task SEC(".maps");

SEC("tp_btf/sched_switch")
int store(u64 *ctx)
{
	u64 *value = bpf_task_storage_get(&per_task, (void *)ctx[1], 0, 1);

	if (value)
		*value += 1;
	return 0;
}

SEC("tp_btf/sched_switch")
int untrusted_leader(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1];
	u64 *value = bpf_task_storage_get(&per_task, prev->group_leader, 0, 1);

	if (value)
		*value += 1;
	return 0;
}

SEC("tp_btf/kfree_skb")
int may_be_null(u64 *ctx)
{
	struct sock *sk = (void *)ctx[3];

	if (sk)
		seen = sk->__sk_common.skc_family;
	return 0;
}

SEC("raw_tp/sched_switch")
int untyped(u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	seen = task->mm->exe_file->f_inode->i_ino;
	return 0;
}

struct {
	__uint(type, HASH);
	__uint(max_entries, 8);
	__type(key, int);
	__type(value, u64);
} table SEC(".maps");

struct bpf_map {
	u32 id;
	u32 max_entries;
	char name[16];
} __core;

SEC("tp_btf/sched_switch")
int map_fields(u64 *ctx)
{
	struct bpf_map *map = (void *)&table;

	seen = map->max_entries + map->name[2];
	return 0;
}
