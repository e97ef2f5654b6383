"""Memory that a call reads or writes behind a register: check_helper_mem_access and its kin.

``write``: the callee stores there. ``uninit``: a stack area need not be initialised, and is all
MISC afterwards. Sizes in bytes. All raise Refusal with the kernel's message.
"""
