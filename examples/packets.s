; Count packets by protocol, and drop those that are too short to have one.
;
;     pybpf asm -o packets.o packets.s
;     bpftool prog loadall packets.o /sys/fs/bpf/packets

.license "GPL"

.equ    HEADER, 14              ; an Ethernet header
.struct seen { u64 packets; u64 bytes; }

.map    protocols, type=hash, key=u16, value=struct seen, entries=1 << 10

.data
short_ones: .quad 0

.prog xdp, count_packets
        r6 = *(u32 *)(r1 + xdp_md.data)
        r7 = *(u32 *)(r1 + xdp_md.data_end)
        r1 = r6
        r1 += HEADER
        if r1 > r7 goto short
        r7 -= r6                            ; the length
        r2 = *(u16 *)(r6 + HEADER - 2)
        r2 = be16 r2
        r1 = r7
        call count
        r0 = XDP_PASS
        exit
short:  r1 = short_ones ll
        r2 = 1
        lock *(u64 *)(r1 + 0) += r2
        r0 = XDP_DROP
        exit

; Add a packet of r1 bytes to the protocol r2.
.func count, static, int (u64 length, u16 protocol)
        r6 = r1
        *(u16 *)(r10 - 2) = r2
        *(u64 *)(r10 - sizeof(seen) - 8 + seen.packets) = 1
        *(u64 *)(r10 - sizeof(seen) - 8 + seen.bytes) = r1
        r1 = protocols ll
        r2 = r10
        r2 += -2
        call map_lookup_elem
        if r0 == 0 goto 1f
        r1 = 1
        lock *(u64 *)(r0 + seen.packets) += r1
        lock *(u64 *)(r0 + seen.bytes) += r6
        goto 2f
1:      r1 = protocols ll                   ; the first one
        r2 = r10
        r2 += -2
        r3 = r10
        r3 += -sizeof(seen) - 8
        r4 = BPF_NOEXIST
        call map_update_elem
2:      r0 = 0
        exit
