"""Programs that are attached to a kernel's own types, held to types that are made here.

What is said of them is what Linux 6.1, 6.12 and 7.3 say of programs of the same form: the objects
of tests/objects are compared with the kernels themselves (tests/kernel/test_own_objects.py).
"""

from functools import cache

import pytest

from pybpf.btf.abi import Encoding
from pybpf.btf.builder import Builder
from pybpf.btf.reader import Btf, Kind
from pybpf.btf.types import (
    Array,
    Composite,
    DataSec,
    Field,
    Forward,
    Func,
    FuncProto,
    Int,
    Placed,
    Reference,
    Var,
)
from pybpf.corpus import CorpusMap, CorpusProgram, Fixup, Ksym
from pybpf.dataclass import replace
from pybpf.errors import TargetError
from pybpf.isa.abi import AttachType, MapType, ProgType
from pybpf.isa.assembler import assemble
from pybpf.isa.encoding import encode
from pybpf.target.profile import profile
from pybpf.verifier.kerneltypes import KernelTypes, types_of
from pybpf.verifier.verify import verify

KERNELS = ("6.1", "6.12", "7.3")


@cache
def kernel_blob():
    """Return the types of a kernel of a few structures, functions and variables."""
    b = Builder()
    u32 = b.add(Int("unsigned int", 4, Encoding.NONE, 32))
    u64 = b.add(Int("long", 8, Encoding.SIGNED, 64))
    char = b.add(Int("char", 1, Encoding.SIGNED, 8))
    flag = b.add(Int("_Bool", 1, Encoding.BOOL, 8))
    void = b.add(Reference(Kind.PTR, 0))
    const = b.add(Reference(Kind.CONST, char))
    text = b.add(Reference(Kind.PTR, const))
    name = b.add(Array(char, u32, 16))
    rest = b.add(Array(u32, u32, 0))

    def pointer(number):
        return b.add(Reference(Kind.PTR, number))

    def struct(text, size, *fields, kind=Kind.STRUCT):
        return Composite(kind, text, size, tuple(Field(*field) for field in fields))

    task, mm, file = b.reserve(), b.reserve(), b.reserve()
    to_task, to_mm, to_file = pointer(task), pointer(mm), pointer(file)
    tagged = pointer(b.add(Reference(Kind.TYPE_TAG, task, "rcu")))
    user = pointer(b.add(Reference(Kind.TYPE_TAG, task, "user")))
    opaque = pointer(b.add(Forward("secret")))
    link = b.reserve()
    to_link = pointer(link)
    b.put(link, struct("list_head", 16, ("next", to_link, 0), ("prev", to_link, 64)))
    either = b.add(
        struct("", 8, ("as_task", to_task, 0), ("as_number", u64, 0), kind=Kind.UNION)
    )  # fmt: skip
    only = b.add(struct("", 8, ("one", to_task, 0), kind=Kind.UNION))
    b.put(
        task,
        struct(
            "task_struct", 208,
            ("pid", u32, 0), ("comm", name, 64), ("mm", to_mm, 192), ("parent", to_task, 256),
            ("group_leader", to_task, 320), ("tasks", link, 384), ("", either, 512),
            ("", only, 576), ("stack", void, 640), ("hidden", opaque, 704),
            ("by_rcu", tagged, 768), ("of_user", user, 832), ("list", b.add(Array(link, u32, 2)),
            896), ("bits", u32, 1152, 0), ("more", u64, 1216),
        ),
    )  # fmt: skip
    b.put(mm, struct("mm_struct", 16, ("start", u64, 0), ("exe_file", to_file, 64)))
    b.put(file, struct("file", 8, ("flags", u32, 0), ("tail", rest, 32)))
    b.add(struct("task_struct__safe_rcu", 8, ("group_leader", to_task, 0)))
    b.add(struct("mm_struct__safe_rcu_or_null", 8, ("exe_file", to_file, 0)))
    b.add(struct("task_struct__safe_trusted", 8, ("mm", to_mm, 0)))

    def proto(returns, *types):
        return b.add(FuncProto(returns, tuple((f"a{n}", t) for n, t in enumerate(types))))

    def function(text, returns, **params):
        return b.add(Func(text, b.add(FuncProto(returns, tuple(params.items()))), 0))

    traced = proto(0, void, flag, to_task, to_task)
    b.add(Reference(Kind.TYPEDEF, pointer(traced), "btf_trace_sched_switch"))
    b.add(Reference(Kind.TYPEDEF, pointer(traced), "btf_trace_sys_enter"))
    b.add(Reference(Kind.TYPEDEF, pointer(proto(0, void, to_task, to_task)), "btf_trace_null"))
    function("__bpf_trace_null", 0, data=void, task=to_task, other__nullable=to_task)
    prio = pointer(proto(0, void, to_task, to_task))
    b.add(Reference(Kind.TYPEDEF, prio, "btf_trace_sched_pi_setprio"))
    function("vfs_read", u64, file=to_file, to=text, size=u64, pos=void)
    function("returns_file", to_file, task=to_task)
    function("returns_nothing", 0, task=to_task)
    function("returns_struct", link, task=to_task)
    function("migrate_disable", 0)
    function("do_exit", 0, code=u64)
    function("security_file_open", u32, file=to_file)
    function("many", u32, **{f"a{n}": u64 for n in range(13)})
    function("pointers", u32, texts=pointer(text), hidden=opaque, any=void)
    function("__x64_sys_read", u64, regs=void)
    meta = b.add(struct("bpf_iter_meta", 8, ("seq", void, 0)))
    function("bpf_iter_task", u32, meta=pointer(meta), task=to_task)
    b.add(struct("bpf_iter__task", 16, ("meta", pointer(meta), 0), ("task", to_task, 64)))
    function("bpf_iter_bpf_map_elem", u32, meta=pointer(meta), map=void, key=void, value=void)
    b.add(struct("bpf_iter__bpf_map_elem", 8, ("meta", pointer(meta), 0)))
    function("bpf_iter_run_prog", u32, task=to_task)
    function("bpf_lsm_file_open", u32, file=to_file)
    function("bpf_lsm_task_free", 0, task=to_task)
    function("bpf_lsm_getprocattr", u32, task=to_task)
    function("bpf_lsm_verify_prog", u32, task=to_task)
    hooks = ("file_open", "task_free", "getprocattr")
    b.add(
        Composite(
            Kind.UNION, "security_list_options", 8, tuple(Field(hook, void, 0) for hook in hooks)
        )
    )
    sock = b.add(struct("sock", 8, ("state", u32, 0)))
    b.add(struct("tcp_sock", 32, ("sk", sock, 0), ("snd_cwnd", u32, 64), ("srtt", u32, 96)))
    thresh = pointer(proto(u32, pointer(sock)))
    avoid = pointer(proto(0, pointer(sock), u32))
    ops = b.add(
        struct(
            "tcp_congestion_ops", 40, ("ssthresh", thresh, 0), ("avoid", avoid, 64),
            ("name", name, 128), ("get_info", thresh, 256),
        )
    )  # fmt: skip
    b.add(struct("bpf_struct_ops_tcp_congestion_ops", 40, ("data", ops, 0)))
    queues = b.add(Var("runqueues", task, 1))
    number = b.add(Var("this_cpu_off", u64, 1))
    b.add(DataSec(".data..percpu", 216, (Placed(queues, 0, 208), Placed(number, 208, 8))))
    b.add(Var("init_task", task, 1))
    b.add(Var("jiffies", u64, 1))
    return b.blob()


