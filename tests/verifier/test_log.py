"""The trace of the model beside that of a kernel, and how registers are written."""

import pytest

from pybpf.dataclass import replace
from pybpf.errors import KernelError
from pybpf.isa.abi import MapType, ProgType
from pybpf.isa.assembler import assemble
from pybpf.isa.encoding import encode
from pybpf.script import MapRole, MapSpec
from pybpf.target.profile import profile
from pybpf.verifier import kinds
from pybpf.verifier.log import KernelLog, show_reg, show_slot
from pybpf.verifier.scalar import UNKNOWN, Scalar
from pybpf.verifier.state import Reg, Slot, known_reg
from pybpf.verifier.subject import of_program
from pybpf.verifier.verify import verify

MAPS = (MapSpec("hash", MapRole.MAP, MapType.HASH, 4, 8, 16),)
CALLS = """\
    r0 = *(u32 *)(r1 + 0)
    r2 = r0
    if r0 > 5 goto end
    r2 &= 255
    *(u64 *)(r10 - 8) = r2
    call f
    r1 = r5
end:
    r0 = 1
    exit
f:
    r0 = r1
    r0 = 0
    exit
"""
# What Linux 6.18 prints for CALLS, but for blanks in addresses and numbers in hexadecimal.
SAID = """\
0: R1=ctx() R10=fp0
0: (61) r0 = *(u32 *)(r1 + 0)         ; R0=scalar(smin=0,smax=umax=0xffffffff,\
var_off=(0x0; 0xffffffff)) R1=ctx()
1: (bf) r2 = r0                       ; R0=scalar(id=1,smin=0,smax=umax=0xffffffff,\
var_off=(0x0; 0xffffffff)) R2=scalar(id=1,smin=0,smax=umax=0xffffffff,var_off=(0x0; 0xffffffff))
2: (25) if r0 > 5 goto pc+4           ; R0=scalar(id=1,smin=smin32=0,\
smax=umax=smax32=umax32=5,var_off=(0x0; 0x7))
3: (57) r2 &= 255                     ; R2=scalar(smin=smin32=0,\
smax=umax=smax32=umax32=5,var_off=(0x0; 0x7))
4: (7b) *(u64 *)(r10 - 8) = r2        ; R2=scalar(id=2,smin=smin32=0,\
smax=umax=smax32=umax32=5,var_off=(0x0; 0x7)) R10=fp0 fp-8=scalar(id=2,smin=smin32=0,\
smax=umax=smax32=umax32=5,var_off=(0x0; 0x7))
5: (85) call pc+3
caller:
 R10=fp0 fp-8=scalar(id=2,smin=smin32=0,smax=umax=smax32=umax32=5,var_off=(0x0; 0x7))
callee:
 frame1: R1=ctx() R2=scalar(id=2,smin=smin32=0,smax=umax=smax32=umax32=5,var_off=(0x0; 0x7)) \
R10=fp0
9: frame1: R1=ctx() R2=scalar(id=2,smin=smin32=0,smax=umax=smax32=umax32=5,var_off=(0x0; 0x7)) \
R10=fp0
9: (bf) r0 = r1                       ; frame1: R0=ctx() R1=ctx()
10: (b7) r0 = 0                       ; frame1: R0=0
11: (95) exit
returning from callee:
 frame1: R0=0 R1=ctx() R2=scalar(id=2,smin=smin32=0,smax=umax=smax32=umax32=5,\
var_off=(0x0; 0x7)) R10=fp0
to caller at 6:
 R0=0 R10=fp0 fp-8=scalar(id=2,smin=smin32=0,smax=umax=smax32=umax32=5,var_off=(0x0; 0x7))
6: (bf) r1 = r5
R5 !read_ok
stack depth 8+0
processed 10 insns (limit 1000000) max_states_per_insn 0 total_states 1 peak_states 1
"""


def log_of(text, kind=ProgType.SOCKET_FILTER, kernel="6.18", **options):
    """Return the lines that the model writes about a program."""
    subject = of_program(replace(assemble(text), prog_type=kind), MAPS)
    lines = []
    log = KernelLog(lines.append, subject.text, **options)
    chosen = profile(kernel)
    log.finish(verify(subject.program, chosen, log=log), chosen.limits.processed)
    return "".join(f"{line}\n" for line in lines)


def test_a_trace_is_as_the_kernel_writes_it():
    assert log_of(CALLS) == SAID


def squeezed(log):
    """Return lines without what pybpf's disassembler writes otherwise, and without counts."""
    lines = log.replace(" + ", " +").replace(" - ", " -").replace("> 0x5", "> 5").splitlines()
    return [
        " ".join(line.split())
        for line in lines
        if line and not line.startswith(("processed", "stack depth"))
    ]


