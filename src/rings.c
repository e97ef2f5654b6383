/*
 * Perf events, and the two rings through which the kernel hands over records.
 *
 * Both rings have one consumer: us. A position only grows (and wraps as an unsigned number); the
 * kernel publishes the producer's with release semantics, so loading it with acquire semantics
 * makes all bytes before it visible; storing the consumer's with release semantics says that we
 * have finished reading the bytes before it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma GCC visibility push(hidden)
#include "bpf_syscall.cdef.h"
#pragma GCC visibility pop

typedef uint32_t u32;
typedef uint64_t u64 __attribute__((aligned(8)));

#define ALIGN8(n) (((n) + 7) & ~(size_t)7)

static int ret(long r)
{
	return r < 0 ? -errno : (int)r;
}

static size_t page_size(void)
{
	return sysconf(_SC_PAGESIZE);
}

/* Copy n bytes from a ring of size bytes; behind its end they go on at its start. */
static void copy_around(void *dst, const uint8_t *ring, size_t size, size_t start, size_t n)
{
	size_t first = n < size - start ? n : size - start;

	memcpy(dst, ring + start, first);
	memcpy((uint8_t *)dst + first, ring, n - first);
}

/* --- perf events --- */

/* struct perf_event_attr as far as its second published size (Linux 2.6.33). */
struct perf_attr {
	u32 type, size;
	u64 config, period, sample_type, read_format, flags;
	u32 wakeup, bp_type;
	u64 config1, config2;
};

static int perf_event_open(struct perf_attr *attr, int pid, int cpu, int group, u64 flags)
{
	const u64 cloexec = 8; /* PERF_FLAG_FD_CLOEXEC */

	attr->size = sizeof(*attr);
	return ret(syscall(SYS_perf_event_open, attr, pid, cpu, group, flags | cloexec));
}

int perf_open(u32 type, uint64_t config, uint64_t period, uint64_t sample_type,
	      uint64_t attr_flags, u32 wakeup, int pid, int cpu, int group, uint64_t flags)
{
	struct perf_attr attr = {
		.type = type, .config = config, .period = period, .sample_type = sample_type,
		.flags = attr_flags, .wakeup = wakeup,
	};

	return perf_event_open(&attr, pid, cpu, group, flags);
}

/* kprobe: a function and an offset, or no name and an address; uprobe: a file and an offset. */
int perf_open_probe(u32 type, uint64_t config, const char *name, uint64_t addr, int pid, int cpu,
		    uint64_t flags)
{
	struct perf_attr attr = {
		.type = type, .config = config, .config1 = (uintptr_t)name, .config2 = addr,
	};

	return perf_event_open(&attr, pid, cpu, -1, flags);
}

int perf_enable(int event)
{
	return ret(ioctl(event, _IO('$', 0), 0));
}

int perf_disable(int event)
{
	return ret(ioctl(event, _IO('$', 1), 0));
}

int perf_set_filter(int event, const char *filter)
{
	return ret(ioctl(event, _IOW('$', 6, char *), filter));
}

int perf_id(int event, uint64_t *id)
{
	return ret(ioctl(event, _IOR('$', 7, uint64_t *), id));
}

int perf_set_bpf(int event, int prog)
{
	return ret(ioctl(event, _IOW('$', 8, u32), prog));
}

/* --- BPF ring buffer --- */

enum { RINGBUF_BUSY = 1U << 31, RINGBUF_DISCARD = 1U << 30, RINGBUF_HEADER = 8 };

/*
 *   consumer page | producer page | data ... | the same data again
 *    read, write  |              read only
 *
 * Data mapped twice in a row would let a record that wraps be read as one piece; as records are
 * copied anyway, mapping it once saves memory that counts as ours, and time at the start.
 */
int ringbuf_map(struct ringbuf *ring, int map, size_t size)
{
	size_t page = page_size();
	void *p;

	p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
	if (p == MAP_FAILED)
		return -errno;
	ring->consumer = p;

	p = mmap(NULL, page + size, PROT_READ, MAP_SHARED, map, page);
	if (p == MAP_FAILED) {
		int err = -errno;

		munmap(ring->consumer, page);
		return err;
	}
	ring->producer = p;
	ring->size = size;
	return 0;
}

void ringbuf_unmap(struct ringbuf *ring)
{
	munmap(ring->consumer, page_size());
	munmap(ring->producer, page_size() + ring->size);
}

