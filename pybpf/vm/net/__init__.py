"""Programs that see packets: contexts, checksums, and runs as BPF_PROG_TEST_RUN does them."""