@pytest.mark.kernel
def test_a_trace_is_as_this_kernel_writes_it():
    from pybpf.kernel import programs

    with pytest.raises(KernelError) as refused:
        programs.load(encode(assemble(CALLS), "little"), ProgType.SOCKET_FILTER)
    said = refused.value.log
    if "_w=" in said or "inv(" in said or "smin32" not in said:
        pytest.skip("this kernel writes registers in another way")

    assert squeezed(log_of(CALLS, kernel="live")) == squeezed(said)


def test_paths_begin_with_all_that_is_known_and_end_where_they_meet():
    text = """
        r0 = *(u32 *)(r1 + 0)
        if r0 == 1 goto one
        r0 = 2
        r2 = 0
        goto next
    one:
        r0 = 2
        r2 = 0
    next:
        r3 = r2
        if r3 == 0 goto last
        r4 = 1
        r5 = 1
    last:
        r0 = 0
        exit
    """
    log = log_of(text)

    assert "\nfrom 1 to 5: R0=1 R1=ctx() R10=fp0\n5: (b7) r0 = 2   " in log


def test_a_path_that_was_seen_is_safe():
    # The state at each loop's head is kept, as two jumps and eight instructions lie between.
    body = "".join(f"if r6 == {n} goto a{n}\nr7 = {n}\na{n}:\nr7 = 0\n" for n in range(12))

    assert ": safe\n" in log_of(f"r6 = *(u32 *)(r1 + 0)\n{body}r0 = 0\nexit")


def test_source_lines_are_shown_once_for_all_that_came_of_them():
    places = {0: "return 1; @ a.c:3", 1: "return 1; @ a.c:3"}

    assert log_of("r0 = 1\nexit", place=places.get) == (
        "0: R1=ctx() R10=fp0\n"
        "; return 1; @ a.c:3\n"
        "0: (b7) r0 = 1                        ; R0=1\n"
        "1: (95) exit\n"
        "stack depth 0\n"
        "processed 2 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0\n"
    )


def test_references_and_maps_are_shown():
    log = log_of(
        """
        *(u32 *)(r10 - 4) = 0
        r2 = r10
        r2 += -4
        r1 = map_fd:hash ll
        call bpf_map_lookup_elem
        if r0 == 0 goto out
        r0 = *(u64 *)(r0 + 0)
    out:
        r0 = 0
        exit
        """
    )

    assert "; R0=map_value_or_null(id=1,ks=4,vs=8)" in log
    assert "R0=map_value(ks=4,vs=8)" in log
    assert "fp-8=0000????" in log or "fp-8=????0000" in log


def scalar(**known):
    """Return a scalar of which nothing but some bounds is known."""
    names = (
        "value",
        "mask",
        "umin",
        "umax",
        "smin",
        "smax",
        "umin32",
        "umax32",
        "smin32",
        "smax32",
    )
    parts = {name: getattr(UNKNOWN, name) for name in names} | known
    made = object.__new__(Scalar)
    for name in names:
        object.__setattr__(made, name, parts[name])
    object.__setattr__(made, "const", None)
    return made


def reg(kind, val=None, **attributes):
    made = Reg(kind) if val is None else Reg(kind, val)
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (known_reg(0), "0"),
        (known_reg((1 << 64) - 1), "-1"),
        (known_reg(32767), "32767"),
        (known_reg(32768), "0x8000"),
        (known_reg((1 << 64) - 32769), "0xffffffffffff7fff"),
        (reg(kinds.SCALAR, UNKNOWN), "scalar()"),
        (reg(kinds.SCALAR, UNKNOWN, id=3), "scalar(id=3)"),
        (reg(kinds.SCALAR, UNKNOWN, id=3, delta=-2), "scalar(id=3-2)"),
        (reg(kinds.SCALAR, scalar(umax=255, smax=255, smin=0)), "scalar(smin=0,smax=umax=255)"),
        (reg(kinds.SCALAR, scalar(smin=-5, smin32=-5)), "scalar(smin=smin32=-5)"),
        (reg(kinds.SCALAR, scalar(umin=70000)), "scalar(umin=0x11170)"),
        (reg(kinds.CTX), "ctx()"),
        (reg(kinds.CTX, off=8), "ctx(off=8)"),
        (reg(kinds.STACK, off=-16), "fp-16"),
        (reg(kinds.STACK, off=-16, frame=1), "fp[1]-16"),
        (reg(kinds.PACKET, off=14, range=34), "pkt(off=14,r=34)"),
        (reg(kinds.MEM | kinds.RINGBUF, ref=2, size=8), "ringbuf_mem(ref_obj_id=2,sz=8)"),
    ],
)
def test_registers_are_written_as_the_kernel_writes_them(value, text):
    assert show_reg(value) == text


def test_slots_of_the_stack():
    assert show_slot(Slot(bytes([kinds.MISC] * 4 + [kinds.INVALID] * 4))) == "mmmm????"
    assert show_slot(Slot(bytes([kinds.INVALID] * 8))) == ""
    assert show_slot(Slot(bytes([kinds.SPILL] * 8), known_reg(7))) == "7"
