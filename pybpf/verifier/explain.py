"""A verifier's message in; what it means, and what to change in the program, in plain words out.

The messages are those of kernel/bpf/verifier.c, of all releases that pybpf knows; they are compared
from their beginning. Where several rows match, the first counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from pybpf.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a rejection means, and what to change; a sentence or two without a period at the end.

    ``kind`` names it for programs that compare: ``null-check``.
    """

    kind: str
    why: str
    fix: str


# kind | pattern of the message || why || fix. Groups of the pattern stand in {name}s.
_TABLE = r"""
null-check
  R(?P<reg>\d+) invalid mem access '(?P<what>\w*_or_null_?\w*)'
  r{reg} may be null here: what gave it ({what}) returns null where there is nothing to return
  compare r{reg} with 0 first, and access it only on the branch where it is not

null-check
  R(?P<reg>\d+) pointer arithmetic on \w*or_null\w* prohibited
  r{reg} may be null here, and null plus an offset would look like a pointer
  compare r{reg} with 0 before adding to it

null-argument
  Possibly NULL pointer passed to (trusted|helper) arg(?P<arg>\d+)
  argument {arg} may be null here, which the function does not take
  compare the pointer with 0 first, and call only where it is not

not-a-pointer
  R(?P<reg>\d+) invalid mem access '(scalar|inv|fp0?)'
  r{reg} is a number here, not a pointer: the verifier lost track of it, or it never was an address
  keep pointers in registers or 8-byte stack slots; read kernel memory by bpf_probe_read_kernel

wrong-pointer
  R(?P<reg>\d+) invalid mem access '(?P<what>\w+)'
  r{reg} points to {what}, which programs may not access directly
  pass it to the helper that takes it; if it is a map, look up a value first

uninitialised-register
  R(?P<reg>\d+) !read_ok
  r{reg} has no value on some path to here; a call clears r1 to r5, and r0 is set by calls only
  give r{reg} a value on every path; what must survive a call belongs in r6 to r9 or on the stack

uninitialised-stack
  invalid( indirect)? (read from|access to) stack( R(?P<reg>\d+))? (off|var_off)[ ]
  this reads stack that nothing was written to on some path to here (padding of structs counts)
  write all bytes first: zero the whole variable, or the struct with its padding

stack-bounds
  invalid( (indirect|write to|read from|access to|unbounded|variable-offset))* (stack|variable-off)
  the access lies outside of this function's 512 bytes of stack, or its place is not a known number
  keep offsets from r10 between -512 and -1, and bound an index before it is added

map-value-bounds
  invalid access to map value, value_size=(?P<size>\d+) off=(?P<off>-?\d+) size=(?P<width>\d+)
  the value has {size} bytes, and this would access {width} at offset {off}
  stay within the value: check the index against its size before, or make the value larger

bounds-unchecked
  R(?P<reg>\d+) (min|max) value is outside of the (allowed memory|(?P<what>map value|array)) range
  the least or greatest value that r{reg} may have here leads outside of what it points to
  compare the index with the number of elements first, on this path: if (i < N) (unsigned)

negative-index
  R(?P<reg>\d+) min value is negative
  r{reg} may be negative as far as the verifier knows, and would then lead in front of the memory
  use an unsigned index, or check that it is not negative; & with a mask does both

unbounded
  R(?P<reg>\d+) unbounded memory access
  nothing limits r{reg} here, so it may lead anywhere
  limit it before: if (x < SIZE), or x &= SIZE - 1; keep the compiler from moving the check away

unbounded-size
  R(?P<reg>\d+) (invalid zero-sized read|is a non-zero-able|invalid negative access)
  the size in r{reg} may be 0 or negative here, and the function wants at least one byte
  check that the size is greater than 0 before the call, or pass a constant

packet-bounds
  (invalid access to packet|R\d+ offset is outside of the packet)
  the packet may end before these bytes: no check against data_end covers them on this path
  compare first: if (data + N > data_end) return; with N reaching over all that is accessed

packet-write
  cannot write into packet
  programs of this type may read the packet, but not write to it
  use a type that may (xdp, sched_cls), or a helper such as bpf_skb_store_bytes

memory-bounds
  invalid access to (memory|mem|buf|tp_buffer|flow keys)[^=]*(mem_)?(size)?
  this would access bytes outside of the memory
  check offset and size against the size of the memory before

context-access
  invalid bpf_context access off=(?P<off>-?\d+) size=(?P<width>\d+)
  programs of this type cannot access {width} bytes at offset {off} of their context
  access whole fields of the context structure, with their own sizes; many are read-only

context-modified
  dereference of modified (?P<what>\w+) ptr R(?P<reg>\d+)
  r{reg} was moved by an addition, and {what} pointers may only be accessed as they are given
  keep the pointer as it is, and put the constant offset into the load or store itself

context-variable
  variable (?P<what>\w+) access
  the offset into {what} is no constant here
  use constant offsets: a switch over the fields, or a loop that is unrolled

helper-unknown
  (invalid|unknown) func (?P<func>\S+)
  this kernel has no such helper, or does not let programs of this type call it
  `pybpf verify --kernel` tells for other kernels; choose another helper or type of program

helper-not-allowed
  program of this type cannot use helper (?P<func>\S+)
  programs of this type, or of this attach type, may not call {func}
  use a helper that they have, or another type of program

licence
  cannot call GPL-restricted function from non-GPL
  the helper is for programs under the GPL, and this one says that it has another licence
  declare the licence: char _license[] SEC("license") = "GPL"

sleeping
  (helper call|kernel func \S+) (might|may) sleep in a
  this function may sleep, and the program (or the section it is in) must not
  load the program as sleepable (SEC("….s/…")), or call it outside of locks and RCU sections

argument-type
  R(?P<reg>\d+) type=(?P<what>\S+) expected=(?P<wanted>.+)
  the function wants {wanted} in r{reg}, and gets {what}
  look at the order of the arguments, and whether the pointer was checked, moved or overwritten

map-type
  cannot pass map_type (?P<type>\d+) into func (?P<func>\S+)
  {func} does not work on maps of this type
  use a helper made for this type of map, or another type of map

map-permission
  (write into|read from) map forbidden
  the map was made read-only or write-only for programs (BPF_F_RDONLY_PROG, BPF_F_WRONLY_PROG)
  make the map without that flag; .rodata cannot be written to

map-access
  (invalid access to map value pointer|direct value offset|no direct value access)
  an instruction holds the address of a map's value, and that place cannot be addressed so
  only arrays with one element can be addressed directly, within the value; else look it up

map-fd
  fd \d+ is not pointing to valid bpf_map
  the instruction names no map: its descriptor was not filled in when the program was loaded
  say which map is meant: by a relocation (objects), or a fixup (pybpf verify --batch)

map-incompatible
  (tracing|perf_event|trace type) program.* (cannot use|must use|can only use)
  programs of this type cannot use maps of this kind, such as those not allocated in advance
  preallocate the map (no BPF_F_NO_PREALLOC), or use another type

reference-leak
  (Unreleased reference|.* would lead to reference leak)
  an object that was acquired (a socket, a ring-buffer record, …) is not released on this path
  release it on every path: bpf_sk_release, bpf_ringbuf_submit or _discard, bpf_…_release

reference-unknown
  (release .*|arg \d+ .*|.*)\b(expects refcounted|must be referenced|is not acquired|no reference)
  what is released here was not acquired, or was released before
  release each object once, with the very pointer that was returned

lock
  (.*bpf_spin_lock|.*is missing unlock|function calls are not allowed while holding a lock)
  a spin lock is still held here, or is used in a way that the verifier cannot follow
  unlock on every path before calls and before the end; hold one lock at a time

pointer-arithmetic
  R(?P<reg>\d+) (pointer (\+=|-=)|bitwise|32-bit pointer|pointer arithmetic|tried to (subtract|add))
  this is arithmetic that would make r{reg} something else than a pointer into the same object
  only add or subtract numbers, in 64 bits; two packet pointers can be subtracted as scalars

pointer-arithmetic
  math between (?P<what>\w+) pointer and
  the number that is added to a {what} pointer is not limited enough
  check the number's range before it is added: not negative, and less than 2**29

pointer-arithmetic
  (value .* makes|\w+ pointer offset) .*(be out of bounds|is not allowed)
  the offset is so large that it cannot lie within any object
  check the number's range before it is added

pointer-leak
  R(?P<reg>\d+) leaks addr
  this would show a kernel address to user space or in a map, which needs privileges
  do not store or return pointers; or load the program with CAP_PERFMON and CAP_BPF

pointer-leak
  (R\d+ pointer comparison prohibited|R\d+ has pointer with unsupported|leaking pointer|attempt to)
  unprivileged programs may not learn or change kernel addresses, and comparing tells of them
  do not compare, store partly or return pointers; or load with CAP_PERFMON and CAP_BPF

not-a-number
  R(?P<reg>\d+) .*(of pointer|is not a scalar)
  r{reg} is a pointer here, and this instruction wants a number
  use another register: pointers can only be moved, added to and compared

loop-infinite
  infinite loop detected at insn (?P<at>\d+)
  the loop comes back to instruction {at} with nothing changed that would end it
  count the loop in a register that the condition depends on, with a fixed limit; or use bpf_loop

back-edge
  back-edge from insn (?P<at>\d+) to (?P<to>\d+)
  a jump leads back from {at} to {to}, and this kernel or an unprivileged user may not have loops
  unroll the loop (#pragma unroll), or load with CAP_BPF on Linux 5.3 or newer

too-complex
  (BPF program is too large|The sequence of \d+ jumps is too complex)
  there are more paths through the program than the verifier follows (1 million instructions)
  split it by global functions or tail calls, use bpf_loop, and make branches meet with equal state

unreachable
  unreachable insn (?P<at>\d+)
  no path leads to instruction {at}
  remove it, or correct the jump that should lead there

jump-range
  (jump out of range|jump into the middle|call to invalid destination|invalid insn idx)
  a jump or call leads out of its function, or into the second half of a 16-byte instruction
  correct the offset: it counts 8-byte slots from the next instruction

no-exit
  last insn is not an exit or jmp
  the function runs on over its last instruction
  end every function with exit (or a jump back)

return-value
  At (program|callback|async callback|subprogram)\b.* the register R0
  r0 is not among the values that programs or callbacks of this kind may return
  return a constant within the range (often 0 or 1), on every path; set r0 before exit

stack-depth
  (combined stack size of|stack size of subprog)
  the functions of a chain of calls need more stack together than the 512 bytes there are
  put large variables into a map (a per-CPU array of one element), or call less deeply

tail-call-stack
  tail_calls are not allowed when call stack
  with tail calls, the functions above may use 256 bytes of stack at most
  put large variables into a map, or make the tail call from the main function

call-depth
  the call stack of \d+ frames is too deep
  functions call each other more than 8 deep, or recursively, which is not possible
  inline some of them, and replace recursion by a loop

misaligned
  misaligned
  the address is no multiple of the access's size, which the stack and some machines need
  align the variable or field; access packed fields byte by byte

read-only
  R(?P<reg>\d+) cannot write into (?P<what>\S+)
  r{reg} points to {what}, which is read-only for programs
  write to a map value, the stack or a packet instead

frame-pointer
  frame pointer is read only
  r10 is the frame pointer, which no instruction may change
  copy it first: r1 = r10; r1 += -8

reserved-fields
  (BPF_\w+|invalid bpf_ld_imm64|unrecognized bpf_ld_imm64).*( uses reserved fields| insn)
  a field of the instruction that must be 0 is not, or a field has a value that is not defined
  assemble the program anew; the compiler may be for a newer kernel

unknown-opcode
  (unknown opcode|invalid BPF_|invalid opcode|unknown insn|BPF_ATOMIC uses invalid)
  this kernel does not know the instruction
  compile for an older instruction set (clang -mcpu=v1, v2, v3), or use a newer kernel

privileges
  (loading/calling other bpf or kernel functions|.* allowed (only )?(for|to) (CAP_|root))
  this takes rights that the user does not have
  load the program as root, or with CAP_BPF and the capability of its type (docs: CAP_PERFMON, …)

dynptr
  (.*dynptr|potential write to dynptr)
  a dynptr is used before it was made, twice, or is overwritten
  make it first, pass its own address to helpers, and release or submit it on every path

legacy-packet-load
  BPF_LD_\[ABS\|IND\] .*
  loads of the old kind from packets are for socket filters and tc programs, with the skb in r6
  read through data and data_end, or by bpf_skb_load_bytes
"""


@dataclass(frozen=True, slots=True)
class _Row:
    kind: str
    pattern: re.Pattern[str]
    why: str
    fix: str


@cache
def _rows() -> tuple[_Row, ...]:
    rows = []
    for block in _TABLE.strip().split("\n\n"):
        kind, pattern, why, fix = block.split("\n")
        rows.append(_Row(kind, re.compile(pattern.strip()), why.strip(), fix.strip()))
    return tuple(rows)


def explain(message: str) -> Explanation | None:
    """Return what a message of the verifier means; None for one that is not in the table."""
    for row in _rows():
        if match := row.pattern.match(message):
            return Explanation(row.kind, _filled(row.why, match), _filled(row.fix, match))
    return None


def _filled(text: str, match: re.Match[str]) -> str:
    groups: Mapping[str, str | None] = match.groupdict()
    return re.sub(r"\{(\w+)\}", lambda name: groups[name[1]] or "", text)


def kinds() -> tuple[str, ...]:
    """Return the kinds of rejections that are explained, in the order of the table."""
    return tuple(dict.fromkeys(row.kind for row in _rows()))
