#include "bpf.h"

LICENSE("GPL");

/* A literal goes to .rodata.str1.1. */
SEC("tp/sched/sched_process_exec")
int compare(void *ctx)
{
	char comm[16];

	bpf_get_current_comm(comm, sizeof(comm));
	if (bpf_strncmp(comm, sizeof(comm), "a name") == 0) {
		static const char text[] = "found\n";

		bpf_trace_printk(text, sizeof(text));
	}
	return 0;
}