@cache
def kernel_types():
    return Btf(kernel_blob())


TYPES = KernelTypes(kernel_types)
SECTIONS = {
    "tp_btf": (ProgType.TRACING, AttachType.TRACE_RAW_TP),
    "fentry": (ProgType.TRACING, AttachType.TRACE_FENTRY),
    "fexit": (ProgType.TRACING, AttachType.TRACE_FEXIT),
    "fmod_ret": (ProgType.TRACING, AttachType.MODIFY_RETURN),
    "iter": (ProgType.TRACING, AttachType.TRACE_ITER),
    "lsm": (ProgType.LSM, AttachType.LSM_MAC),
    "lsm_cgroup": (ProgType.LSM, AttachType.LSM_CGROUP),
    "struct_ops": (ProgType.STRUCT_OPS, 0),
    "freplace": (ProgType.EXT, 0),
    "raw_tp": (ProgType.RAW_TRACEPOINT, 0),
}


def program(section, text, *, licence="GPL", ksyms=()):
    kind, _, name = section.partition("/")
    prog_type, attach = SECTIONS[kind.removesuffix(".s")]
    lines = text if "exit" in text else f"{text}; r0 = 0; exit"
    return CorpusProgram(
        "p", prog_type, encode(assemble(lines), "little"), int(attach),
        16 if kind.endswith(".s") else 0, licence=licence, ksyms=ksyms, attach_to=name,
    )  # fmt: skip


