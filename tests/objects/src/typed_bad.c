#include "typed.h"

LICENSE("GPL");

u64 seen;
char name[16];

SEC("tp_btf/sched_switch")
int writes(u64 *ctx)
{
	struct task_struct *next = (void *)ctx[2];

	next->pid = 1;
	return 0;
}

SEC("tp_btf/sched_switch")
int writes_context(u64 *ctx)
{
	ctx[0] = 1;
	return 0;
}

SEC("tp_btf/sched_switch")
int too_many_arguments(u64 *ctx)
{
	seen = ctx[4];
	return 0;
}

SEC("tp_btf/sched_switch")
int half_an_argument(u64 *ctx)
{
	seen = *((volatile u32 *)ctx + 1);
	return 0;
}

SEC("tp_btf/sched_switch")
int narrow_pointer(u64 *ctx)
{
	seen = *((volatile u32 *)ctx + 4);
	return 0;
}

SEC("tp_btf/sched_switch")
int part_of_pointer(u64 *ctx)
{
	struct task_struct *next = (void *)ctx[2];

	seen = *(volatile u32 *)&next->mm;
	return 0;
}

SEC("tp_btf/sched_switch")
int behind(u64 *ctx)
{
	struct task_struct *next = (void *)ctx[2];

	seen = *(volatile u32 *)((char *)next + 30000);
	return 0;
}

SEC("tp_btf/sched_switch")
int before(u64 *ctx)
{
	struct task_struct *next = (void *)ctx[2];

	seen = *(volatile u32 *)((char *)next - 8);
	return 0;
}

SEC("tp_btf/sched_switch")
int variable(u64 *ctx)
{
	struct task_struct *next = (void *)ctx[2];

	seen = *(volatile u8 *)((char *)next + (ctx[3] & 7));
	return 0;
}

SEC("tp_btf/sched_switch")
int array_end(u64 *ctx)
{
	struct task_struct *next = (void *)ctx[2];

	seen = *(volatile u64 *)&next->comm[12];
	return 0;
}

SEC("tp_btf/kfree_skb")
int unchecked(u64 *ctx)
{
	struct sock *sk = (void *)ctx[3];

	seen = sk->__sk_common.skc_family;
	return 0;
}

SEC("tp_btf/no_such_tracepoint")
int no_tracepoint(u64 *ctx)
{
	return 0;
}

SEC("fentry/no_such_function")
int no_function(u64 *ctx)
{
	return 0;
}

SEC("fentry/vfs_read")
int result_of_entry(u64 *ctx)
{
	seen = ctx[4];
	return 0;
}

SEC("fexit/vfs_read")
int returns_one(u64 *ctx)
{
	return 1;
}

SEC("fmod_ret/vfs_read")
int not_modifiable(u64 *ctx)
{
	return 0;
}

SEC("fentry.s/vfs_read")
int may_not_sleep(u64 *ctx)
{
	return 0;
}

SEC("fentry/migrate_disable")
int denied(u64 *ctx)
{
	return 0;
}

SEC("fentry/vfs_read")
int no_path(u64 *ctx)
{
	struct file *file = (void *)ctx[0];

	bpf_d_path(&file->f_path, name, sizeof(name));
	return 0;
}

SEC("fentry/dentry_open")
int wrong_type(u64 *ctx)
{
	bpf_d_path((void *)ctx[2], name, sizeof(name));
	return 0;
}

struct {
	__uint(type, TASK_STORAGE);
	__uint(map_flags, 1);
	__type(key, int);
	__type(value, u64);
} per_task SEC(".maps");

SEC("fentry/vfs_read")
int file_as_task(u64 *ctx)
{
	u64 *value = bpf_task_storage_get(&per_task, (void *)ctx[0], 0, 1);

	if (value)
		*value += 1;
	return 0;
}

SEC("tp_btf/sched_switch")
int number_as_task(u64 *ctx)
{
	u64 *value = bpf_task_storage_get(&per_task, (void *)ctx[3], 0, 1);

	if (value)
		*value += 1;
	return 0;
}

SEC("tp_btf/sched_switch")
int member_as_task(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1];
	u64 *value = bpf_task_storage_get(&per_task, &prev->tasks, 0, 1);

	if (value)
		*value += 1;
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
int writes_map(u64 *ctx)
{
	struct bpf_map *map = (void *)&table;

	map->max_entries = 1;
	return 0;
}

SEC("tp_btf/sched_switch")
int behind_map(u64 *ctx)
{
	seen = *(volatile u64 *)((char *)&table + 16000);
	return 0;
}

/* The compiler leaves a member that the kernel has not to a relocation that poisons it. */
SEC("tp_btf/sched_switch")
int poisoned(u64 *ctx)
{
	struct task_struct *next = (void *)ctx[2];

	seen = next->no_such_member->f_flags;
	return 0;
}

SEC("xdp")
int structures_elsewhere(struct xdp_md *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return task->pid ? XDP_PASS : XDP_DROP;
}
