/*
 * The door to the kernel: bpf(2) and detached mounts. (Perf events and rings are in rings.c.)
 *
 * Nothing here decides anything: arguments become the kernel's structures, results come back as
 * they are or as -errno. Nothing is allocated. The structures of the kernel's interface are written
 * out below, so that an old <linux/bpf.h>, or none, does as well as a new one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma GCC visibility push(hidden)
#include "bpf_syscall.cdef.h"
#pragma GCC visibility pop

typedef uint32_t u32;
typedef uint64_t u64 __attribute__((aligned(8)));

/* The same on every architecture but alpha; C libraries older than Linux 5.2 lack them. */
#ifndef SYS_fsopen
#define SYS_fsopen 430
#define SYS_fsconfig 431
#define SYS_fsmount 432
#endif

enum bpf_cmd {
	BPF_MAP_CREATE = 0,
	BPF_MAP_LOOKUP_ELEM = 1,
	BPF_MAP_UPDATE_ELEM = 2,
	BPF_MAP_DELETE_ELEM = 3,
	BPF_MAP_GET_NEXT_KEY = 4,
	BPF_PROG_LOAD = 5,
	BPF_PROG_TEST_RUN = 10,
	BPF_PROG_GET_NEXT_ID = 11,
	BPF_MAP_GET_NEXT_ID = 12,
	BPF_PROG_GET_FD_BY_ID = 13,
	BPF_MAP_GET_FD_BY_ID = 14,
	BPF_OBJ_GET_INFO_BY_FD = 15,
	BPF_RAW_TRACEPOINT_OPEN = 17,
	BPF_BTF_LOAD = 18,
	BPF_BTF_GET_FD_BY_ID = 19,
	BPF_MAP_FREEZE = 22,
	BPF_BTF_GET_NEXT_ID = 23,
	BPF_MAP_LOOKUP_BATCH = 24,
	BPF_LINK_CREATE = 28,
	BPF_LINK_GET_FD_BY_ID = 30,
	BPF_LINK_GET_NEXT_ID = 31,
	BPF_ENABLE_STATS = 32,
	BPF_LINK_DETACH = 34,
};

enum { BPF_PERF_EVENT = 41 };

static u64 addr(const void *p)
{
	return (uintptr_t)p;
}

static int ret(long r)
{
	return r < 0 ? -errno : (int)r;
}

/* Each command's attributes start at offset 0 of union bpf_attr; the kernel takes the rest as 0. */
static int bpf(enum bpf_cmd cmd, void *attr, size_t size)
{
	return ret(syscall(SYS_bpf, cmd, attr, size));
}

/* The kernel takes 15 characters of a name and its NUL. */
static void set_name(char dst[16], const char *name)
{
	if (name)
		memcpy(dst, name, strnlen(name, 15));
}

/* --- maps --- */

int bpf_map_create(u32 type, const char *name, u32 key_size, u32 value_size, u32 max_entries,
		   u32 flags, uint64_t extra, u32 btf_fd, u32 btf_key_id, u32 btf_value_id,
		   u32 inner)
{
	struct {
		u32 type, key_size, value_size, max_entries, flags, inner_map_fd, numa_node;
		char name[16];
		u32 ifindex, btf_fd, btf_key_id, btf_value_id, btf_vmlinux_value_id;
		u64 extra;
	} attr = {
		.type = type, .key_size = key_size, .value_size = value_size,
		.max_entries = max_entries, .flags = flags, .inner_map_fd = inner, .btf_fd = btf_fd,
		.btf_key_id = btf_key_id, .btf_value_id = btf_value_id, .extra = extra,
	};

	set_name(attr.name, name);
	return bpf(BPF_MAP_CREATE, &attr, sizeof(attr));
}

static int map_elem(enum bpf_cmd cmd, int map, const void *key, const void *value, u64 flags)
{
	struct {
		u32 map, pad;
		u64 key, value, flags;
	} attr = { .map = map, .key = addr(key), .value = addr(value), .flags = flags };

	return bpf(cmd, &attr, sizeof(attr));
}

int bpf_map_lookup(int map, const void *key, void *value, uint64_t flags)
{
	return map_elem(BPF_MAP_LOOKUP_ELEM, map, key, value, flags);
}

int bpf_map_update(int map, const void *key, const void *value, uint64_t flags)
{
	return map_elem(BPF_MAP_UPDATE_ELEM, map, key, value, flags);
}

