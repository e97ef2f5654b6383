#include "bpf.h"

LICENSE("GPL");

/* One program for each way to attach; each counts in a variable of its own. */
const volatile u32 pid;
u64 tracepoints, raw, typed, entered, returned, samples, received, sent, seen, filtered, egress;

static __always_inline int ours(void)
{
	return !pid || bpf_get_current_pid_tgid() >> 32 == pid;
}

#define COUNT(variable) \
	do { \
		if (ours()) \
			__sync_fetch_and_add(&variable, 1); \
	} while (0)

SEC("tp/syscalls/sys_enter_getppid")
int on_tracepoint(void *ctx)
{
	COUNT(tracepoints);
	return 0;
}

SEC("raw_tp/sys_enter")
int on_raw(u64 *ctx)
{
	COUNT(raw);
	return 0;
}

SEC("tp_btf/sys_enter")
int on_typed(u64 *ctx)
{
	COUNT(typed);
	return 0;
}

SEC("uprobe/libc.so.6:getppid")
int on_entry(void *ctx)
{
	COUNT(entered);
	return 0;
}

SEC("uretprobe/libc.so.6:getppid")
int on_return(void *ctx)
{
	COUNT(returned);
	return 0;
}

SEC("perf_event")
int on_sample(void *ctx)
{
	__sync_fetch_and_add(&samples, 1);
	return 0;
}

SEC("xdp")
int on_receive(struct xdp_md *ctx)
{
	__sync_fetch_and_add(&received, 1);
	return XDP_PASS;
}

SEC("tc")
int on_ingress(struct __sk_buff *skb)
{
	__sync_fetch_and_add(&seen, 1);
	return 0;
}

SEC("tc/egress")
int on_egress(struct __sk_buff *skb)
{
	__sync_fetch_and_add(&sent, 1);
	return 0;
}

SEC("socket")
int on_packet(struct __sk_buff *skb)
{
	__sync_fetch_and_add(&filtered, 1);
	return 0;
}

SEC("cgroup_skb/egress")
int on_group(struct __sk_buff *skb)
{
	__sync_fetch_and_add(&egress, 1);
	return 1;
}
