#include "bpf.h"

LICENSE("GPL");

extern const void init_task __ksym;
extern const int runqueues_not_there __ksym __weak;
extern const unsigned long this_cpu_off __ksym __weak;

u64 address, missing;

SEC("raw_tp/sys_enter")
int use(void *ctx)
{
	address = (u64)&init_task;
	missing = (u64)&runqueues_not_there;
	return 0;
}
