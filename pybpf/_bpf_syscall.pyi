# The extension built from src/ by cffi: C functions that return -errno, and cffi's tools.

from typing import Any, TypeAlias, overload

# A C value, array, pointer or structure.
class CData:
    def __getattr__(self, name: str, /) -> Any: ...
    def __setattr__(self, name: str, value: Any, /) -> None: ...
    @overload
    def __getitem__(self, index: int, /) -> Any: ...
    @overload
    def __getitem__(self, index: slice, /) -> CData: ...
    def __setitem__(self, index: int | slice, value: Any, /) -> None: ...
    def __int__(self) -> int: ...
    def __len__(self) -> int: ...

# A view of C memory.
class _Buffer:
    def __getitem__(self, index: slice, /) -> bytes: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

# A bytes argument is passed as a pointer to its content; None is not NULL.
_Pointer: TypeAlias = CData | bytes

class _Ffi:
    NULL: CData
    def new(self, ctype: str, init: Any = ..., /) -> CData: ...
    def cast(self, ctype: str, value: CData | int, /) -> CData: ...
    def buffer(self, cdata: CData, size: int = ..., /) -> _Buffer: ...
    def from_buffer(self, data: bytearray | memoryview, /) -> CData: ...
    def sizeof(self, cdata: CData | str, /) -> int: ...
    def string(self, cdata: CData, maxlen: int = ..., /) -> bytes: ...

class _Lib:
    BPF_OBJECT_PROG: int
    BPF_OBJECT_MAP: int
    BPF_OBJECT_BTF: int
    BPF_OBJECT_LINK: int

    def bpf_map_create(
        self,
        type: int,
        name: _Pointer,
        key_size: int,
        value_size: int,
        max_entries: int,
        flags: int,
        extra: int,
        btf_fd: int,
        btf_key_id: int,
        btf_value_id: int,
        inner: int,
        /,
    ) -> int: ...
    def bpf_map_lookup(self, map: int, key: _Pointer, value: CData, flags: int, /) -> int: ...
    def bpf_map_update(self, map: int, key: _Pointer, value: _Pointer, flags: int, /) -> int: ...
    def bpf_map_delete(self, map: int, key: _Pointer, /) -> int: ...
    def bpf_map_next_key(self, map: int, key: _Pointer, next: CData, /) -> int: ...
    def bpf_map_freeze(self, map: int, /) -> int: ...
    def bpf_map_lookup_batch(
        self, map: int, in_: CData, out: CData, keys: CData, values: CData, count: CData, /
    ) -> int: ...
    def bpf_prog_load(
        self,
        type: int,
        expected_attach_type: int,
        flags: int,
        name: _Pointer,
        licence: _Pointer,
        kern_version: int,
        insns: _Pointer,
        insn_cnt: int,
        btf_fd: int,
        func_info: _Pointer,
        func_info_cnt: int,
        line_info: _Pointer,
        line_info_cnt: int,
        attach_btf_id: int,
        attach_fd: int,
        log: CData,
        log_size: int,
        log_level: int,
        /,
    ) -> int: ...
    def bpf_prog_test_run(
        self,
        prog: int,
        ctx: _Pointer,
        ctx_size: int,
        data: _Pointer,
        data_size: int,
        out: CData,
        out_size: CData,
        repeat: int,
        flags: int,
        cpu: int,
        retval: CData,
        duration: CData,
        /,
    ) -> int: ...
    def bpf_btf_load(
        self, btf: _Pointer, size: int, log: CData, log_size: int, log_level: int, /
    ) -> int: ...
    def bpf_enable_stats(self) -> int: ...
    def bpf_next_id(self, kind: int, start: int, next: CData, /) -> int: ...
    def bpf_fd_by_id(self, kind: int, id: int, /) -> int: ...
    def bpf_obj_info(self, fd: int, info: CData, size: int, /) -> int: ...
    def bpf_raw_tracepoint_open(self, name: _Pointer, prog: int, cookie: int, /) -> int: ...
    def bpf_link_perf_event(self, prog: int, event: int, cookie: int, /) -> int: ...
    def bpf_link_tracing(
        self, prog: int, attach_type: int, target_fd: int, target_btf_id: int, cookie: int, /
    ) -> int: ...
    def bpf_link_kprobe_multi(
        self,
        prog: int,
        attach_type: int,
        flags: int,
        cnt: int,
        syms: CData,
        addrs: CData,
        cookies: CData,
        /,
    ) -> int: ...
    def bpf_link_uprobe_multi(
        self,
        prog: int,
        attach_type: int,
        flags: int,
        cnt: int,
        path: _Pointer,
        offsets: CData,
        ref_ctr_offsets: CData,
        cookies: CData,
        pid: int,
        /,
    ) -> int: ...
    def bpf_link_detach(self, link: int, /) -> int: ...
    def bpf_command(self, cmd: int, attr: CData, size: int, /) -> int: ...
    def perf_open(
        self,
        type: int,
        config: int,
        period: int,
        sample_type: int,
        attr_flags: int,
        wakeup: int,
        pid: int,
        cpu: int,
        group: int,
        flags: int,
        /,
    ) -> int: ...
    def perf_open_probe(
        self,
        type: int,
        config: int,
        name: _Pointer,
        addr: int,
        pid: int,
        cpu: int,
        flags: int,
        /,
    ) -> int: ...
    def perf_enable(self, event: int, /) -> int: ...
    def perf_disable(self, event: int, /) -> int: ...
    def perf_set_bpf(self, event: int, prog: int, /) -> int: ...
    def perf_set_filter(self, event: int, filter: bytes, /) -> int: ...
    def perf_id(self, event: int, id: CData, /) -> int: ...
    def mount_detached(self, fstype: bytes, /) -> int: ...
    def ringbuf_map(self, ring: CData, map: int, size: int, /) -> int: ...
    def ringbuf_unmap(self, ring: CData, /) -> None: ...
    def ringbuf_drain(self, ring: CData, out: CData, room: int, /) -> int: ...
    def ringbuf_used(self, ring: CData, /) -> int: ...
    def perfbuf_map(self, buf: CData, event: int, size: int, /) -> int: ...
    def perfbuf_unmap(self, buf: CData, /) -> None: ...
    def perfbuf_drain(self, buf: CData, out: CData, room: int, lost: CData, /) -> int: ...
    def perfbuf_used(self, buf: CData, /) -> int: ...
    def child_start(
        self,
        death_signal: int,
        path: _Pointer,
        argv: CData,
        otherwise: CData,
        /,
    ) -> int: ...

ffi: _Ffi
lib: _Lib
