"""BTF: the types of programs and maps, as the kernel and bpftool read them."""
