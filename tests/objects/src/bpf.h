/* What the programs here need of eBPF, so that they compile without the headers of any package. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef _Bool bool;
enum { false, true };

#define SEC(name) __attribute__((section(name), used))
#define LICENSE(name) char _license[] SEC("license") = name
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __weak __attribute__((weak))
#define __hidden __attribute__((visibility("hidden")))
#define __ksym __attribute__((section(".ksyms")))
#define __kconfig __attribute__((section(".kconfig")))
#define __core __attribute__((preserve_access_index))
#define NULL ((void *)0)

/* A map is declared by the types of members that are never read. */
#define __uint(name, number) int(*name)[number]
#define __ulong(name, number) enum { name##__value = number } name
#define __type(name, type) typeof(type) *name
#define __array(name, type) typeof(type) *name[]

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define htons(x) __builtin_bswap16(x)
#define htonl(x) __builtin_bswap32(x)
#else
#define htons(x) (x)
#define htonl(x) (x)
#endif

enum map_type {
	HASH = 1,
	ARRAY,
	PROG_ARRAY,
	PERF_EVENT_ARRAY,
	PERCPU_HASH,
	PERCPU_ARRAY,
	STACK_TRACE,
	CGROUP_ARRAY,
	LRU_HASH,
	LRU_PERCPU_HASH,
	LPM_TRIE,
	ARRAY_OF_MAPS,
	HASH_OF_MAPS,
	DEVMAP,
	SOCKMAP,
	CPUMAP,
	XSKMAP,
	SOCKHASH,
	CGROUP_STORAGE,
	REUSEPORT_SOCKARRAY,
	PERCPU_CGROUP_STORAGE,
	QUEUE,
	STACK,
	SK_STORAGE,
	DEVMAP_HASH,
	STRUCT_OPS,
	RINGBUF,
	INODE_STORAGE,
	TASK_STORAGE,
	BLOOM_FILTER,
	USER_RINGBUF,
};

/* Helper functions: their numbers are those of enum bpf_func_id. */
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value,
				   u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static long (*bpf_probe_read)(void *to, u32 size, const void *from) = (void *)4;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static long (*bpf_trace_printk)(const char *format, u32 size, ...) = (void *)6;
static u32 (*bpf_get_prandom_u32)(void) = (void *)7;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static long (*bpf_skb_store_bytes)(void *skb, u32 offset, const void *from, u32 size,
				   u64 flags) = (void *)9;
static long (*bpf_l3_csum_replace)(void *skb, u32 offset, u64 from, u64 to, u64 size) = (void *)10;
static long (*bpf_tail_call)(void *ctx, void *map, u32 index) = (void *)12;
static u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static u64 (*bpf_get_current_uid_gid)(void) = (void *)15;
static long (*bpf_get_current_comm)(void *to, u32 size) = (void *)16;
static long (*bpf_redirect)(u32 index, u64 flags) = (void *)23;
static long (*bpf_perf_event_output)(void *ctx, void *map, u64 flags, void *data,
				     u64 size) = (void *)25;
static long (*bpf_skb_load_bytes)(const void *skb, u32 offset, void *to, u32 size) = (void *)26;
static long (*bpf_get_stackid)(void *ctx, void *map, u64 flags) = (void *)27;
static u64 (*bpf_get_current_task)(void) = (void *)35;
static long (*bpf_skb_pull_data)(void *skb, u32 size) = (void *)39;
static long (*bpf_xdp_adjust_head)(void *ctx, int by) = (void *)44;
static long (*bpf_redirect_map)(void *map, u64 key, u64 flags) = (void *)51;
static long (*bpf_sk_redirect_map)(void *skb, void *map, u32 key, u64 flags) = (void *)52;
static long (*bpf_msg_redirect_map)(void *msg, void *map, u32 key, u64 flags) = (void *)60;
static void *(*bpf_get_local_storage)(void *map, u64 flags) = (void *)81;
static long (*bpf_sk_select_reuseport)(void *ctx, void *map, void *key, u64 flags) = (void *)82;
static long (*bpf_sk_release)(void *sock) = (void *)86;
static void *(*bpf_sk_lookup_tcp)(void *ctx, void *tuple, u32 size, u64 netns,
				  u64 flags) = (void *)84;
static long (*bpf_map_push_elem)(void *map, const void *value, u64 flags) = (void *)87;
static long (*bpf_map_pop_elem)(void *map, void *value) = (void *)88;
static long (*bpf_map_peek_elem)(void *map, void *value) = (void *)89;
static long (*bpf_spin_lock)(void *lock) = (void *)93;
static long (*bpf_spin_unlock)(void *lock) = (void *)94;
static long (*bpf_sysctl_get_name)(void *ctx, char *to, u64 size, u64 flags) = (void *)101;
static void *(*bpf_sk_storage_get)(void *map, void *sk, void *value, u64 flags) = (void *)107;
static long (*bpf_probe_read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*bpf_probe_read_user_str)(void *to, u32 size, const void *from) = (void *)114;
static long (*bpf_seq_write)(void *seq, const void *data, u32 size) = (void *)127;
static long (*bpf_ringbuf_output)(void *map, void *data, u64 size, u64 flags) = (void *)130;
static void *(*bpf_ringbuf_reserve)(void *map, u64 size, u64 flags) = (void *)131;
static void (*bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;
static void (*bpf_ringbuf_discard)(void *data, u64 flags) = (void *)133;
static void *(*bpf_per_cpu_ptr)(const void *variable, u32 cpu) = (void *)153;
static void *(*bpf_this_cpu_ptr)(const void *variable) = (void *)154;
static long (*bpf_for_each_map_elem)(void *map, void *callback, void *ctx, u64 flags) = (void *)164;
static long (*bpf_timer_init)(void *timer, void *map, u64 flags) = (void *)169;
static long (*bpf_timer_set_callback)(void *timer, void *callback) = (void *)170;
static long (*bpf_timer_start)(void *timer, u64 nsecs, u64 flags) = (void *)171;
static u64 (*bpf_get_func_ip)(void *ctx) = (void *)173;
static long (*bpf_loop)(u32 count, void *callback, void *ctx, u64 flags) = (void *)181;
static long (*bpf_strncmp)(const char *a, u32 size, const char *b) = (void *)182;
static long (*bpf_ringbuf_reserve_dynptr)(void *map, u32 size, u64 flags, void *to) = (void *)198;
static void (*bpf_ringbuf_submit_dynptr)(void *dynptr, u64 flags) = (void *)199;
static long (*bpf_dynptr_write)(void *dynptr, u32 offset, void *from, u32 size,
				u64 flags) = (void *)202;

struct xdp_md {
	u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

struct __sk_buff {
	u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority,
		ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid, data, data_end, napi_id,
		family, remote_ip4, local_ip4, remote_ip6[4], local_ip6[4], remote_port, local_port,
		data_meta;
};

struct ethhdr {
	u8 to[6], from[6];
	u16 proto;
};

struct iphdr {
	u8 ihl_version, tos;
	u16 length, id, fragment;
	u8 ttl, protocol;
	u16 check;
	u32 from, to;
};

struct tcphdr {
	u16 from, to;
	u32 seq, ack;
	u16 flags, window, check, urgent;
};

enum { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT };
#define ETH_P_IP 0x0800
#define BPF_F_CURRENT_CPU 0xffffffffULL
