/* flags: -mcpu=v3 */
#include "bpf.h"

LICENSE("GPL");

extern void *bpf_arena_alloc_pages(void *map, void *address, u32 pages, int node,
				   u64 flags) __ksym;
extern void bpf_arena_free_pages(void *map, void *pages, u32 count) __ksym;

/* The instruction that casts a pointer, which no compiler here has: "to" << 16 | "from". */
#define REGISTER(n) ".ifc %[p], r" #n "\n.byte " #n " << 4 | " #n "\n.endif\n"
#define CAST(pointer, spaces)                                                                \
	asm volatile(".byte 0xbf\n" REGISTER(0) REGISTER(1) REGISTER(2) REGISTER(3)          \
			     REGISTER(4) REGISTER(5) REGISTER(6) REGISTER(7) REGISTER(8)     \
				     REGISTER(9) ".short 1\n.long %[as]"                     \
		     : [p] "+r"(pointer)                                                     \
		     : [as] "i"(spaces))
#define cast_kern(pointer) CAST(pointer, 1)
#define cast_user(pointer) CAST(pointer, 1 << 16)

struct {
	__uint(type, 33);
	__uint(map_flags, 1 << 10);
	__uint(max_entries, 100);
} arena SEC(".maps");

struct {
	__uint(type, 33);
	__uint(map_flags, 1 << 10);
	__uint(max_entries, 1);
} other SEC(".maps");

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} values SEC(".maps");

struct list {
	struct list *next;
	u64 value;
};

SEC("syscall")
int alloc(void *ctx)
{
	struct list *page = bpf_arena_alloc_pages(&arena, NULL, 1, -1, 0);
	struct list *kernel = page;

	if (!page)
		return 1;
	cast_kern(kernel);
	kernel->value = 3;
	kernel->next = page;
	kernel->value += kernel->next == page;
	bpf_arena_free_pages(&arena, page, 1);
	return 0;
}

SEC("syscall")
int uncast(void *ctx)
{
	struct list *page = bpf_arena_alloc_pages(&arena, NULL, 1, -1, 0);

	if (!page)
		return 1;
	page->value = 3;
	return 0;
}

/* Any number may become a pointer, which may be moved as one likes. */
SEC("syscall")
int walk(void *ctx)
{
	u64 where = bpf_get_prandom_u32();
	struct list *list = (struct list *)where;
	u64 sum = 0;
	int i;

	asm volatile("" : "+r"(list) : "r"(&arena));
	for (i = 0; i < 10; i++) {
		cast_kern(list);
		sum += list->value;
		list = list->next;
	}
	return sum;
}

SEC("tc")
int arithmetic(struct __sk_buff *skb)
{
	u64 where = skb->len;
	u8 *bytes = (u8 *)where;

	asm volatile("" : "+r"(bytes) : "r"(&arena));
	cast_kern(bytes);
	bytes += skb->len * 8;
	bytes = (u8 *)((u64)bytes * 3 ^ 5);
	bytes[1] = 4;
	cast_user(bytes);
	return bytes == (u8 *)where;
}

SEC("tc")
int no_arena(struct __sk_buff *skb)
{
	u8 *bytes = (u8 *)(u64)skb->len;

	cast_kern(bytes);
	return *bytes;
}

SEC("tc")
int two_arenas(struct __sk_buff *skb)
{
	u8 *bytes = (u8 *)(u64)skb->len;

	asm volatile("" : "+r"(bytes) : "r"(&arena), "r"(&other));
	cast_kern(bytes);
	return *bytes;
}

SEC("tc")
int alloc_unsleepable(struct __sk_buff *skb)
{
	return !!bpf_arena_alloc_pages(&arena, NULL, 1, -1, 0);
}

SEC("syscall")
int alloc_elsewhere(void *ctx)
{
	return !!bpf_arena_alloc_pages(&values, NULL, 1, -1, 0);
}

SEC("syscall")
int alloc_no_map(void *ctx)
{
	return !!bpf_arena_alloc_pages(NULL, NULL, 1, -1, 0);
}

SEC("tc")
int lookup(struct __sk_buff *skb)
{
	u32 key = 0;

	return !!bpf_map_lookup_elem(&arena, &key);
}

SEC("tc")
int add(struct __sk_buff *skb)
{
	u64 *number = (u64 *)(u64)skb->len;

	asm volatile("" : "+r"(number) : "r"(&arena));
	cast_kern(number);
	return __sync_fetch_and_add(number, 1);
}

SEC("tc")
int store_pointer(struct __sk_buff *skb)
{
	void **place = (void **)(u64)skb->len;

	asm volatile("" : "+r"(place) : "r"(&arena));
	cast_kern(place);
	*place = skb;
	return 0;
}

SEC("tc")
int to_helper(struct __sk_buff *skb)
{
	void *place = (void *)(u64)skb->len;

	asm volatile("" : "+r"(place) : "r"(&arena));
	cast_kern(place);
	return bpf_skb_load_bytes(skb, 0, place, 4);
}

SEC("tc")
int cast_pointer(struct __sk_buff *skb)
{
	u32 *place = (u32 *)skb;

	asm volatile("" : "+r"(place) : "r"(&arena));
	cast_kern(place);
	return *place;
}

SEC("tc")
int compare(struct __sk_buff *skb)
{
	u8 *place = (u8 *)(u64)skb->len, *user = place;

	asm volatile("" : "+r"(place) : "r"(&arena));
	cast_kern(place);
	if (place == NULL)
		return 1;
	if (place > user)
		return 2;
	return *place;
}