def says(kernel, *arguments, types=TYPES, **more):
    report = verify(program(*arguments, **more), profile(kernel), types=types)
    return report.message or report.verdict


TASK = "r2 = *(u64 *)(r1 + 8)"
ANY = "invalid bpf_context access off={} size={}"
ARGUMENTS = [
    ("tp_btf/sched_switch", "r2 = *(u64 *)(r1 + 0); r3 = *(u64 *)(r1 + 16)", "accept"),
    ("tp_btf/sched_switch", "r2 = *(u8 *)(r1 + 0)", "accept"),
    ("tp_btf/sched_switch", "r2 = *(u64 *)(r1 + 24)", ANY.format(24, 8)),
    ("tp_btf/sched_switch", "r2 = *(u64 *)(r1 - 8)", ANY.format(-8, 8)),
    ("tp_btf/sched_switch", "r2 = *(u64 *)(r1 + 96)", ANY.format(96, 8)),
    ("tp_btf/sched_switch", "r2 = *(u32 *)(r1 + 4)", ANY.format(4, 4)),
    ("tp_btf/sched_switch", "r2 = 1; *(u64 *)(r1 + 0) = r2", ANY.format(0, 8)),
    ("fentry/vfs_read", "r2 = *(u64 *)(r1 + 24)", "accept"),
    ("fentry/vfs_read", "r2 = *(u64 *)(r1 + 32)", ANY.format(32, 8)),
    ("fexit/vfs_read", "r2 = *(u64 *)(r1 + 32)", "accept"),
    ("fexit/vfs_read", "r2 = *(u64 *)(r1 + 40)", ANY.format(40, 8)),
    ("fexit/returns_file", "r2 = *(u64 *)(r1 + 8); r3 = *(u32 *)(r2 + 0)", "accept"),
    ("fexit/returns_nothing", "r2 = *(u64 *)(r1 + 8)", ANY.format(8, 8)),
    ("fexit/vfs_read", "r0 = 1; exit", "At program exit the register R0 "),
    ("iter/task", "r2 = *(u64 *)(r1 + 8); if r2 == 0 goto +1; r3 = *(u32 *)(r2 + 0)", "accept"),
    ("iter/task", "r2 = *(u64 *)(r1 + 8); r3 = *(u32 *)(r2 + 0)", "R2 invalid mem access '"),
    ("iter/task", "r0 = 1; exit", "accept"),
    ("iter/task", "r0 = 2; exit", "At program exit the register R0 "),
    ("iter/bpf_map_elem", "r2 = *(u64 *)(r1 + 24); if r2 == 0 goto +1; *(u8 *)(r2 + 9) = 1",
     "accept"),
    ("iter/bpf_map_elem", "r2 = *(u64 *)(r1 + 16); if r2 == 0 goto +1; *(u8 *)(r2 + 9) = 1",
     "R2 cannot write into rdonly_buf"),
    ("lsm/file_open", "r2 = *(u64 *)(r1 + 0); r3 = *(u32 *)(r2 + 0)", "accept"),
    ("lsm/file_open", "r2 = *(u8 *)(r1 - 64)", ANY.format(-64, 1)),
    ("lsm/task_free", "r0 = 77; exit", "accept"),
    ("lsm/task_free", "exit", "accept"),
    ("lsm_cgroup/file_open", "r0 = 1; exit", "accept"),
    ("lsm_cgroup/file_open", "r0 = 2; exit", "At program exit the register R0 "),
    ("lsm_cgroup/task_free", "r0 = 0; exit",
     "Note, BPF_LSM_CGROUP that attach to void LSM hooks can't modify return value!"),
    ("struct_ops/tcp_congestion_ops.ssthresh",
     "r2 = *(u64 *)(r1 + 0); r0 = *(u32 *)(r2 + 8); exit", "accept"),
    ("struct_ops/tcp_congestion_ops.ssthresh", "exit", "R0 !read_ok"),
    ("struct_ops/tcp_congestion_ops.avoid", "exit", "accept"),
    ("struct_ops/tcp_congestion_ops.avoid", "r2 = *(u64 *)(r1 + 0); *(u32 *)(r2 + 8) = 1",
     "accept"),
    ("struct_ops/tcp_congestion_ops.avoid", "r2 = *(u64 *)(r1 + 0); *(u32 *)(r2 + 12) = 1",
     "no write support to tcp_sock at off 12"),
    ("struct_ops/tcp_congestion_ops.avoid", "r2 = *(u64 *)(r1 + 0); *(u64 *)(r2 + 8) = 1",
     "write access at off 8 with size 8 beyond the member of tcp_sock ended at 12"),
    ("struct_ops/tcp_congestion_ops.avoid", "r2 = *(u64 *)(r1 + 16)", ANY.format(16, 8)),
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("section", "text", "expected"), ARGUMENTS)
def test_arguments_and_results(kernel, section, text, expected):
    assert says(kernel, section, text).startswith(expected)


