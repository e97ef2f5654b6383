"""Registers and calling conventions of the architectures a script can be compiled for.

Another architecture is another row of ``ARCHES``, under the name that ``uname -m`` gives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pybpf.dataclass import dataclass
from pybpf.isa.insn import ByteOrder
from pybpf.types import ULONG, Show, Struct, Typedef, struct_of


@dataclass(frozen=True, slots=True)
class Arch:
    """One architecture. ``regs`` is what a kprobe's context points to (struct pt_regs or its like).

    ``arguments`` names the registers of the first integer arguments of a kernel function;
    further ones lie on the stack from ``stack_arguments`` bytes above ``sp`` on, at function entry
    (None: not described). ``syscall_prefixes`` are what today's kernels put before ``sys_``.
    """

    name: str
    byteorder: ByteOrder
    regs: Struct
    arguments: tuple[str, ...]
    retval: str
    ip: str
    sp: str
    stack_arguments: int | None
    syscall_prefixes: tuple[str, ...]

    def traced(self, *, on_return: bool) -> frozenset[str]:
        """Return the registers that a link to many functions (kprobe.multi) has at each of them.

        These are what ftrace saves for everyone. Since Linux 6.14, which has fprobes on top of the
        function graph tracer, the other fields of ``regs`` hold what was on the stack before.
        """
        both = {self.ip, self.sp}
        return frozenset(both | ({self.retval} if on_return else set(self.arguments)))

    def syscall_functions(self, name: str) -> tuple[str, ...]:
        """Return what the function of a system call may be called since Linux 4.17, best first.

        ``name`` is the older one, SyS_read or sys_read, or a pattern; nothing for other names.
        """
        prefix, _, rest = name.partition("_")
        if prefix.lower() != "sys" or not rest:
            return ()
        return tuple(f"{new}sys_{rest}" for new in self.syscall_prefixes)


_REGISTER = Typedef("reg_t", ULONG, Show.HEX)


def _regs(name: str, order: str) -> Struct:
    """Return a struct of unsigned longs; the field names are given in memory order."""
    return struct_of(name, [(register, _REGISTER) for register in order.split()])


def _numbered(prefix: str, first: int, last: int) -> str:
    return " ".join(f"{prefix}{n}" for n in range(first, last + 1))


# struct pt_regs of arch/x86/include/uapi/asm/ptrace.h, with the names it has in user space.
_X86_64 = Arch(
    name="x86_64",
    byteorder="little",
    regs=_regs(
        "pt_regs",
        "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss",
    ),
    arguments=("rdi", "rsi", "rdx", "rcx", "r8", "r9"),
    retval="rax",
    ip="rip",
    sp="rsp",
    stack_arguments=8,  # above the return address
    syscall_prefixes=("__x64_", "__se_", "__do_"),
)

# struct user_pt_regs of arch/arm64/include/uapi/asm/ptrace.h; its regs[31] under assembly names.
_AARCH64 = Arch(
    name="aarch64",
    byteorder="little",
    regs=_regs("user_pt_regs", f"{_numbered('x', 0, 30)} sp pc pstate"),
    arguments=tuple(_numbered("x", 0, 7).split()),
    retval="x0",
    ip="pc",
    sp="sp",
    stack_arguments=0,
    syscall_prefixes=("__arm64_", "__se_", "__do_"),
)

# struct user_regs_struct of arch/riscv/include/uapi/asm/ptrace.h.
_RISCV64 = Arch(
    name="riscv64",
    byteorder="little",
    regs=_regs(
        "user_regs_struct",
        f"pc ra sp gp tp t0 t1 t2 s0 s1 {_numbered('a', 0, 7)} {_numbered('s', 2, 11)} t3 t4 t5 t6",
    ),
    arguments=tuple(_numbered("a", 0, 7).split()),
    retval="a0",
    ip="pc",
    sp="sp",
    stack_arguments=0,
    syscall_prefixes=("__riscv_", "__se_", "__do_"),
)

# struct user_pt_regs of arch/s390/include/uapi/asm/ptrace.h: args[1], psw, gprs[16].
_S390X = Arch(
    name="s390x",
    byteorder="big",
    regs=_regs("user_pt_regs", f"args psw_mask psw_addr {_numbered('r', 0, 15)}"),
    arguments=tuple(_numbered("r", 2, 6).split()),
    retval="r2",
    ip="psw_addr",
    sp="r15",
    stack_arguments=160,  # above the callee's register save area
    syscall_prefixes=("__s390x_", "__se_", "__do_"),
)

ARCHES: Mapping[str, Arch] = MappingProxyType(
    {arch.name: arch for arch in (_X86_64, _AARCH64, _RISCV64, _S390X)}
)