/*
 * A record begins with its length, whose top bits say that it is still being written or that it
 * was given up, and 4 bytes for the kernel. The kernel's wake-up looks at our position when a
 * record is finished; moving it once for a batch is safe because epoll, being level-triggered,
 * compares the positions itself before it sleeps.
 */
int64_t ringbuf_drain(struct ringbuf *ring, void *out, size_t room)
{
	const uint8_t *data = (const uint8_t *)ring->producer + page_size();
	unsigned long end = __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE);
	unsigned long pos = *ring->consumer;
	size_t used = 0;
	int64_t err = 0;

	while (pos != end) {
		size_t start = pos & (ring->size - 1);
		const u32 *record = (const u32 *)(data + start);
		u32 head = __atomic_load_n(record, __ATOMIC_ACQUIRE);
		u32 len = head & ~(RINGBUF_BUSY | RINGBUF_DISCARD);
		size_t step = ALIGN8((size_t)len + RINGBUF_HEADER);

		if (head & RINGBUF_BUSY)
			break;
		if (!(head & RINGBUF_DISCARD)) {
			if (step > room - used) {
				err = -EMSGSIZE;
				break;
			}
			copy_around((uint8_t *)out + used, data, ring->size, start, step);
			used += step;
		}
		pos += step;
	}
	__atomic_store_n(ring->consumer, pos, __ATOMIC_RELEASE);
	return used ? (int64_t)used : err;
}

uint64_t ringbuf_used(const struct ringbuf *ring)
{
	return __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE) - *ring->consumer;
}

/* --- perf buffer --- */

/* Offsets in struct perf_event_mmap_page; both positions are u64 on every architecture. */
enum { PERF_DATA_HEAD = 1024, PERF_DATA_TAIL = 1032 };

enum { PERF_RECORD_LOST = 2, PERF_RECORD_SAMPLE = 9 };

struct perf_header {
	u32 type;
	uint16_t misc, size;
};

static u64 *perf_pos(const struct perfbuf *buf, size_t offset)
{
	return (u64 *)(buf->page + offset);
}

int perfbuf_map(struct perfbuf *buf, int event, size_t size)
{
	void *p = mmap(NULL, page_size() + size, PROT_READ | PROT_WRITE, MAP_SHARED, event, 0);

	if (p == MAP_FAILED)
		return -errno;
	buf->page = p;
	buf->size = size;
	return 0;
}

void perfbuf_unmap(struct perfbuf *buf)
{
	munmap(buf->page, page_size() + buf->size);
}

static void perf_copy(const struct perfbuf *buf, u64 pos, void *dst, size_t n)
{
	copy_around(dst, buf->page + page_size(), buf->size, pos & (buf->size - 1), n);
}

/*
 * With sample_type PERF_SAMPLE_RAW alone, a sample is
 *
 *     header (8) | u32 length | payload, padded so that the sample ends on a multiple of 8
 *
 * and its length counts that padding. A lost record is header (8) | u64 id | u64 count.
 */
int64_t perfbuf_drain(struct perfbuf *buf, void *out, size_t room, uint64_t *lost)
{
	u64 end = __atomic_load_n(perf_pos(buf, PERF_DATA_HEAD), __ATOMIC_ACQUIRE);
	u64 pos = *perf_pos(buf, PERF_DATA_TAIL);
	size_t used = 0;
	int64_t err = 0;

	while (pos != end) {
		struct perf_header header;

		perf_copy(buf, pos, &header, sizeof(header));
		if (header.type == PERF_RECORD_SAMPLE) {
			u32 head[2] = { 0, 0 };
			size_t step;

			perf_copy(buf, pos + 8, head, 4);
			step = ALIGN8((size_t)head[0] + sizeof(head));
			if (step > room - used) {
				err = -EMSGSIZE;
				break;
			}
			memcpy((uint8_t *)out + used, head, sizeof(head));
			perf_copy(buf, pos + 12, (uint8_t *)out + used + sizeof(head), head[0]);
			used += step;
		} else if (header.type == PERF_RECORD_LOST) {
			u64 count;

			perf_copy(buf, pos + 16, &count, sizeof(count));
			*lost += count;
		}
		pos += header.size;
	}
	__atomic_store_n(perf_pos(buf, PERF_DATA_TAIL), pos, __ATOMIC_RELEASE);
	return used ? (int64_t)used : err;
}

uint64_t perfbuf_used(const struct perfbuf *buf)
{
	return __atomic_load_n(perf_pos(buf, PERF_DATA_HEAD), __ATOMIC_ACQUIRE) -
	       *perf_pos(buf, PERF_DATA_TAIL);
}
