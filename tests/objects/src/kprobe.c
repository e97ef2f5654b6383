#include "bpf.h"

LICENSE("GPL");

struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs,
		flags, sp, ss;
};

struct {
	__uint(type, HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, u64);
} starts SEC(".maps");

SEC("kprobe/vfs_read")
int enter(struct pt_regs *ctx)
{
	u64 id = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns();

	if (ctx->dx > 0)
		bpf_map_update_elem(&starts, &id, &now, 0);
	return 0;
}

SEC("kretprobe/vfs_read")
int leave(struct pt_regs *ctx)
{
	u64 id = bpf_get_current_pid_tgid(), *start = bpf_map_lookup_elem(&starts, &id);
	static const char format[] = "%d bytes in %llu ns\n";

	if (!start)
		return 0;
	bpf_trace_printk(format, sizeof(format), (int)ctx->ax, bpf_ktime_get_ns() - *start);
	bpf_map_delete_elem(&starts, &id);
	return 0;
}

SEC("kprobe")
int somewhere(struct pt_regs *ctx)
{
	return 0;
}
