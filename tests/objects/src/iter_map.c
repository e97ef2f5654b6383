#include "bpf.h"

LICENSE("GPL");

/* An iterator over the entries of a map, which whoever attaches it has to name. */
SEC("iter/bpf_map_elem")
int each_entry(void *ctx)
{
	return 0;
}