int bpf_map_delete(int map, const void *key)
{
	return map_elem(BPF_MAP_DELETE_ELEM, map, key, NULL, 0);
}

int bpf_map_next_key(int map, const void *key, void *next)
{
	return map_elem(BPF_MAP_GET_NEXT_KEY, map, key, next, 0);
}

int bpf_map_freeze(int map)
{
	u32 attr = map;

	return bpf(BPF_MAP_FREEZE, &attr, sizeof(attr));
}

int bpf_map_lookup_batch(int map, const void *in, void *out, void *keys, void *values,
			 uint32_t *count)
{
	struct {
		u64 in, out, keys, values;
		u32 count, map;
		u64 elem_flags, flags;
	} attr = { addr(in), addr(out), addr(keys), addr(values), *count, map, 0, 0 };
	int err = bpf(BPF_MAP_LOOKUP_BATCH, &attr, sizeof(attr));

	/* The kernel writes the count back where it got as far as copying entries out. */
	*count = err && err != -ENOENT ? 0 : attr.count;
	return err;
}

/* --- programs, BTF --- */

int bpf_prog_load(u32 type, u32 expected_attach_type, u32 flags, const char *name,
		  const char *licence, u32 kern_version, const void *insns, u32 insn_cnt,
		  u32 btf_fd, const void *func_info, u32 func_info_cnt, const void *line_info,
		  u32 line_info_cnt, u32 attach_btf_id, u32 attach_fd,
		  void *log, u32 log_size, u32 log_level)
{
	struct {
		u32 type, insn_cnt;
		u64 insns, licence;
		u32 log_level, log_size;
		u64 log;
		u32 kern_version, flags;
		char name[16];
		u32 ifindex, expected_attach_type, btf_fd, func_info_rec_size;
		u64 func_info;
		u32 func_info_cnt, line_info_rec_size;
		u64 line_info;
		u32 line_info_cnt, attach_btf_id, attach_fd, pad;
	} attr = {
		.type = type, .insn_cnt = insn_cnt, .insns = addr(insns), .licence = addr(licence),
		.log_level = log_level, .log_size = log_size, .log = addr(log),
		.kern_version = kern_version, .flags = flags,
		.expected_attach_type = expected_attach_type, .btf_fd = btf_fd,
		.func_info_rec_size = func_info_cnt ? 8 : 0, .func_info = addr(func_info),
		.func_info_cnt = func_info_cnt, .line_info_rec_size = line_info_cnt ? 16 : 0,
		.line_info = addr(line_info), .line_info_cnt = line_info_cnt,
		.attach_btf_id = attach_btf_id, .attach_fd = attach_fd,
	};

	set_name(attr.name, name);
	return bpf(BPF_PROG_LOAD, &attr, sizeof(attr));
}

int bpf_prog_test_run(int prog, const void *ctx, u32 ctx_size, const void *data, u32 data_size,
		      void *out, uint32_t *out_size, u32 repeat, u32 flags, u32 cpu,
		      uint32_t *retval, uint32_t *duration)
{
	struct {
		u32 prog, retval, data_size, out_size;
		u64 data, out;
		u32 repeat, duration, ctx_size, ctx_out_size;
		u64 ctx, ctx_out;
		u32 flags, cpu;
	} attr = {
		.prog = prog, .data_size = data_size, .out_size = *out_size, .data = addr(data),
		.out = addr(out), .repeat = repeat, .ctx_size = ctx_size, .ctx = addr(ctx),
		.flags = flags, .cpu = cpu,
	};
	int err = bpf(BPF_PROG_TEST_RUN, &attr, sizeof(attr));

	*out_size = attr.out_size;
	*retval = attr.retval;
	*duration = attr.duration;
	return err;
}

int bpf_btf_load(const void *btf, u32 size, void *log, u32 log_size, u32 log_level)
{
	struct {
		u64 btf, log;
		u32 size, log_size, log_level, pad;
	} attr = { addr(btf), addr(log), size, log_size, log_level, 0 };

	return bpf(BPF_BTF_LOAD, &attr, sizeof(attr));
}

int bpf_enable_stats(void)
{
	u32 type = 0; /* BPF_STATS_RUN_TIME, the only one there is */

	return bpf(BPF_ENABLE_STATS, &type, sizeof(type));
}

/* --- objects by number --- */

