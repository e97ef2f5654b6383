"""Names of the BPF features that decide what code is emitted."""

from __future__ import annotations

RINGBUF = "ringbuf"
"""BPF ring buffer maps and their helpers (Linux 5.8)."""
PROBE_READ_KERNEL = "probe_read_kernel"
"""Separate helpers for kernel and user memory (Linux 5.5)."""
CPU_V4 = "cpu_v4"
"""sdiv, smod, movsx, ldxs*, bswap and gotol (Linux 6.6)."""
JMP32 = "jmp32"
"""32-bit conditional jumps (Linux 5.1)."""
MAP_VALUE_ADDR = "map_value_addr"
"""Direct addresses of array map values (Linux 5.2)."""
COMM_PADDED = "comm_padded"
"""bpf_get_current_comm() leaves zeros behind the name (not Linux 6.0 to 6.1)."""

ALL = frozenset({RINGBUF, PROBE_READ_KERNEL, CPU_V4, JMP32, MAP_VALUE_ADDR, COMM_PADDED})
