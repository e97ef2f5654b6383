#include "bpf.h"

LICENSE("GPL");

struct openat {
	u64 common;
	u64 number, dfd, filename, flags, mode;
};

struct event {
	u32 pid;
	char comm[16];
	char name[64];
};

struct {
	__uint(type, RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

SEC("tracepoint/syscalls/sys_enter_openat")
int record(struct openat *ctx)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event)
		return 0;
	event->pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	if (bpf_probe_read_user_str(event->name, sizeof(event->name), (void *)ctx->filename) < 0)
		bpf_ringbuf_discard(event, 0);
	else
		bpf_ringbuf_submit(event, 0);
	return 0;
}

/* The same section twice: two programs for one tracepoint. */
SEC("tracepoint/syscalls/sys_enter_openat")
int nothing(struct openat *ctx)
{
	return 0;
}

SEC("?tp/sched/sched_switch")
int only_if_asked_for(void *ctx)
{
	return 0;
}
