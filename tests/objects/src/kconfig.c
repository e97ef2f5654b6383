#include "bpf.h"

LICENSE("GPL");

extern u32 LINUX_KERNEL_VERSION __kconfig;
extern u32 CONFIG_HZ __kconfig __weak;
extern bool CONFIG_BPF_SYSCALL __kconfig __weak;
extern char CONFIG_NOT_THERE __kconfig __weak;

u64 result;

SEC("raw_tp/sys_enter")
int use(void *ctx)
{
	result = LINUX_KERNEL_VERSION + CONFIG_HZ + CONFIG_BPF_SYSCALL;
	if (CONFIG_NOT_THERE)
		result = 0;
	return 0;
}
