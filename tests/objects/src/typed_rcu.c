#include "typed.h"

LICENSE("GPL");

extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;
extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern struct task_struct *bpf_task_acquire(struct task_struct *task) __ksym;
extern void bpf_task_release(struct task_struct *task) __ksym;
extern struct cgroup *bpf_cgroup_acquire(struct cgroup *cgroup) __ksym;
extern void bpf_cgroup_release(struct cgroup *cgroup) __ksym;

u64 seen;

SEC("tp_btf/task_newtask")
int acquire(u64 *ctx)
{
	struct task_struct *task = bpf_task_acquire((void *)ctx[0]);

	if (!task)
		return 0;
	seen = task->pid;
	bpf_task_release(task);
	return 0;
}

SEC("tp_btf/task_newtask")
int keep(u64 *ctx)
{
	struct task_struct *task = bpf_task_acquire((void *)ctx[0]);

	if (task)
		seen = task->pid;
	return 0;
}

SEC("tp_btf/task_newtask")
int unchecked(u64 *ctx)
{
	struct task_struct *task = bpf_task_from_pid(1);

	seen = task->pid;
	bpf_task_release(task);
	return 0;
}

SEC("tp_btf/task_newtask")
int after_release(u64 *ctx)
{
	struct task_struct *task = bpf_task_from_pid(1);

	if (!task)
		return 0;
	bpf_task_release(task);
	seen = task->pid;
	return 0;
}

SEC("tp_btf/task_newtask")
int release_argument(u64 *ctx)
{
	bpf_task_release((void *)ctx[0]);
	return 0;
}

SEC("tp_btf/task_newtask")
int release_twice(u64 *ctx)
{
	struct task_struct *task = bpf_task_from_pid(1);

	if (!task)
		return 0;
	bpf_task_release(task);
	bpf_task_release(task);
	return 0;
}

SEC("tp_btf/task_newtask")
int acquire_parent(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	task = bpf_task_acquire(task->real_parent);
	if (task)
		bpf_task_release(task);
	return 0;
}

SEC("tp_btf/task_newtask")
int acquire_grandparent(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	task = bpf_task_acquire(task->real_parent->real_parent);
	if (task)
		bpf_task_release(task);
	return 0;
}

SEC("tp_btf/task_newtask")
int walked(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct cgroup *cgroup = bpf_cgroup_acquire(task->cgroups->dfl_cgrp);

	if (!cgroup)
		return 0;
	seen = cgroup->level + cgroup->kn->id;
	bpf_cgroup_release(cgroup);
	return 0;
}

SEC("tp_btf/task_newtask")
int not_listed(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	task = bpf_task_acquire((void *)task->mm);
	if (task)
		bpf_task_release(task);
	return 0;
}

SEC("lsm.s/file_open")
int sleeps_outside(u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	task = bpf_task_acquire(task->real_parent);
	if (task)
		bpf_task_release(task);
	return 0;
}

SEC("lsm.s/file_open")
int sleeps_inside(u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	bpf_rcu_read_lock();
	task = bpf_task_acquire(task->real_parent);
	bpf_rcu_read_unlock();
	if (task)
		bpf_task_release(task);
	return 0;
}

SEC("lsm.s/file_open")
int sleeps_too_late(u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	bpf_rcu_read_lock();
	task = task->real_parent;
	bpf_rcu_read_unlock();
	task = bpf_task_acquire(task);
	if (task)
		bpf_task_release(task);
	return 0;
}

SEC("lsm.s/file_open")
int reads_too_late(u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	bpf_rcu_read_lock();
	task = task->real_parent;
	bpf_rcu_read_unlock();
	seen = task->pid;
	return 0;
}

SEC("lsm.s/file_open")
int locked_for_ever(u64 *ctx)
{
	bpf_rcu_read_lock();
	return 0;
}

SEC("fentry/vfs_read")
int not_trusted(u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	task = bpf_task_acquire(task->group_leader);
	if (task)
		bpf_task_release(task);
	return 0;
}