ASLEEP = "Only fentry/fexit/fmod_ret, lsm, iter, uprobe, and struct_ops programs can be sleepable"
# What the kernels do not all say.
RELEASES = [
    ("tp_btf/sched_switch", "r2 = *(u32 *)(r1 + 8)", {"6.1": "accept", "6.12": ANY.format(8, 4)}),
    ("fentry/pointers", "r2 = *(u64 *)(r1 + 0)", {"6.12": ANY.format(0, 8), "7.3": "accept"}),
    ("fentry/pointers", "r2 = *(u64 *)(r1 + 8)", {"6.12": ANY.format(8, 8), "7.3": "accept"}),
    ("fentry/pointers", "r2 = *(u64 *)(r1 + 16)", {"6.12": "accept", "7.3": "accept"}),
    ("tp_btf/null", "r2 = *(u64 *)(r1 + 0); r3 = *(u32 *)(r2 + 0)", {"7.3": "accept"}),
    ("tp_btf/null", "r2 = *(u64 *)(r1 + 8); r3 = *(u32 *)(r2 + 0)",
     {"6.1": "accept", "7.3": "R2 invalid mem access 'trusted_ptr_or_null_'"}),
    ("tp_btf/sched_pi_setprio", "r2 = *(u64 *)(r1 + 8); r3 = *(u32 *)(r2 + 0)",
     {"6.1": "accept", "6.12": "R2 invalid mem access 'trusted_ptr_or_null_'"}),
    ("lsm/file_open", "r0 = 1; exit",
     {"6.1": "accept",
      "6.12": "At program exit the register R0 has smin=1 smax=1 should have been in [-4095, 0]"}),
    ("lsm/file_open", "r0 = *(u64 *)(r1 + 8); exit", {"6.1": "accept", "6.12": "accept"}),
    ("lsm/file_open", "w0 = -1; exit", {"6.1": "accept", "6.12": "accept", "7.3": "accept"}),
    ("fexit/do_exit", "r2 = 0",
     {"6.12": "accept", "7.3": "Attaching fexit/fsession/fmod_ret to __noreturn function 'do_exit' "
                               "is rejected."}),
    ("fmod_ret/__x64_sys_read", "r2 = 0",
     {"6.12": "__x64_sys_read() is not modifiable", "7.3": "accept"}),
    ("tp_btf.s/sched_switch", "r2 = 0",
     {"6.1": ASLEEP, "6.12": ASLEEP,
      "7.3": "Sleepable program cannot attach to non-faultable tracepoint sched_switch"}),
    ("tp_btf.s/sys_enter", "r2 = 0", {"6.12": ASLEEP, "7.3": "accept"}),
    ("raw_tp.s/", "r2 = 0", {"6.12": ASLEEP, "7.3": "accept"}),
    ("lsm_cgroup.s/file_open", "r0 = 1; exit",
     {"6.12": "accept", "7.3": "Program of this type cannot be sleepable"}),
    ("struct_ops.s/tcp_congestion_ops.avoid", "r2 = 0", {"6.12": "accept", "7.3": "accept"}),
    ("fentry.s/__x64_sys_read", "r2 = 0",
     {"6.12": "__x64_sys_read is not sleepable", "7.3": "accept"}),
]  # fmt: skip


