#include "typed.h"

LICENSE("GPL");

struct bpf_iter_meta {
	void *seq;
	u64 session_id, seq_num;
} __core;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	u32 fd;
	struct file *file;
};

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	void *map;
	void *key;
	void *value;
};

u64 seen;

SEC("iter/task")
int tasks(struct bpf_iter__task *ctx)
{
	static const char format[] = "%d %d\n";
	struct task_struct *task = ctx->task;
	u64 values[2];

	if (!task)
		return 0;
	values[0] = task->pid;
	values[1] = ctx->meta->seq_num;
	bpf_seq_printf(ctx->meta->seq, format, sizeof(format), values, sizeof(values));
	return 0;
}

SEC("iter/task")
int tasks_unchecked(struct bpf_iter__task *ctx)
{
	seen = ctx->task->pid;
	return 0;
}

SEC("iter.s/task")
int tasks_slowly(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	u64 value = 0;

	if (task)
		bpf_copy_from_user(&value, sizeof(value), (void *)0x1000);
	return 0;
}

SEC("iter/task")
int again(struct bpf_iter__task *ctx)
{
	return 1;
}

SEC("iter/task")
int twice(struct bpf_iter__task *ctx)
{
	return 2;
}

SEC("iter/task_file")
int files(struct bpf_iter__task_file *ctx)
{
	struct file *file = ctx->file;
	struct task_struct *task = ctx->task;

	if (file && task && ctx->fd < 10)
		bpf_seq_write(ctx->meta->seq, &file->f_inode->i_ino, 8);
	return 0;
}

SEC("iter/task_file")
int sockets(struct bpf_iter__task_file *ctx)
{
	struct file *file = ctx->file;

	if (file && bpf_sock_from_file(file))
		seen++;
	return 0;
}

SEC("iter/bpf_map_elem")
int elements(struct bpf_iter__bpf_map_elem *ctx)
{
	u32 *key = ctx->key;
	u64 *value = ctx->value;

	if (!key || !value)
		return 0;
	seen += *key + *value;
	*value = 0;
	bpf_seq_write(ctx->meta->seq, key, 4);
	return 0;
}

SEC("iter/bpf_map_elem")
int writes_key(struct bpf_iter__bpf_map_elem *ctx)
{
	u32 *key = ctx->key;

	if (key)
		*key = 1;
	return 0;
}

SEC("iter/bpf_map_elem")
int key_unchecked(struct bpf_iter__bpf_map_elem *ctx)
{
	u32 *key = ctx->key;

	seen = *key;
	return 0;
}

SEC("iter/no_such_iterator")
int no_iterator(struct bpf_iter__task *ctx)
{
	return 0;
}

SEC("iter/run_prog")
int no_iterator_either(struct bpf_iter__task *ctx)
{
	return 0;
}

SEC("iter/task")
int not_the_helper(struct bpf_iter__task *ctx)
{
	u64 value;

	return bpf_get_func_arg(ctx, 0, &value);
}
