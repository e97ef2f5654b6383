#include "bpf.h"

LICENSE("GPL");

enum pid_type { PIDTYPE_PID, PIDTYPE_TGID, PIDTYPE_NOT_THERE = 77 };
enum no_such_enum { NO_VALUE = 5 };
enum { EXISTS, VALUE };

#define INFO(type, value, kind) __builtin_preserve_enum_value(*(typeof(enum type) *)value, kind)

u64 result;

SEC("raw_tp/sys_enter")
int enums(void *ctx)
{
	result = INFO(pid_type, PIDTYPE_TGID, EXISTS) + INFO(pid_type, PIDTYPE_TGID, VALUE);
	result += INFO(pid_type, PIDTYPE_NOT_THERE, EXISTS);
	result += INFO(no_such_enum, NO_VALUE, EXISTS);
	return 0;
}