@pytest.mark.parametrize(("section", "text", "expected"), RELEASES)
def test_what_releases_differ_in(section, text, expected):
    assert {kernel: says(kernel, section, text) for kernel in expected} == expected


NOT_TOLD = "not modelled: what the program is attached to, without the kernel's types "
TARGETS = [
    ("tp_btf/none", "Tracing programs must provide btf_id"),
    ("fentry/none", "Tracing programs must provide btf_id"),
    ("freplace/main", "Tracing programs must provide btf_id"),
    ("fentry/many", "The function many has 13 arguments. Too many."),
    ("fentry/returns_struct", "The function returns_struct return type STRUCT is unsupported."),
    ("fmod_ret/vfs_read", "vfs_read() is not modifiable"),
    ("fmod_ret/security_file_open", "accept"),
    ("fentry.s/vfs_read", "vfs_read is not sleepable"),
    ("iter/none", "Tracing programs must provide btf_id"),
    ("iter/run_prog", "reject"),
    ("iter.s/task", "accept"),
    ("lsm.s/file_open", "accept"),
    ("lsm.s/task_free", "bpf_lsm_task_free is not sleepable"),
    ("lsm/verify_prog", "points to wrong type name bpf_lsm_verify_prog"),
    ("lsm/getprocattr", "points to disabled hook bpf_lsm_getprocattr"),
    ("struct_ops/none.member", "attach_btf_id 0 is not a supported struct"),
    ("struct_ops/task_struct.pid", " is not a supported struct"),
    ("struct_ops/tcp_congestion_ops.none", "attach to invalid member idx 4 of struct "),
    ("struct_ops/tcp_congestion_ops.name", "attach to invalid member name(@idx 2) of struct "),
    ("struct_ops/tcp_congestion_ops.get_info", "attach to unsupported member get_info of struct"),
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("section", "expected"), TARGETS)
def test_what_can_be_attached_to(kernel, section, expected):
    assert expected in says(kernel, section, "r2 = 0")


def test_without_the_types_nothing_is_said_of_what_a_program_is_attached_to():
    assert says("6.12", "fentry/vfs_read", "r2 = 0", types=None) == (
        f"{NOT_TOLD}(--btf FILE, or --kernel live)"
    )


def test_denied_functions():
    assert says("7.3", "fentry/migrate_disable", "r2 = 0") == (
        "Attaching tracing programs to function 'migrate_disable' is rejected."
    )
    assert says("6.12", "fentry/migrate_disable", "r2 = 0") == "reject"


BEYOND = "access beyond the end of member comm (mend:24) in struct task_struct with off 20 size 8"
PARTLY = "cannot access ptr member mm with moff 24 in struct task_struct with off {} size {}"
ACCESSES = [
    ("r3 = *(u32 *)(r2 + 0)", "accept"),
    ("r3 = *(u8 *)(r2 + 3)", "accept"),
    ("r3 = *(u64 *)(r2 + 8)", "accept"),
    ("r3 = *(u64 *)(r2 + 0)", "access beyond the end of member pid (mend:4) in struct task_struct"),
    ("r3 = *(u64 *)(r2 + 20)", BEYOND),
    ("r3 = *(u32 *)(r2 + 4)", "struct task_struct doesn't have field at offset 4"),
    ("r3 = *(u32 *)(r2 + 24)", PARTLY.format(24, 4)),
    ("r3 = *(u64 *)(r2 + 28)", PARTLY.format(28, 8)),
    ("r3 = *(u64 *)(r2 + 24); r4 = *(u64 *)(r3 + 0)", "accept"),
    ("r3 = *(u64 *)(r2 + 48); r3 = *(u64 *)(r3 + 8); r3 = *(u64 *)(r3 + 0)", "accept"),
    ("r3 = *(u64 *)(r2 + 120); r4 = *(u64 *)(r3 + 8)", "accept"),
    ("r3 = *(u64 *)(r2 + 64); r4 = *(u32 *)(r3 + 0)", "accept"),
    ("r3 = *(u64 *)(r2 + 72); r4 = *(u32 *)(r3 + 0)", "accept"),
    ("r3 = *(u32 *)(r2 + 208)", "access beyond struct task_struct at off 208 size 4"),
    ("r3 = *(u32 *)(r2 - 4)", "R2 is ptr_task_struct invalid negative access: off=-4"),
    ("r2 += 8; r3 = *(u64 *)(r2 + 0)", "accept"),
    ("r3 = *(u8 *)(r1 + 0); r2 += r3; r3 = *(u8 *)(r2 + 0)",
     "R2 is ptr_task_struct invalid variable offset: off=0, var_off=(0x0; 0xff)"),
    ("*(u32 *)(r2 + 0) = 1", "only read is supported"),
    ("r3 = *(u64 *)(r2 + 104); r4 = *(u64 *)(r3 + 0)",
     "R3 is ptr_task_struct access user memory: off=0"),
    ("lock *(u64 *)(r2 + 144) += r3", "R3 !read_ok"),
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("text", "expected"), ACCESSES)
def test_loads_through_structures(kernel, text, expected):
    assert says(kernel, "tp_btf/sched_switch", f"{TASK}; {text}").startswith(expected)


