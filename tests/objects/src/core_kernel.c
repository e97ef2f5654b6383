#include "bpf.h"

LICENSE("GPL");

/* Types that kernels have in different shapes, and every kind of question about them. */
#pragma clang attribute push(__core, apply_to = record)

struct list_head {
	struct list_head *next, *prev;
};

struct qspinlock {
	union {
		struct {
			int counter;
		} val;
		struct {
			u8 locked;
			u8 pending;
		};
	};
};

struct nsproxy {
	void *mnt_ns;
	void *net_ns;
};

struct task_struct {
	unsigned int __state;
	int pid;
	int tgid;
	char comm[16];
	struct task_struct *group_leader;
	struct list_head tasks;
	struct nsproxy *nsproxy;
	unsigned sched_reset_on_fork : 1;
	unsigned in_execve : 1;
	unsigned in_iowait : 1;
	unsigned no_new_privs : 1;
	u64 start_boottime;
	struct {
		u64 key;
	} stack_canary;
	unsigned int policy;
	long no_such_field;
};

struct task_struct___old {
	long state;
	u64 real_start_time;
};

struct sk_buff {
	union {
		struct {
			struct sk_buff *next;
			struct sk_buff *prev;
			union {
				void *dev;
				unsigned long dev_scratch;
			};
		};
	};
	unsigned int len, data_len;
	u16 queue_mapping;
	u8 cloned : 1, nohdr : 1, fclone : 2, peeked : 1, head_frag : 1;
	u8 pkt_type : 3;
	u8 ip_summed : 2;
	u16 network_header;
	unsigned char *head, *data;
};

struct sock_common {
	union {
		u64 skc_addrpair;
		struct {
			u32 skc_daddr;
			u32 skc_rcv_saddr;
		};
	};
	u16 skc_family;
	volatile u8 skc_state;
	u8 skc_reuse : 4;
	u8 skc_reuseport : 1;
};

struct sock {
	struct sock_common __sk_common;
	int sk_rcvbuf;
	u16 sk_type;
	u16 sk_protocol;
};

struct bio {
	unsigned int bi_opf;
	u16 bi_flags;
	struct {
		unsigned int bi_size;
	} bi_iter;
};

struct request {
	void *rq_disk;
};

struct request_queue {
	void *disk;
};

struct trace_event_raw_sys_enter {
	long id;
	unsigned long args[6];
	char __data[];
};

struct bpf_map_ops {
	int no_such_operation;
};

#pragma clang attribute pop

enum bpf_map_type { BPF_MAP_TYPE_RINGBUF = 1, BPF_MAP_TYPE_ARENA = 2 };
enum bpf_func_id { BPF_FUNC_ktime_get_tai_ns = 3, BPF_FUNC_no_such_helper = 4 };
enum cpu_usage_stat___x { CPUTIME_IRQ = 1, CPUTIME_FORCEIDLE = 2 };
enum pid_type { PIDTYPE_PID };
typedef u32 dev_t;
typedef u64 sector_t;
typedef void (*smp_call_func_t)(void *);
typedef int (*cmp_func_t)(const void *, const void *);
typedef struct {
	int counter;
} atomic_t;

enum field { OFFSET, SIZE, EXISTS, SIGNED, LSHIFT, RSHIFT };
enum type { THERE, BYTES, MATCHES };
enum enumeration { VALUE_EXISTS, VALUE };
#define FIELD(f, kind) __builtin_preserve_field_info(f, kind)
#define ALL(f)                                                                                     \
	(FIELD(f, OFFSET) + FIELD(f, SIZE) + FIELD(f, EXISTS) + FIELD(f, SIGNED) +                 \
	 FIELD(f, LSHIFT) + FIELD(f, RSHIFT))
#define PTR(f) (FIELD(f, OFFSET) + FIELD(f, SIZE) + FIELD(f, EXISTS))
#define TYPE(t, kind) __builtin_preserve_type_info(*(typeof(t) *)0, kind)
#define ENUM(e, v, kind) __builtin_preserve_enum_value(*(typeof(enum e) *)v, kind)

u64 result;

/* Relocated in each program that calls it. */
static __noinline u64 state_of(struct task_struct *task)
{
	struct task_struct___old *old = (void *)task;
	u64 state = 0;

	if (FIELD(task->__state, EXISTS))
		bpf_probe_read_kernel(&state, FIELD(task->__state, SIZE) & 7, &task->__state);
	else
		bpf_probe_read_kernel(&state, sizeof(long), &old->state);
	return state;
}

SEC("raw_tp/sched_switch")
int tasks(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[1];
	struct task_struct___old *old = (void *)ctx[1];
	u64 sum = 0;

	sum += ALL(task->__state) + ALL(task->pid) + PTR(task->group_leader);
	sum += FIELD(task->comm, OFFSET) + FIELD(task->comm[3], OFFSET) + FIELD(task->comm[3], SIZE);
	sum += FIELD(task->comm[15], EXISTS);
	sum += PTR(task->tasks.prev) + ALL(task->start_boottime) + ALL(task->policy);
	sum += ALL(task->sched_reset_on_fork) + ALL(task->in_execve) + ALL(task->in_iowait);
	sum += FIELD(task->no_new_privs, EXISTS) + FIELD(task->stack_canary.key, EXISTS);
	sum += FIELD(task->no_such_field, EXISTS) + FIELD(task->stack_canary, EXISTS);
	sum += ALL(old->state) + ALL(old->real_start_time);
	sum += FIELD(task->nsproxy, OFFSET) + PTR(((struct nsproxy *)sum)->net_ns);
	result = sum + state_of(task);
	return 0;
}

