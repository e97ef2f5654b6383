#include "typed.h"

LICENSE("GPL");

struct rq {
	int cpu;
	struct task_struct *curr;
} __core;

extern const struct rq runqueues __ksym __weak;
extern const unsigned long this_cpu_off __ksym __weak;
extern const int no_such_variable __ksym __weak;
extern const void init_task __ksym;
extern void bpf_no_such_function(int) __ksym __weak;

u64 seen;

SEC("raw_tp/sys_enter")
int of_processor(void *ctx)
{
	struct rq *rq = bpf_per_cpu_ptr(&runqueues, bpf_get_smp_processor_id());

	if (rq)
		seen = rq->cpu;
	return 0;
}

SEC("raw_tp/sys_enter")
int unchecked(void *ctx)
{
	struct rq *rq = bpf_per_cpu_ptr(&runqueues, 3);

	seen = rq->cpu;
	return 0;
}

SEC("raw_tp/sys_enter")
int of_this_processor(void *ctx)
{
	struct rq *rq = bpf_this_cpu_ptr(&runqueues);
	unsigned long *off = bpf_this_cpu_ptr(&this_cpu_off);

	seen = rq->curr->pid + *off;
	return 0;
}

SEC("raw_tp/sys_enter")
int behind(void *ctx)
{
	unsigned long *off = bpf_this_cpu_ptr(&this_cpu_off);

	seen = off[1];
	return 0;
}

SEC("raw_tp/sys_enter")
int writes(void *ctx)
{
	unsigned long *off = bpf_this_cpu_ptr(&this_cpu_off);

	*off = 1;
	return 0;
}

SEC("raw_tp/sys_enter")
int directly(void *ctx)
{
	seen = *(volatile int *)&runqueues.cpu;
	return 0;
}

SEC("raw_tp/sys_enter")
int missing(void *ctx)
{
	if (&no_such_variable)
		seen = no_such_variable;
	if (bpf_no_such_function)
		bpf_no_such_function(1);
	seen += (u64)&init_task;
	return 0;
}

SEC("raw_tp/sys_enter")
int missing_unchecked(void *ctx)
{
	bpf_no_such_function(1);
	return 0;
}

SEC("raw_tp/sys_enter")
int symbol_is_a_number(void *ctx)
{
	seen = *(volatile u64 *)&init_task;
	return 0;
}

SEC("xdp")
int in_packets(struct xdp_md *ctx)
{
	struct rq *rq = bpf_this_cpu_ptr(&runqueues);

	return rq->cpu == 0 ? XDP_PASS : XDP_DROP;
}
