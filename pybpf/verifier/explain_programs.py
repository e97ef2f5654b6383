"""Rows of pybpf.verifier.explain about calls, maps, control flow and programs as a whole.

Their form is that of pybpf.verifier.explain_values.
"""

PROGRAMS = r"""
null-argument
  Possibly NULL pointer passed to (trusted|helper) (?P<arg>(arg|R)\d+)
  {arg} may be null here, which the function does not take
  compare the pointer with 0 first, and call only where it is not

core-relocation
  (invalid|unknown) func unknown#195896080
  a CO-RE relocation asks for what the kernel's types do not have, and the program comes there
  ask first whether it exists (bpf_core_field_exists, …), and use it only where it does

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
  (.*bpf_spin_(un)?lock|.*is missing unlock|function calls are not allowed while holding a lock)
  a spin lock is still held here, or is used in a way that the verifier cannot follow
  unlock on every path before calls and before the end; hold one lock at a time

loop-infinite
  .*infinite loop detected at insn (?P<at>\d+)
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
  At (program|callback|async callback|subprogram)\b.* the register R[01]
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

reserved-fields
  (BPF_\w+|invalid bpf_ld_imm64|unrecognized bpf_ld_imm64).*( uses reserved fields| insn)
  a field of the instruction that must be 0 is not, or a field has a value that is not defined
  assemble the program anew; the compiler may be for a newer kernel

operand
  (invalid shift|div by zero|invalid atomic operand size|invalid may_goto|R\d+ is invalid)
  a constant operand, a register or a size that this instruction cannot have
  shift by less than the width, divide by what is not 0; there are registers r0 to r10

arena
  addr_space_cast insn
  the instruction is for pointers into an arena, from address space 0 to 1 or back
  use it only in programs with an arena map

unknown-opcode
  (unknown opcode|invalid BPF_|invalid opcode|unknown insn|BPF_ATOMIC uses invalid)
  this kernel does not know the instruction
  compile for an older instruction set (clang -mcpu=v1, v2, v3), or use a newer kernel

privileges
  (loading/calling other bpf or kernel functions|.* allowed (only )?(for|to) (CAP_|root))
  this takes rights that the user does not have
  load the program as root, or with CAP_BPF and the capability of its type (docs: CAP_PERFMON, …)

callback
  callback function not static
  only a static function can be called back by a helper
  declare the function static

function-arguments
  Caller passes invalid args into func
  the arguments do not fit the types of the global function that is called
  pass what its types say (pointers checked for null, of the right size), or make it static

function-types
  (number of funcs|func_info|nonzero insn_off|same or smaller insn|.* btf_id \d+ is not a function)
  the types that the program brings along (BTF) do not fit its functions
  load the types of the very build of the program; strip -g and old linkers lose them

packet-helper
  helper access to the packet is not allowed
  this helper, or programs of this type, cannot take memory of the packet
  copy the bytes to the stack first

dynptr
  (.*dynptr|potential write to dynptr)
  a dynptr is used before it was made, twice, or is overwritten
  make it first, pass its own address to helpers, and release or submit it on every path

legacy-packet-load
  (BPF_LD_\[ABS\|IND\]|LD_ABS is)
  loads of the old kind from packets are for socket filters and tc programs, with the skb in r6
  read through data and data_end, or by bpf_skb_load_bytes

timer
  (timer pointer in|map '.*' (doesn't have 'struct|has no valid|has to have BTF))
  a timer (or lock) must lie in the value of a map whose types say so, and stay with that map
  declare the map with the types of key and value (BTF), and pass the map that the value is from

constant-argument
  R(?P<reg>\d+) (is not a const|is not a known constant|does not point to a readonly map)
  the function wants a number in r{reg}, or a text, that is known when the program is loaded
  pass a constant; texts belong in .rodata (const char text[] = "…"), which is frozen

tail-call
  expected prog array map for tail call
  a tail call goes through a map of programs, and this is another kind of map
  pass a map of type prog_array

stack-return
  cannot return stack pointer to the caller
  the stack of a function is gone when it returns
  let the caller pass a pointer to its own stack for the result

recursion
  recursive call from
  functions cannot call themselves, nor each other in a circle
  use a loop, bpf_loop, or a tail call

release
  (CONST_PTR_TO_DYNPTR cannot be released|R\d+ must have zero offset|arg \d+ is an unacquired)
  only the very pointer that was acquired can be released, unmoved
  keep the pointer as it was returned, and release that

release
  (func .* reference has not been acquired before|release helper .* expects referenced)
  what is passed was not acquired, or was released before
  release each object once, with the very pointer that was returned

callback
  callback function not allowed for map
  the helper does not call a function for maps of this type
  use a map type that it can walk through: hash, array and their per-CPU kinds

callback
  use static function instead
  a global function is called here where only a static one can be
  declare the function static

map-structure
  R\d+ is bpf_\w+ invalid negative access
  the kernel's structure of a map is read in front of its beginning
  read the fields of struct bpf_map by their own offsets

map-creation
  cannot create map \d+
  the kernel makes no map of this type, or not with these sizes (key:value:entries) and flags
  choose a type that the kernel has; arrays have keys of 4 bytes, ring buffers a power of 2 of pages

internal
  (kernel subsystem misconfigured|verifier bug|BUG)
  the kernel's verifier came into a state that it should not; this is not the program's fault
  simplify the instruction at fault, and report the program to the kernel's developers

flags
  .* doesn't support non-zero flags
  the function's flags must be 0
  pass 0

legacy-packet-load
  at the time of BPF_LD_ABS
  loads of the old kind from packets take the skb from r6, and r6 is something else here
  keep the context in r6: r6 = r1 at the beginning

object
  .*(expected pointer to (map value or )?allocated|expected for bpf_\w*obj_drop|allocated object)
  the function takes an object that the program allocated, of the right kind, and owns
  pass what bpf_obj_new, bpf_percpu_obj_new or a list or tree gave, and that was checked for null

object
  .*(neither owning|bpf_refcount field|only take non-owning|must be non-owning|be a rcu pointer)
  the function cannot take this reference to the object
  references are counted only of structures with a bpf_refcount; look objects up under their lock

object
  (release k|bpf_obj_new/|bpf_percpu_obj_new|local type ID|R\d+ must be a known constant)
  objects are made of a structure of the program's own types, and dropped by the one who owns them
  pass bpf_core_type_id_local(struct …); drop each object once; per-CPU ones hold numbers only

object-access
  (direct access to|access beyond|only read is|struct \w+ doesn't have|cannot access ptr member)
  an object is read or written where it has no member, or where only the kernel may
  access members with their own sizes; nodes, locks and counts only through the kernel's functions

object-access
  R\d+ is ptr_\w+ (invalid|access)
  the pointer to a structure was moved by a number that is not known, or is one for each CPU
  use members' names; get an object of one CPU by bpf_this_cpu_ptr or bpf_per_cpu_ptr

kptr
  (invalid kptr|kptr |percpu_kptr|uptr |store to (referenced kptr|uptr)|BPF_ST imm|off=\d+ .*kptr)
  a pointer in a map's value is used as something else, or what is stored is not of its type
  load it whole; store only where it is untrusted; exchange owned ones by bpf_kptr_xchg

kptr
  (R\d+ doesn't have constant offset. kptr|R\d+ has no valid kptr)
  bpf_kptr_xchg needs the place of a pointer that is tagged __kptr, at a fixed offset
  pass &value->member; its type must be one of the program's own, or one that the kernel lets own

graph
  (bpf_(list|rb)_\w+ not found|operation on bpf_|arg#1 offset=|\w*rbtree_\w+ not allowed in)
  the root or the node is not the one that the types say (__contains), or a callback changes a tree
  pass &value->root and &object->node with the names that __contains gives

lock
  (Acquiring the same lock|bpf_res_spin|bpf_spin_lock at off|can't spin_|irq flag acquired)
  a lock is taken twice, given back in another order or way, or is not the one beside the root
  give locks back in reverse order, with the function of the same kind; lock what holds the root

exception
  (exception c|insn \d+ cannot call exception|bpf_throw |multiple exception)
  something may be thrown where it cannot be caught: in a callback, or while something is held
  release and unlock before bpf_throw; the callback is global, takes one u64, and is not called

arena
  Only one arena
  all pointers into arenas of a program lead to the same one
  put everything into one arena map

kernel-function
  (extern \(func ksym\)|invalid kernel function call|calling kernel function|kfunc offset)
  the kernel does not have this function, or not for programs of this type
  declare it __weak and test its address before the call, or use a newer kernel or another type

sleeping
  (Only .* programs|Program of this type|Sleepable program) can(not)? (be sleepable|attach)
  programs of this type, or at this place, may not sleep
  load the program as one that is not sleepable (SEC without .s)

sleeping
  program must be sleepable to call
  the function may sleep, and the program may not
  load the program as sleepable (SEC("….s/…"))

callback
  arg\d+ expected pointer to func
  the function wants a static function to call back
  pass the name of a static function
"""
