#include "bpf.h"

LICENSE("GPL");

struct task_struct {
	int pid;
} __core;

struct no_such_struct {
	int x;
} __core;

union no_such_union {
	int x;
};

struct list_head {
	struct list_head *next, *prev;
};

typedef int no_such_typedef;
typedef u32 dev_t;

enum type_info { EXISTS, SIZE, MATCHES };
enum type_id { LOCAL, TARGET };

u64 result;

SEC("raw_tp/sys_enter")
int types(void *ctx)
{
	result = __builtin_btf_type_id(*(struct task_struct *)0, LOCAL);
	result += __builtin_btf_type_id(*(struct task_struct *)0, TARGET);
	result += __builtin_preserve_type_info(*(struct task_struct *)0, EXISTS);
	result += __builtin_preserve_type_info(*(struct no_such_struct *)0, EXISTS);
	result += __builtin_preserve_type_info(*(union no_such_union *)0, EXISTS);
	result += __builtin_preserve_type_info(*(no_such_typedef *)0, EXISTS);
	result += __builtin_preserve_type_info(*(struct list_head *)0, SIZE);
	result += __builtin_preserve_type_info(*(struct task_struct *)0, SIZE);
	result += __builtin_preserve_type_info(*(dev_t *)0, SIZE);
#if __clang_major__ >= 15
	result += __builtin_preserve_type_info(*(struct list_head *)0, MATCHES);
	result += __builtin_preserve_type_info(*(struct task_struct *)0, MATCHES);
#endif
	return 0;
}