SEC("raw_tp/netif_receive_skb")
int network(u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	struct sock *sk = (void *)ctx[1];
	u64 sum = 0;

	sum += PTR(skb->next) + PTR(skb->dev) + ALL(skb->dev_scratch) + ALL(skb->len);
	sum += ALL(skb->queue_mapping) + ALL(skb->cloned) + ALL(skb->fclone) + ALL(skb->peeked);
	sum += ALL(skb->head_frag) + ALL(skb->pkt_type) + ALL(skb->ip_summed);
	sum += ALL(skb->network_header) + PTR(skb->head) + PTR(skb->data);
	sum += ALL(sk->__sk_common.skc_addrpair) + ALL(sk->__sk_common.skc_rcv_saddr);
	sum += ALL(sk->__sk_common.skc_family) + ALL(sk->__sk_common.skc_state);
	sum += ALL(sk->__sk_common.skc_reuse) + ALL(sk->__sk_common.skc_reuseport);
	sum += ALL(sk->sk_rcvbuf) + ALL(sk->sk_type) + ALL(sk->sk_protocol);
	result = sum;
	return 0;
}

SEC("raw_tp/sys_enter")
int others(u64 *ctx)
{
	struct trace_event_raw_sys_enter *event = (void *)ctx;
	struct bio *bio = (void *)ctx[0];
	struct request *request = (void *)ctx[0];
	struct request_queue *queue = (void *)ctx[0];
	struct qspinlock *lock = (void *)ctx[0];
	struct bpf_map_ops *ops = (void *)ctx[0];
	u64 sum = 0;

	sum += ALL(event->id) + FIELD(event->args[5], OFFSET) + FIELD(event->__data[9], OFFSET);
	sum += ALL(bio->bi_opf) + ALL(bio->bi_flags) + ALL(bio->bi_iter.bi_size);
	sum += PTR(request->rq_disk) + PTR(queue->disk) + ALL(lock->val.counter) + ALL(lock->pending);
	sum += FIELD(ops->no_such_operation, EXISTS) + FIELD(ops->no_such_operation, SIZE);
	result = sum;
	return 0;
}

SEC("raw_tp/sys_exit")
int types(u64 *ctx)
{
	u64 sum = 0;

	sum += __builtin_btf_type_id(*(struct task_struct *)0, 1) + TYPE(struct task_struct, BYTES);
	sum += __builtin_btf_type_id(*(atomic_t *)0, 1) + TYPE(atomic_t, BYTES);
	sum += TYPE(atomic_t, THERE) + TYPE(dev_t, THERE) + TYPE(dev_t, BYTES);
	sum += TYPE(sector_t, BYTES) + TYPE(smp_call_func_t, THERE) + TYPE(cmp_func_t, THERE);
	sum += TYPE(struct sk_buff, BYTES) + TYPE(enum pid_type, THERE) + TYPE(enum pid_type, BYTES);
	sum += TYPE(struct request_queue, THERE) + TYPE(struct qspinlock, BYTES);
#if __clang_major__ >= 15
	sum += TYPE(struct list_head, MATCHES) + TYPE(struct task_struct, MATCHES);
	sum += TYPE(atomic_t, MATCHES) + TYPE(dev_t, MATCHES) + TYPE(sector_t, MATCHES);
	sum += TYPE(smp_call_func_t, MATCHES) + TYPE(cmp_func_t, MATCHES);
	sum += TYPE(enum pid_type, MATCHES) + TYPE(enum bpf_map_type, MATCHES);
	sum += TYPE(struct sock_common, MATCHES) + TYPE(struct qspinlock, MATCHES);
	sum += TYPE(struct trace_event_raw_sys_enter, MATCHES);
#endif
	result = sum;
	return 0;
}

SEC("raw_tp/sched_wakeup")
int values(u64 *ctx)
{
	u64 sum = 0;

	sum += ENUM(bpf_map_type, BPF_MAP_TYPE_RINGBUF, VALUE);
	sum += ENUM(bpf_map_type, BPF_MAP_TYPE_ARENA, VALUE_EXISTS);
	sum += ENUM(bpf_map_type, BPF_MAP_TYPE_ARENA, VALUE);
	sum += ENUM(bpf_func_id, BPF_FUNC_ktime_get_tai_ns, VALUE);
	sum += ENUM(bpf_func_id, BPF_FUNC_no_such_helper, VALUE_EXISTS);
	sum += ENUM(cpu_usage_stat___x, CPUTIME_IRQ, VALUE);
	/* What is not there takes two slots, which jumps go over. */
	if (ENUM(bpf_map_type, BPF_MAP_TYPE_ARENA, VALUE_EXISTS) && ctx[0])
		sum *= ENUM(bpf_map_type, BPF_MAP_TYPE_ARENA, VALUE);
	else if (ctx[1])
		sum += state_of((void *)ctx[1]);
	sum += ENUM(cpu_usage_stat___x, CPUTIME_FORCEIDLE, VALUE_EXISTS);
	result = sum;
	return 0;
}
