"""Rows of pybpf.verifier.explain about registers and memory: messages in words; why, and the fix.

A row is four lines: its kind, a pattern that the message begins with, why, and the fix. Groups of
the pattern stand in {names}. The messages are those of kernel/bpf/verifier.c, of all releases that
pybpf knows.
"""

VALUES = r"""
null-check
  R(?P<reg>\d+) invalid mem access '(?P<what>\w*_or_null_?\w*)'
  r{reg} may be null here: what gave it ({what}) returns null where there is nothing to return
  compare r{reg} with 0 first, and access it only on the branch where it is not

null-check
  R(?P<reg>\d+) pointer arithmetic on \w*or_null\w* prohibited
  r{reg} may be null here, and null plus an offset would look like a pointer
  compare r{reg} with 0 before adding to it

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
  (R(?P<reg>\d+) )?(invalid zero-sized read|is a non-zero-able|invalid negative access)
  a size may be 0 or negative here, and the function wants at least one byte
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

socket-access
  R\d+ invalid (\w*sock\w*) access off=(?P<off>-?\d+) size=(?P<width>\d+)
  programs cannot access {width} bytes at offset {off} of this socket, or not write to it
  access whole fields of struct bpf_sock or bpf_tcp_sock; bpf_sk_fullsock gives all of a sock_common

context-modified
  negative offset (?P<what>\w+) ptr R(?P<reg>\d+)
  r{reg} was moved to in front of where {what} begins
  keep the pointer as it is given, and put the constant offset into the load or store itself

context-modified
  dereference of modified (?P<what>\w+) ptr R(?P<reg>\d+)
  r{reg} was moved by an addition, and {what} pointers may only be accessed as they are given
  keep the pointer as it is, and put the constant offset into the load or store itself

context-variable
  variable (?P<what>\w+) access
  the offset into {what} is no constant here
  use constant offsets: a switch over the fields, or a loop that is unrolled

pointer-arithmetic
  R(?P<reg>\d+) (pointer \S+=|bitwise|32-bit pointer|pointer arithmetic|tried to|subtraction from)
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
  (R\d+ pointer comparison prohibited|R\d+ has pointer with unsupported|leaking pointer)
  unprivileged programs may not learn or change kernel addresses, and comparing tells of them
  do not compare, store partly or return pointers; or load with CAP_PERFMON and CAP_BPF

not-a-number
  R(?P<reg>\d+) .*(of pointer|is not a scalar|not a scalar value)
  r{reg} is a pointer here, and this instruction wants a number
  use another register: pointers can only be moved, added to and compared

misaligned
  misaligned
  the address is no multiple of the access's size, which the stack and some machines need
  align the variable or field; access packed fields byte by byte

read-only
  R(?P<reg>\d+) cannot write into (?P<what>\S+)
  r{reg} points to {what}, which is read-only for programs
  write to a map value, the stack or a packet instead

spill
  (invalid size of register (spill|fill)|cannot spill pointers)
  a pointer can only be kept on this function's own stack, all 8 bytes of it at a time
  store and load pointers with 8 bytes, at addresses that 8 divides, in the function's own frame

spill
  (corrupted spill memory|attempt to corrupt spilled)
  a part of a pointer that was kept on the stack is overwritten, or read by itself
  store and load pointers with 8 bytes, and keep other variables elsewhere

frame-pointer
  frame pointer is read only
  r10 is the frame pointer, which no instruction may change
  copy it first: r1 = r10; r1 += -8

map-value-special
  (.*bpf_\w+ cannot be accessed directly by load|off \d+ doesn't point to)
  the map's value has a member that only the kernel may touch, and this is about its bytes
  access it by its helpers alone, with a pointer to just that member; keep copies away from it

mixed-pointers
  same insn cannot be used with different pointers
  on different paths, pointers of different kinds come to this one access
  access each kind on its own branch, so that there are two instructions

wrong-store
  (BPF_(ST|ATOMIC|STX) (stores into|loads from) R\d+|write to change key R\d+|only read from)
  this kind of store or load does not work on what the register points to
  change the stack or a map value instead; a context is only changed by plain stores of registers

wrong-store
  .* may write into memory pointed by R(?P<reg>\d+)
  the helper would write into what r{reg} points to, which is read-only
  pass memory on the stack or in a map value
"""
