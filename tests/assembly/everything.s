.license "Dual MIT/GPL"
.struct event { u64 time; u32 pid; char comm[16]; }
.map hits, type=hash, key=u32, value=struct event, entries=64, flags=BPF_F_NO_PREALLOC
.map one, type=array, key=4, value=u64, entries=1
.map outer, type=array_of_maps, entries=3, inner=one, values=[2: one]
.map jumps, type=prog_array, entries=4, values=[1: second]
.map events, type=ringbuf, entries=4096
.map sizes, type=percpu_hash, key=8, value=12, entries=2
.rodata
text: .asciz "hello"
.data
counter: .quad 7
table: .word 1, 2, 3
.bss
area: .zero 16

.prog xdp, first
    r6 = 0
    r1 = counter ll
    r3 = *(u64 *)(r1 + 0)
    r1 = table + 4 ll
    r4 = *(u32 *)(r1 + 0)
    r1 = text ll
    r1 = hits ll
    r1 = outer ll
    r1 = 4
    r2 = again ll
    r3 = 0
    r4 = 0
    call loop
    r1 = 5
    call double
    r0 = XDP_PASS
    exit
.prog socket, second
    r0 = 0
    exit
.prog xdp, third
    r1 = 1
    call checked
    r0 = XDP_DROP
    exit
.func double
    r0 = r1
    r0 += r0
    exit
.func again, static, long (u32 index, void *context)
    r0 = 0
    exit
.func checked, global, int (u32 value)
    r0 = 3
    exit
