"""Prototypes of the kernel's functions as a text table; pybpf.verifier.kfuncs reads it.

A row: a function's name, its arguments, ``->``, its result. Arguments: ``any`` a number, ``const``
a known one, ``ign`` is not looked at, ``ctx``, ``iter:SLOTS`` an iterator of that many slots of the
stack, ``dynptr`` and ``dynptr_new:KIND``, ``buf? size`` an area of memory or NULL with its known
size, ``btf:STRUCT``, ``mem:BYTES``, ``wq``, ``map`` and ``func``; of objects that programs allocate
``object``, ``counted`` one with a bpf_refcount, ``root:KIND`` of a list or a tree, ``node:KIND``
one that the program owns, ``shared:KIND`` one that others may own, and ``lock`` of the resilient
kind. Results: ``void``, ``int``, ``mem:BYTES`` read-only memory, ``slice`` of a dynptr,
``btf:STRUCT``, ``new`` and ``new:percpu`` an object of the type that an argument says, ``same`` as
the argument, ``member`` of the root.

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
bpf_obj_new const -> new
bpf_obj_new_impl const ign -> new
bpf_percpu_obj_new const -> new:percpu
bpf_percpu_obj_new_impl const ign -> new:percpu
bpf_obj_drop object -> void
bpf_obj_drop_impl object ign -> void
bpf_percpu_obj_drop object:percpu -> void
bpf_percpu_obj_drop_impl object:percpu ign -> void
bpf_refcount_acquire counted -> same
bpf_refcount_acquire_impl counted ign -> same
bpf_list_push_front root:list_head node:list_node -> int
bpf_list_push_front_impl root:list_head node:list_node ign any -> int
bpf_list_push_back root:list_head node:list_node -> int
bpf_list_push_back_impl root:list_head node:list_node ign any -> int
bpf_list_pop_front root:list_head -> member
bpf_list_pop_back root:list_head -> member
bpf_list_front root:list_head -> member
bpf_list_back root:list_head -> member
bpf_list_del root:list_head shared:list_node -> member
bpf_list_empty root:list_head -> int
bpf_list_is_first root:list_head shared:list_node -> int
bpf_list_is_last root:list_head shared:list_node -> int
bpf_rbtree_add root:rb_root node:rb_node func -> int
bpf_rbtree_add_impl root:rb_root node:rb_node func ign any -> int
bpf_rbtree_remove root:rb_root shared:rb_node -> member
bpf_rbtree_first root:rb_root -> member
bpf_rbtree_root root:rb_root -> member
bpf_rbtree_left root:rb_root shared:rb_node -> member
bpf_rbtree_right root:rb_root shared:rb_node -> member
bpf_res_spin_lock lock -> int
bpf_res_spin_unlock lock -> void
bpf_res_spin_lock_irqsave lock irq:save -> int
bpf_res_spin_unlock_irqrestore lock irq:restore -> void
bpf_arena_alloc_pages map ign any any any -> int
bpf_arena_free_pages map ign any -> void
bpf_arena_reserve_pages map ign any -> int
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
