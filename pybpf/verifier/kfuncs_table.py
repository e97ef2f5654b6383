"""Prototypes of the kernel's functions as a text table; pybpf.verifier.kfuncs reads it.

A row: a function's name, its arguments, ``->``, its result. Arguments: ``any`` a number, ``const``
a known one, ``ign`` is not looked at, ``ctx``, ``iter:SLOTS`` an iterator of that many slots of the
stack, ``dynptr`` and ``dynptr_new:KIND``, ``buf? size`` an area of memory or NULL with its known
size, ``btf:STRUCT``, ``mem:BYTES``, ``wq``, ``map`` and ``func``. Results: ``void``, ``int``,
``mem:BYTES`` read-only memory, ``slice`` of a dynptr, ``btf:STRUCT``.

From the BTF of Linux 6.12 and 7.3; their flags are in the kernels' profiles.
"""

from __future__ import annotations

ROWS = """
bpf_iter_num_new iter:1 any any -> int
bpf_iter_num_next iter:1 -> mem:4
bpf_iter_num_destroy iter:1 -> void
bpf_iter_bits_new iter:2 ign any -> int
bpf_iter_bits_next iter:2 -> mem:4
bpf_iter_bits_destroy iter:2 -> void
bpf_rcu_read_lock -> void
bpf_rcu_read_unlock -> void
bpf_preempt_disable -> void
bpf_preempt_enable -> void
bpf_local_irq_save irq:save -> void
bpf_local_irq_restore irq:restore -> void
bpf_throw any -> void
bpf_dynptr_from_skb ctx any dynptr_new:skb -> int
bpf_dynptr_from_xdp ctx any dynptr_new:xdp -> int
bpf_dynptr_slice dynptr any buf? size -> slice
bpf_dynptr_slice_rdwr dynptr any buf? size -> slice
bpf_dynptr_adjust dynptr any any -> int
bpf_dynptr_is_null dynptr -> int
bpf_dynptr_is_rdonly dynptr -> int
bpf_dynptr_size dynptr -> int
bpf_dynptr_clone dynptr dynptr_new -> int
bpf_wq_init wq map any -> int
bpf_wq_start wq any -> int
bpf_wq_set_callback_impl wq func any ign -> int
bpf_wq_set_callback wq func any -> int
bpf_strcmp ign ign -> int
bpf_strcasecmp ign ign -> int
bpf_strncasecmp ign ign any -> int
bpf_strchr ign any -> int
bpf_strchrnul ign any -> int
bpf_strnchr ign any any -> int
bpf_strrchr ign any -> int
bpf_strlen ign -> int
bpf_strnlen ign any -> int
bpf_strspn ign ign -> int
bpf_strcspn ign ign -> int
bpf_strstr ign ign -> int
bpf_strcasestr ign ign -> int
bpf_strnstr ign ign any -> int
bpf_strncasestr ign ign any -> int
bpf_dynptr_copy dynptr any dynptr any any -> int
bpf_dynptr_memset dynptr any any any -> int
bpf_task_from_pid any -> btf:task_struct
bpf_task_from_vpid any -> btf:task_struct
bpf_task_acquire btf:task_struct -> btf:task_struct
bpf_task_release btf:task_struct -> void
bpf_cgroup_from_id any -> btf:cgroup
bpf_cgroup_acquire btf:cgroup -> btf:cgroup
bpf_cgroup_release btf:cgroup -> void
bpf_cgroup_ancestor btf:cgroup any -> btf:cgroup
bpf_task_under_cgroup btf:task_struct btf:cgroup -> int
bpf_cpumask_create -> btf:bpf_cpumask
bpf_cpumask_acquire btf:bpf_cpumask -> btf:bpf_cpumask
bpf_cpumask_release btf:bpf_cpumask -> void
bpf_cpumask_first btf:cpumask -> int
bpf_cpumask_set_cpu any btf:bpf_cpumask -> void
bpf_cpumask_clear_cpu any btf:bpf_cpumask -> void
bpf_cpumask_test_cpu any btf:cpumask -> int
bpf_cpumask_setall btf:bpf_cpumask -> void
bpf_cpumask_clear btf:bpf_cpumask -> void
bpf_cpumask_empty btf:cpumask -> int
bpf_cpumask_weight btf:cpumask -> int
"""