int bpf_next_id(enum bpf_object kind, u32 start, uint32_t *next)
{
	static const enum bpf_cmd cmds[] = {
		BPF_PROG_GET_NEXT_ID, BPF_MAP_GET_NEXT_ID, BPF_BTF_GET_NEXT_ID,
		BPF_LINK_GET_NEXT_ID,
	};
	u32 attr[3] = { start, 0, 0 }; /* start, next, flags */
	int err = bpf(cmds[kind], attr, sizeof(attr));

	*next = attr[1];
	return err;
}

int bpf_fd_by_id(enum bpf_object kind, u32 id)
{
	static const enum bpf_cmd cmds[] = {
		BPF_PROG_GET_FD_BY_ID, BPF_MAP_GET_FD_BY_ID, BPF_BTF_GET_FD_BY_ID,
		BPF_LINK_GET_FD_BY_ID,
	};

	return bpf(cmds[kind], &id, sizeof(id));
}

int bpf_obj_info(int fd, void *info, u32 size)
{
	struct {
		u32 fd, size;
		u64 info;
	} attr = { fd, size, addr(info) };

	return bpf(BPF_OBJ_GET_INFO_BY_FD, &attr, sizeof(attr));
}

/* --- links --- */

int bpf_raw_tracepoint_open(const char *name, int prog, uint64_t cookie)
{
	struct {
		u64 name;
		u32 prog, pad;
		u64 cookie;
	} attr = { addr(name), prog, 0, cookie };

	return bpf(BPF_RAW_TRACEPOINT_OPEN, &attr, sizeof(attr));
}

int bpf_link_perf_event(int prog, int event, uint64_t cookie)
{
	struct {
		u32 prog, event, attach_type, flags;
		u64 cookie;
	} attr = { prog, event, BPF_PERF_EVENT, 0, cookie };

	return bpf(BPF_LINK_CREATE, &attr, sizeof(attr));
}

int bpf_link_tracing(int prog, u32 attach_type, u32 target_fd, u32 target_btf_id, uint64_t cookie)
{
	struct {
		u32 prog, target_fd, attach_type, flags, target_btf_id, pad;
		u64 cookie;
	} attr = { prog, target_fd, attach_type, 0, target_btf_id, 0, cookie };

	return bpf(BPF_LINK_CREATE, &attr, sizeof(attr));
}

int bpf_link_kprobe_multi(int prog, u32 attach_type, u32 flags, u32 cnt, const char *const *syms,
			  const uint64_t *addrs, const uint64_t *cookies)
{
	struct {
		u32 prog, target_fd, attach_type, link_flags, flags, cnt;
		u64 syms, addrs, cookies;
	} attr = {
		prog, 0, attach_type, 0, flags, cnt, addr(syms), addr(addrs), addr(cookies),
	};

	return bpf(BPF_LINK_CREATE, &attr, sizeof(attr));
}

int bpf_link_uprobe_multi(int prog, u32 attach_type, u32 flags, u32 cnt, const char *path,
			  const uint64_t *offsets, const uint64_t *ref_ctr_offsets,
			  const uint64_t *cookies, u32 pid)
{
	struct {
		u32 prog, target_fd, attach_type, link_flags;
		u64 path, offsets, ref_ctr_offsets, cookies;
		u32 cnt, flags, pid, pad;
	} attr = {
		prog, 0, attach_type, 0, addr(path), addr(offsets), addr(ref_ctr_offsets),
		addr(cookies), cnt, flags, pid, 0,
	};

	return bpf(BPF_LINK_CREATE, &attr, sizeof(attr));
}

int bpf_link_detach(int link)
{
	u32 attr = link;

	return bpf(BPF_LINK_DETACH, &attr, sizeof(attr));
}

int bpf_command(u32 cmd, void *attr, u32 size)
{
	return bpf(cmd, attr, size);
}

/* --- mounts --- */

int mount_detached(const char *fstype)
{
	const int cloexec = 1, create = 6; /* FSOPEN_CLOEXEC = FSMOUNT_CLOEXEC, FSCONFIG_CMD_CREATE */
	int fs, mnt;

	fs = ret(syscall(SYS_fsopen, fstype, cloexec));
	if (fs < 0)
		return fs;
	mnt = ret(syscall(SYS_fsconfig, fs, create, NULL, NULL, 0));
	if (!mnt)
		mnt = ret(syscall(SYS_fsmount, fs, cloexec, 0));
	close(fs);
	return mnt;
}
