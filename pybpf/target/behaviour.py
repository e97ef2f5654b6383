"""What verifiers learnt when: the name of a feature or an instruction set in, a release out.

A recorded profile holds what its kernel was seen to do; a documented one, and what no probe can
see, comes from these tables. Source: the sources of those releases; each release is that of the
first kernel, not of what was brought back to older stable series.
"""

from __future__ import annotations

from collections.abc import Mapping

Version = tuple[int, int]

INSTRUCTIONS: Mapping[str, Version] = {
    "v1": (3, 18),
    "ld_abs": (3, 19),
    "v2": (4, 14),  # jlt, jle, jslt, jsle
    "v3": (5, 1),  # 32-bit jumps
    "atomic_add": (3, 18),
    "atomic_fetch": (5, 12),  # fetch, or, and, xor, xchg, cmpxchg
    "call_local": (4, 16),
    "call_kfunc": (5, 13),
    "map_fd": (3, 18),
    "map_value": (5, 2),
    "btf_id": (5, 10),
    "func": (5, 13),
    "map_idx": (5, 14),
    "map_idx_value": (5, 14),
    "sdiv": (6, 6),
    "smod": (6, 6),
    "movsx": (6, 6),
    "ldsx": (6, 6),
    "bswap": (6, 6),
    "gotol": (6, 6),
    "may_goto": (6, 9),
    "addr_space_cast": (6, 9),
    "load_acquire": (6, 15),
    "store_release": (6, 15),
    "gotox": (6, 19),
    "tail_call_in_subprogram": (5, 10),
}
"""Instructions, and what lddw and calls may refer to."""

FEATURES: Mapping[str, Version] = {
    # control flow
    "bounded_loops": (5, 3),
    "global_functions": (5, 6),
    "for_each_map_elem": (5, 13),
    "bpf_loop": (5, 17),
    "callbacks_any_number": (6, 7),  # callbacks are walked until nothing new is found
    "open_iterators": (6, 4),
    "loop_convergence": (6, 7),  # states of iterators are compared exactly, loops are widened
    "exceptions": (6, 7),
    "lazy_global_functions": (6, 8),  # those not called are not verified
    "function_argument_tags": (6, 8),
    "may_goto": (6, 9),
    "sleepable_global_functions": (6, 10),
    "tail_call_in_subprogram": (5, 10),
    "private_stack": (6, 13),
    "indirect_jumps": (6, 19),
    "gotox_tables": (6, 19),
    "callchain_stack_liveness": (6, 18),  # stack liveness by data flow instead of by read marks
    "loop_cycles_by_scc": (6, 17),
    # memory
    "stack_var_off_write": (5, 12),
    "uninitialised_stack_read": (6, 3),  # by privileged programs
    "spill_32bit": (5, 16),  # bounds survive 32-bit spills
    "spill_any_size": (6, 8),
    "st_to_context": (6, 4),
    "ctx_var_off": (7, 1),  # variable offsets into the context of syscall programs
    "map_value_read_only_constants": (5, 4),
    "arena": (6, 9),
    "kptr": (5, 19),
    "percpu_kptr": (6, 8),
    "alloc_objects": (6, 2),
    "graph_roots": (6, 3),
    "refcount_kptr": (6, 4),
    "rcu": (6, 2),
    "rcu_tagged_pointers": (6, 4),
    "trusted_pointers": (6, 2),
    "raw_tracepoint_null_args": (6, 13),
    "untrusted_memory": (6, 17),
    "spin_lock": (5, 1),
    "spin_lock_calls": (6, 8),  # static subprograms may be called with a lock held
    "resilient_spin_lock": (6, 15),
    "irq_flags": (6, 14),
    "preempt_disable": (6, 10),
    # numbers
    "bounds_32": (5, 7),
    "signed_unsigned_deduction": (6, 8),
    "register_comparison": (6, 8),  # both sides of register-register jumps learn ranges
    "jset_refinement": (6, 8),
    "linked_scalars": (6, 10),  # registers that differ by a constant share refinement
    "linked_scalars_32": (7, 0),
    "precise_multiplication": (6, 15),
    "precise_negation": (6, 17),
    "tnum_overlap": (6, 17),
    "division_ranges": (7, 0),
    "byteswap_tnum": (7, 0),
    "movsx": (6, 6),
    "exact_scalar_ids": (6, 4),  # ids of scalars are compared when states are
    "unsigned_jump_on_null": (6, 2),
    "nullness_of_compared_pointers": (6, 3),
    "constant_map_key_lookup": (6, 14),  # array lookups with a constant key in range are not null
    # helpers and functions
    "kfuncs": (5, 13),
    "kfuncs_by_hook": (5, 18),
    "dynptr": (5, 19),
    "dynptr_skb_xdp": (6, 4),
    "mem_write": (6, 12),  # memory that a helper writes is marked as such
    "fastcall": (6, 12),
    "packet_changing_functions": (6, 13),  # global functions that may change packets are known
    "stream_output": (6, 17),
    # rules
    "result_ranges_by_attach_type": (5, 4),
    "lsm_result_ranges": (6, 12),
    "context_tail_call_results": (6, 15),
    "precision_of_result": (6, 8),
    "capabilities": (5, 8),
    "tokens": (6, 9),
    # the log
    "log_scalar": (5, 18),  # scalars are called scalar(), no longer inv
    "log_no_zero_offsets": (6, 7),
    "log_sizes": (6, 9),
}
"""What the verifier does, or checks, beyond the oldest profile."""


def known(table: Mapping[str, Version], version: Version) -> frozenset[str]:
    """Return the names of INSTRUCTIONS or FEATURES that a release knows."""
    return frozenset(name for name, since in table.items() if since <= version)