def test_structures_are_closed_to_other_licences():
    text = f"{TASK}; r3 = *(u32 *)(r2 + 0)"
    expected = "Cannot access kernel 'struct task_struct' from non-GPL compatible program"
    assert says("6.12", "tp_btf/sched_switch", text, licence="MIT") == expected
    assert says("6.1", "tp_btf/sched_switch", text, licence="MIT") == "accept"
    hook = says("6.12", "lsm/file_open", "r2 = 0", licence="MIT")
    assert hook == "LSM programs must have a GPL compatible license"


def test_elements_behind_a_structure():
    text = "r2 = *(u64 *)(r1 + 0); r3 = *(u32 *)(r2 + 400)"
    assert says("6.12", "fentry/vfs_read", text) == "accept"
    assert says("6.1", "fentry/vfs_read", text).startswith("access beyond struct file at off 400")


@pytest.mark.parametrize("off", [80, 88])
def test_pointers_to_no_structure(off):
    text = f"{TASK}; r3 = *(u64 *)(r2 + {off}); r4 = *(u8 *)(r3 + 5)"
    assert says("6.12", "tp_btf/sched_switch", text) == "R3 invalid mem access 'scalar'"
    assert says("7.3", "tp_btf/sched_switch", text) == "accept"
    stores = f"{TASK}; r3 = *(u64 *)(r2 + {off}); *(u8 *)(r3 + 5) = 1"
    assert says("7.3", "tp_btf/sched_switch", stores) == (
        "R3 cannot write into rdonly_untrusted_mem"
    )


