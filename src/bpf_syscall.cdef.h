/*
 * What Python sees of the extension; read by cffi, and by the compiler after <stdint.h>.
 * Every function that returns int or int64_t returns -errno where it fails.
 * Buffers are the caller's; a NULL name, log or array is allowed and means "none".
 */

/* BPF_OBJ_GET_INFO_BY_FD fills these; layouts are those of include/uapi/linux/bpf.h. */
struct bpf_prog_info {
	uint32_t type;
	uint32_t id;
	uint8_t tag[8];
	uint32_t jited_prog_len;
	uint32_t xlated_prog_len;
	uint64_t jited_prog_insns;
	uint64_t xlated_prog_insns;
	uint64_t load_time;
	uint32_t created_by_uid;
	uint32_t nr_map_ids;
	uint64_t map_ids;
	char name[16];
	uint32_t ifindex;
	uint32_t gpl_compatible;
	uint64_t netns_dev;
	uint64_t netns_ino;
	uint32_t nr_jited_ksyms;
	uint32_t nr_jited_func_lens;
	uint64_t jited_ksyms;
	uint64_t jited_func_lens;
	uint32_t btf_id;
	uint32_t func_info_rec_size;
	uint64_t func_info;
	uint32_t nr_func_info;
	uint32_t nr_line_info;
	uint64_t line_info;
	uint64_t jited_line_info;
	uint32_t nr_jited_line_info;
	uint32_t line_info_rec_size;
	uint32_t jited_line_info_rec_size;
	uint32_t nr_prog_tags;
	uint64_t prog_tags;
	uint64_t run_time_ns;
	uint64_t run_cnt;
	uint64_t recursion_misses;
	uint32_t verified_insns;
	uint32_t attach_btf_obj_id;
	uint32_t attach_btf_id;
	uint32_t pad;
};

struct bpf_map_info {
	uint32_t type;
	uint32_t id;
	uint32_t key_size;
	uint32_t value_size;
	uint32_t max_entries;
	uint32_t map_flags;
	char name[16];
	uint32_t ifindex;
	uint32_t btf_vmlinux_value_type_id;
	uint64_t netns_dev;
	uint64_t netns_ino;
	uint32_t btf_id;
	uint32_t btf_key_type_id;
	uint32_t btf_value_type_id;
	uint32_t btf_vmlinux_id;
	uint64_t map_extra;
};

struct bpf_btf_info {
	uint64_t btf;
	uint32_t btf_size;
	uint32_t id;
	uint64_t name;
	uint32_t name_len;
	uint32_t kernel_btf;
};

struct bpf_link_info {
	uint32_t type;
	uint32_t id;
	uint32_t prog_id;
	uint32_t pad;
};

/*
 * Maps. Keys and values are as long as the map says (per-CPU values: one for each CPU). A map of
 * maps takes such as `inner`, which is a descriptor.
 */
int bpf_map_create(uint32_t type, const char *name, uint32_t key_size, uint32_t value_size,
		   uint32_t max_entries, uint32_t flags, uint64_t extra,
		   uint32_t btf_fd, uint32_t btf_key_id, uint32_t btf_value_id, uint32_t inner);
int bpf_map_lookup(int map, const void *key, void *value, uint64_t flags);
int bpf_map_update(int map, const void *key, const void *value, uint64_t flags);
int bpf_map_delete(int map, const void *key);
int bpf_map_next_key(int map, const void *key, void *next);
int bpf_map_freeze(int map);

/* On -ENOENT the map is at its end, and *count entries were filled all the same. */
int bpf_map_lookup_batch(int map, const void *in, void *out, void *keys, void *values,
			 uint32_t *count);

/* Programs. func_info records have 8 bytes, line_info records 16. */
int bpf_prog_load(uint32_t type, uint32_t expected_attach_type, uint32_t flags, const char *name,
		  const char *licence, uint32_t kern_version,
		  const void *insns, uint32_t insn_cnt, uint32_t btf_fd,
		  const void *func_info, uint32_t func_info_cnt,
		  const void *line_info, uint32_t line_info_cnt,
		  uint32_t attach_btf_id, uint32_t attach_fd,
		  void *log, uint32_t log_size, uint32_t log_level);
