"""ELF objects of eBPF: what clang, libbpf, cilium or aya produced, taken apart and written."""