# This helper takes no structure, and says what it is given.
TRUST = [
    ("r2 = *(u64 *)(r1 + 8)", "trusted_ptr_"),
    ("r2 = *(u64 *)(r1 + 8); r2 = *(u64 *)(r2 + 40)", "rcu_ptr_"),
    ("r2 = *(u64 *)(r1 + 8); r2 = *(u64 *)(r2 + 32)", "ptr_"),
    ("r2 = *(u64 *)(r1 + 8); r2 = *(u64 *)(r2 + 96)", "rcu_ptr_or_null_"),
    ("r2 = *(u64 *)(r1 + 8); r2 = *(u64 *)(r2 + 64)", "untrusted_ptr_"),
    ("r2 = *(u64 *)(r1 + 8); r2 = *(u64 *)(r2 + 72)", "ptr_"),
    ("r2 = *(u64 *)(r1 + 8); r2 = *(u64 *)(r2 + 24)", "trusted_ptr_"),
    ("r2 = *(u64 *)(r1 + 8); r2 = *(u64 *)(r2 + 24); r2 = *(u64 *)(r2 + 8)", "rcu_ptr_or_null_"),
    ("r2 = *(u64 *)(r1 + 8); r2 = *(u64 *)(r2 + 32); r2 = *(u64 *)(r2 + 40)", "ptr_"),
    ("r2 = *(u64 *)(r1 + 8); r2 = *(u64 *)(r2 + 64); r2 = *(u64 *)(r2 + 40)", "untrusted_ptr_"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind"), TRUST)
def test_how_far_a_pointer_is_trusted(text, kind):
    asks = f"{text}; r1 = r2; r2 = 0; call bpf_ringbuf_submit; exit"
    said = says("6.12", "tp_btf/sched_switch", asks)
    assert said.startswith(f"R1 type={kind} expected=")


def test_sleepable_programs_trust_only_what_is_listed():
    for off, kind in ((40, "untrusted_ptr_"), (24, "trusted_ptr_")):
        said = says("6.12", "iter.s/task", "r2 = *(u64 *)(r1 + 8); if r2 != 0 goto +2; r0 = 0; "
                    f"exit; r1 = *(u64 *)(r2 + {off}); r2 = 0; call bpf_ringbuf_submit; "
                    "exit")  # fmt: skip
        assert said.startswith(f"R1 type={kind} expected=")


def ksym(name, **more):
    return (Ksym(0, name, **more),)


KSYMS = [
    ("runqueues", "call bpf_this_cpu_ptr; r1 = *(u32 *)(r0 + 0)", "accept"),
    ("runqueues", "r2 = 1; call bpf_per_cpu_ptr; r1 = *(u32 *)(r0 + 0)",
     "R0 invalid mem access 'ptr_or_null_'"),
    ("runqueues", "r2 = *(u32 *)(r1 + 0)", "R1 is ptr_task_struct access percpu memory: off=0"),
    ("this_cpu_off", "call bpf_this_cpu_ptr; r1 = *(u64 *)(r0 + 0)", "accept"),
    ("this_cpu_off", "call bpf_this_cpu_ptr; r1 = *(u64 *)(r0 + 8)",
     "invalid access to memory, mem_size=8 off=8 size=8"),
    ("this_cpu_off", "call bpf_this_cpu_ptr; *(u64 *)(r0 + 0) = 1",
     "R0 cannot write into rdonly_mem"),
    ("init_task", "r2 = *(u32 *)(r1 + 0)", "accept"),
    ("jiffies", "r2 = *(u64 *)(r1 + 0)", "accept"),
    ("jiffies", "call bpf_this_cpu_ptr", "R1 type=rdonly_mem expected=percpu_ptr_"),
    ("vfs_read", "r2 = *(u64 *)(r1 + 0)", "invalid access to memory, mem_size=0 off=0 size=8"),
    ("none", "r2 = 0", "the kernel's types have no none"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "expected"), KSYMS)
def test_variables_of_the_kernel(name, text, expected):
    said = says("6.12", "raw_tp/", f"r1 = 0 ll; {text}", ksyms=ksym(name))
    # The kernel prints one line about the area and one about the bound.
    expected = "R" if expected.startswith("invalid access to memory") else expected
    assert said.startswith(expected)


def test_what_is_weak_may_be_missing():
    text = "r1 = 0 ll; if r1 == 0 goto +1; r2 = *(u64 *)(r1 + 0)"
    assert says("6.12", "raw_tp/", text, ksyms=ksym("none", weak=True)) == "accept"
    assert says("6.12", "raw_tp/", text, ksyms=ksym("jiffies", weak=True)) == "accept"


def test_symbols_that_are_not_typed_are_numbers():
    text = "r1 = 0 ll; r2 = *(u64 *)(r1 + 0)"
    said = says("6.12", "raw_tp/", text, ksyms=ksym("anything", typed=False))
    assert said == "R1 invalid mem access 'scalar'"


def test_symbols_of_a_kernel_that_lists_them():
    listed = KernelTypes(kernel_types, lambda: "ffffffff81000000 T _stext\nffffffff82 D jiffies\n")
    text = "r1 = 0 ll"

    def said(name, **more):
        return says("6.12", "raw_tp/", text, ksyms=ksym(name, **more), types=listed)

    assert said("_stext", typed=False) == "accept"
    assert said("none", typed=False) == "the kernel has no symbol none"
    assert said("none", typed=False, weak=True) == "accept"
    assert said("jiffies") == "accept"
    assert said("runqueues") == (
        "ldimm64 failed to find the address for kernel symbol 'runqueues'."
    )


# A value of a map that holds a pointer, and what guests of 6.12 and 7.3 said of it. The kernel here
# has a list_head and a file, of which none has a destructor, and nothing that is called mine.
KPTR_VALUE = 5
WRONG = "invalid kptr access, R1 type=trusted_ptr_task_struct expected=ptr_{0} or untrusted_ptr_{0}"
NO_TYPES = "cannot load type information"
LOADS = "r2 = *(u64 *)(r3 + 0)"
STORES = "r1 = *(u64 *)(r1 + 8); r1 += {}; *(u64 *)(r3 + 0) = r1"
HELD = [
    ("task_struct", "kptr", LOADS, "accept"),
    ("mine", "kptr", LOADS, "accept"),
    ("", "kptr", LOADS, "accept"),
    ("file", "kptr", LOADS, NO_TYPES),
    ("list_head", "kptr", LOADS, NO_TYPES),
    ("list_head", "kptr_untrusted", LOADS, "accept"),
    ("list_head", "percpu_kptr", LOADS, "accept"),
    ("task_struct", "kptr_untrusted", STORES.format(0), "accept"),
    ("list_head", "kptr_untrusted", STORES.format(48), "accept"),
    ("list_head", "kptr_untrusted", STORES.format(8), WRONG.format("list_head")),
    ("file", "kptr_untrusted", STORES.format(0), WRONG.format("file")),
    ("mine", "kptr_untrusted", STORES.format(0), WRONG.format("mine")),
]  # fmt: skip


def holding(name, tag, text):
    """Return a program whose map's value is a tagged pointer to a structure of a name."""
    b = Builder()
    u32 = b.add(Int("unsigned int", 4, Encoding.NONE, 32))
    held = b.add(Composite(Kind.STRUCT, name, 4, (Field("x", u32, 0),)))
    pointer = b.add(Reference(Kind.PTR, b.add(Reference(Kind.TYPE_TAG, held, tag))))
    assert b.add(Composite(Kind.STRUCT, "v", 8, (Field("p", pointer, 0),))) == KPTR_VALUE
    made = program("tp_btf/sched_switch", f"r3 = 0 ll; {text}")
    spec = CorpusMap(MapType.ARRAY, 4, 8, 1, btf_key=u32, btf_value=KPTR_VALUE)
    return replace(made, maps=(spec,), fixups=(Fixup(0, "map_value", 0),), btf=b.blob())


@pytest.mark.parametrize("kernel", ["6.12", "7.3"])
@pytest.mark.parametrize(("name", "tag", "text", "expected"), HELD)
def test_pointers_that_values_hold_are_told_by_the_kernels_types(kernel, name, tag, text, expected):
    report = verify(holding(name, tag, text), profile(kernel), types=TYPES)
    assert (report.message or report.verdict) == expected


def test_a_record_of_functions_that_is_cut_off_is_none():
    cut = replace(holding("mine", "kptr", LOADS), func_info=bytes(7))
    assert verify(cut, profile("6.12"), types=TYPES).verdict == "accept"


def test_types_are_read_when_they_are_needed():
    def load():
        raise TargetError("read")

    lazy = KernelTypes(load)
    assert says("6.12", "raw_tp/", "r2 = *(u64 *)(r1 + 0)", types=lazy) == "accept"
    with pytest.raises(TargetError, match="read"):
        says("6.12", "fentry/vfs_read", "r2 = 0", types=lazy)


def test_types_of_a_file(tmp_path):
    path = tmp_path / "kernel.btf"
    path.write_bytes(kernel_blob())
    types = types_of(str(path), live=False)
    text = f"{TASK}; r3 = *(u64 *)(r2 + 24)"
    assert says("6.12", "tp_btf/sched_switch", text, types=types) == "accept"
    assert types_of(None, live=False) is None


def test_damaged_types_are_no_fault_of_the_model():
    b = Builder()
    nested = b.reserve()
    b.put(nested, Composite(Kind.STRUCT, "task_struct", 8, (Field("x", nested, 0),)))
    void = b.add(Reference(Kind.PTR, 0))
    task = b.add(Reference(Kind.PTR, nested))
    trace = b.add(FuncProto(0, (("", void), ("", task))))
    b.add(Reference(Kind.TYPEDEF, b.add(Reference(Kind.PTR, trace)), "btf_trace_x"))
    types = KernelTypes(lambda: Btf(b.blob()))
    text = "r2 = *(u64 *)(r1 + 0); r3 = *(u64 *)(r2 + 0)"
    assert says("6.12", "tp_btf/x", text, types=types).startswith("not modelled: structures")