int bpf_prog_test_run(int prog, const void *ctx, uint32_t ctx_size,
		      const void *data, uint32_t data_size, void *out, uint32_t *out_size,
		      uint32_t repeat, uint32_t flags, uint32_t cpu,
		      uint32_t *retval, uint32_t *duration);
int bpf_btf_load(const void *btf, uint32_t size, void *log, uint32_t log_size, uint32_t log_level);
int bpf_enable_stats(void);

/* Objects the kernel holds. */
enum bpf_object { BPF_OBJECT_PROG, BPF_OBJECT_MAP, BPF_OBJECT_BTF, BPF_OBJECT_LINK };
int bpf_next_id(enum bpf_object kind, uint32_t start, uint32_t *next);
int bpf_fd_by_id(enum bpf_object kind, uint32_t id);
int bpf_obj_info(int fd, void *info, uint32_t size);

/* Links. Arrays have cnt elements; of syms and addrs exactly one is given. */
int bpf_raw_tracepoint_open(const char *name, int prog, uint64_t cookie);
int bpf_link_perf_event(int prog, int event, uint64_t cookie);
int bpf_link_tracing(int prog, uint32_t attach_type, uint32_t target_fd, uint32_t target_btf_id,
		     uint64_t cookie);
int bpf_link_kprobe_multi(int prog, uint32_t attach_type, uint32_t flags, uint32_t cnt,
			  const char *const *syms, const uint64_t *addrs, const uint64_t *cookies);
int bpf_link_uprobe_multi(int prog, uint32_t attach_type, uint32_t flags, uint32_t cnt,
			  const char *path, const uint64_t *offsets,
			  const uint64_t *ref_ctr_offsets, const uint64_t *cookies, uint32_t pid);
int bpf_link_detach(int link);

/*
 * Commands that have no function here: `attr` is as long as the kernel's structure for `cmd`, which
 * may write to it. (Objects of C programs take many kinds of links, and pins.)
 */
int bpf_command(uint32_t cmd, void *attr, uint32_t size);

/* Perf events. attr_flags are the bits of perf_event_attr from `disabled` on. */
int perf_open(uint32_t type, uint64_t config, uint64_t period, uint64_t sample_type,
	      uint64_t attr_flags, uint32_t wakeup, int pid, int cpu, int group, uint64_t flags);
int perf_open_probe(uint32_t type, uint64_t config, const char *name, uint64_t addr,
		    int pid, int cpu, uint64_t flags);
int perf_enable(int event);
int perf_disable(int event);
int perf_set_bpf(int event, int prog);
int perf_set_filter(int event, const char *filter);
int perf_id(int event, uint64_t *id);

/* A file system of its own, mounted nowhere: openat() reaches into it; close() ends it. */
int mount_detached(const char *fstype);

/*
 * Rings. A drain copies whole records in order and frees their space; it stops where the ring is
 * empty, where a record is still being written, and where `room` is used up. It returns the number
 * of bytes used, or -EMSGSIZE where the first record alone exceeds `room`. Each copy is
 *
 *     u32 length | u32 unspecified | payload, padded to a multiple of 8
 */
struct ringbuf {
	unsigned long *consumer; /* position; its page is ours to write */
	unsigned long *producer; /* position; after its page the data, mapped twice */
	size_t size;		 /* bytes of data, a power of 2 */
};

int ringbuf_map(struct ringbuf *ring, int map, size_t size);
void ringbuf_unmap(struct ringbuf *ring);
int64_t ringbuf_drain(struct ringbuf *ring, void *out, size_t room);
uint64_t ringbuf_used(const struct ringbuf *ring);

struct perfbuf {
	uint8_t *page; /* struct perf_event_mmap_page; after its page the data */
	size_t size;   /* bytes of data, a power of 2 */
};

int perfbuf_map(struct perfbuf *buf, int event, size_t size);
void perfbuf_unmap(struct perfbuf *buf);
int64_t perfbuf_drain(struct perfbuf *buf, void *out, size_t room, uint64_t *lost);
uint64_t perfbuf_used(const struct perfbuf *buf);

/*
 * Fork a child that waits for one byte from the pipe `held` (it closes `release`, the end to write
 * to), then becomes the program at `path`, or where that fails the one at otherwise[0]; it exits
 * with 127 at the pipe's end. It gets `death_signal` when the thread that called this ends. The
 * arrays end with NULL. Returns the pid.
 */
int child_start(int death_signal, const char *path, char *const *argv,
		char *const *otherwise);
