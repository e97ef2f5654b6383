#include "bpf.h"

LICENSE("GPL");

/* Names that only [] reaches: of pybpf's own, and those that clang makes of static variables. */
u32 _memory, close;

/* What BPF_PROG() and bpf_printk() of libbpf's headers make of a program. */
static __attribute__((always_inline)) int ____hello(void)
{
	static const char ____fmt[] = "hello\n";

	bpf_trace_printk(____fmt, sizeof(____fmt), 0);
	return 0;
}

SEC("tp/syscalls/sys_enter_getppid")
int hello(void *ctx)
{
	static u32 count;

	count += 1;
	_memory += 1;
	close += 1;
	return ____hello();
}
