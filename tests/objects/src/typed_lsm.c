#include "typed.h"

LICENSE("GPL");

u64 seen;
char name[16];

SEC("lsm/file_open")
int open(u64 *ctx)
{
	struct file *file = (void *)ctx[0];

	seen = file->f_inode->i_ino;
	return (int)ctx[1];
}

SEC("lsm/file_open")
int denies(u64 *ctx)
{
	return -1;
}

SEC("lsm/file_open")
int returns_one(u64 *ctx)
{
	return 1;
}

SEC("lsm/file_open")
int returns_anything(u64 *ctx)
{
	return bpf_get_prandom_u32();
}

SEC("lsm.s/file_open")
int path(u64 *ctx)
{
	struct file *file = (void *)ctx[0];

	bpf_d_path(&file->f_path, name, sizeof(name));
	return 0;
}

SEC("lsm.s/bprm_committed_creds")
int nothing(u64 *ctx)
{
	struct linux_binprm *bprm = (void *)ctx[0];

	seen = bprm->file->f_inode->i_ino;
	bpf_probe_read_kernel(name, sizeof(name), bprm->filename);
	return 5;
}

SEC("lsm/inode_permission")
int mask(u64 *ctx)
{
	struct inode *inode = (void *)ctx[0];

	return inode->i_ino == 1 && (int)ctx[1] == 2 ? -13 : 0;
}

SEC("lsm.s/inode_permission")
int may_not_sleep(u64 *ctx)
{
	return 0;
}

SEC("lsm/task_free")
int freed(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	seen = task->pid;
	return 0;
}

SEC("lsm/inode_xattr_skipcap")
int skip(u64 *ctx)
{
	return 1;
}

SEC("lsm/getprocattr")
int disabled(u64 *ctx)
{
	return 0;
}

SEC("lsm/no_such_hook")
int no_hook(u64 *ctx)
{
	return 0;
}

SEC("lsm/func_proto")
int no_hook_either(u64 *ctx)
{
	return 0;
}

SEC("lsm/file_open")
int writes_argument(u64 *ctx)
{
	ctx[0] = 0;
	return 0;
}

SEC("lsm/mmap_file")
int file_or_null(u64 *ctx)
{
	struct file *file = (void *)ctx[0];

	if (file)
		seen = file->f_flags;
	return 0;
}

SEC("lsm/mmap_file")
int file_not_null(u64 *ctx)
{
	struct file *file = (void *)ctx[0];

	seen = file->f_flags;
	return 0;
}

SEC("lsm_cgroup/socket_create")
int in_cgroup(u64 *ctx)
{
	return 1;
}

SEC("lsm_cgroup/socket_create")
int in_cgroup_two(u64 *ctx)
{
	return 2;
}

SEC("lsm_cgroup/task_free")
int in_cgroup_void(u64 *ctx)
{
	return 0;
}
