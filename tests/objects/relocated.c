/* What libbpf makes of the instructions of an object: the file, and one with a kernel's types, in;
 * for each program its name and its instructions in hexadecimal, ready for the kernel, out. Nothing
 * is loaded. The status is 1 where libbpf refuses the object.
 *
 *     cc relocated.c -lbpf -o relocated && ./relocated FILE.o [BTF]
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>

static struct bpf_object *object;
static int seen;

static void print_program(const struct bpf_program *program)
{
	const unsigned char *code = (const unsigned char *)bpf_program__insns(program);
	size_t size = 8 * bpf_program__insn_cnt(program);

	printf("%s ", bpf_program__name(program));
	for (size_t at = 0; at < size; at++)
		printf("%02x", code[at]);
	puts("");
}

/* Called when the first program is to be loaded, by when all are relocated. */
static int prepare(struct bpf_program *first, struct bpf_prog_load_opts *opts, long cookie)
{
	struct bpf_program *program;

	if (!seen++)
		bpf_object__for_each_program(program, object)
			if (bpf_program__autoload(program))
				print_program(program);
	return -ECANCELED;
}

int main(int argc, char **argv)
{
	LIBBPF_OPTS(libbpf_prog_handler_opts, handler, .prog_prepare_load_fn = prepare);
	LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = argc > 2 ? argv[2] : NULL);

	if (libbpf_register_prog_handler("raw_tp+", BPF_PROG_TYPE_RAW_TRACEPOINT, 0, &handler) < 0)
		return 2;
	object = bpf_object__open_file(argv[1], &opts);
	if (!object)
		return 2;
	bpf_object__load(object);
	return !seen;
}
