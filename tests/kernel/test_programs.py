import errno
import struct

import pytest

from pybpf.errors import KernelError
from pybpf.isa.abi import MapType, ProgType
from pybpf.isa.assembler import assemble
from pybpf.kernel import features, programs, syscall
from pybpf.kernel.maps import Map
from pybpf.kernel.programs import DebugInfo, load, load_btf
from pybpf.kernel.syscall import Kind

kernel = pytest.mark.kernel


def code(text):
    return bytes(assemble(text))


@kernel
def test_a_program_is_loaded_run_and_described():
    with (
        Map(MapType.ARRAY, "numbers", 4, 8, 1) as array,
        load(
            code(f"r1 = map_fd[{array.fileno()}] ll; r0 = 42; exit"),
            ProgType.RAW_TRACEPOINT,
            "answer to all questions",
        ) as prog,
    ):
        info = prog.info()

        assert prog.test_run().retval == 42
        assert (info.name, info.prog_type) == ("answer_to_all_q", ProgType.RAW_TRACEPOINT)
        assert info.id in set(syscall.object_ids(Kind.PROG))
        assert len(info.map_ids) == 1
        assert info.map_ids[0] in set(syscall.object_ids(Kind.MAP))
        assert len(info.tag) == 8
        assert info.xlated_size == len(prog.xlated()) == 32
        assert info.jited_size == len(prog.jited())
        assert prog.xlated().endswith(code("r0 = 42; exit"))


@kernel
@pytest.mark.parametrize("value", [0, 1, -1, 0x7FFFFFFF])
def test_a_test_run_passes_its_context(value):
    text = "r0 = *(u64 *)(r1 + 8); exit"
    with load(code(text), ProgType.RAW_TRACEPOINT) as prog:
        retval = prog.test_run(struct.pack("=QQ", 7, value % (1 << 64))).retval

    assert retval == value % (1 << 32)


@kernel
def test_a_test_run_can_choose_its_cpu():
    with load(code("call bpf_get_smp_processor_id; exit"), ProgType.RAW_TRACEPOINT) as prog:
        for cpu in (0, 1):
            assert prog.test_run(cpu=cpu).retval == cpu


@kernel
def test_a_test_run_changes_packets():
    text = "r2 = 0xab; *(u8 *)(r10 - 1) = r2; r6 = r1; r2 = 1; r3 = r10; r3 += -1; r4 = 1; r5 = 0;"
    text += "call bpf_skb_store_bytes; r0 = 9; exit"
    with load(code(text), ProgType.SCHED_CLS) as prog:
        run = prog.test_run(data=bytes(64))

    assert run.retval == 9
    assert run.data == b"\0\xab" + bytes(62)


@kernel
def test_a_type_that_cannot_be_run_says_so():
    with (
        load(code("r0 = 0; exit"), ProgType.PERF_EVENT) as prog,
        pytest.raises(KernelError, match="cannot run the program by BPF_PROG_TEST_RUN"),
    ):
        prog.test_run()


@kernel
def test_statistics_are_counted_while_enabled():
    with load(code("r0 = 0; exit"), ProgType.RAW_TRACEPOINT) as prog, syscall.enable_stats():
        before = prog.info()
        for _ in range(10):
            prog.test_run()
        after = prog.info()

    assert before.run_cnt == 0
    assert after.run_cnt == 10
    assert after.run_time_ns > 0
    assert after.recursion_misses == 0


@kernel
def test_a_rejected_program_is_explained():
    with pytest.raises(KernelError) as caught:
        load(code("r1 = 1; r0 = *(u64 *)(r1 + 0); exit"), ProgType.RAW_TRACEPOINT, "bad")
    error = caught.value

    assert error.errno == errno.EACCES
    assert "0: (b7) r1 = 1" in error.log
    assert str(error) == (
        "cannot load the program bad: Permission denied (errno 13)\n"
        "  hint: the kernel's log says: R1 invalid mem access 'scalar'"
    )


@kernel
def test_a_program_that_no_verifier_saw_is_refused_without_a_log():
    with pytest.raises(KernelError) as caught:
        load(b"", ProgType.RAW_TRACEPOINT)

    assert caught.value.errno == errno.E2BIG
    assert caught.value.log == ""
    assert str(caught.value) == (
        "cannot load the program raw_tracepoint: Argument list too long (errno 7)"
    )


@kernel
def test_a_log_longer_than_the_first_buffer_is_had_whole(monkeypatch):
    monkeypatch.setattr(programs, "_LOG_SIZES", (128, 1 << 16))
    text = "r0 = 0;" * 100 + "r0 = *(u64 *)(r0 + 0); exit"
    with pytest.raises(KernelError) as caught:
        load(code(text), ProgType.RAW_TRACEPOINT, "long")

    assert "0: (b7) r0 = 0" in caught.value.log
    assert "R0 invalid mem access" in str(caught.value)


@kernel
def test_a_log_longer_than_any_buffer_does_not_hide_the_first_error(monkeypatch):
    monkeypatch.setattr(programs, "_LOG_SIZES", (128,))
    text = "r0 = 0;" * 100 + "r0 = *(u64 *)(r0 + 0); exit"
    with pytest.raises(KernelError) as caught:
        load(code(text), ProgType.RAW_TRACEPOINT, "long")

    assert caught.value.errno == errno.EACCES


@kernel
def test_an_interrupted_verifier_is_asked_again(monkeypatch):
    attempts = []
    prog_load = syscall.prog_load

    def interrupted(*args, **kwargs):
        attempts.append(args)
        if len(attempts) < 3:
            raise KernelError(errno.EAGAIN, "cannot load the program")
        return prog_load(*args, **kwargs)

    monkeypatch.setattr(syscall, "prog_load", interrupted)
    load(code("r0 = 0; exit"), ProgType.RAW_TRACEPOINT).close()

    assert len(attempts) == 3


def btf(strings, types):
    header = struct.pack("=HBB5I", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(strings))
    return header + types + strings


FUNCTION = btf(
    b"\0int\0body\0probe.ply\0x = 1 / y;\0",
    struct.pack("=4I", 1, 1 << 24, 4, 1 << 24 | 32)
    + struct.pack("=3I", 0, 13 << 24, 1)
    + struct.pack("=3I", 5, 12 << 24, 2),
)
FUNC_INFO = struct.pack("=II", 0, 3)
LINE_INFO = struct.pack("=4I", 0, 10, 20, 7 << 10 | 3)


@kernel
def test_the_log_quotes_the_source():
    if not features.debug_info():
        pytest.skip("this kernel takes no BTF")
    with load_btf(FUNCTION) as fd, pytest.raises(KernelError) as caught:
        load(
            code("r0 = *(u64 *)(r1 + 0); r0 = *(u64 *)(r0 + 0); exit"),
            ProgType.RAW_TRACEPOINT,
            "body",
            debug=DebugInfo(fd, FUNC_INFO, LINE_INFO),
        )

    assert "hint: the kernel's log says: R0 invalid mem access 'scalar'" in str(caught.value)
    assert "hint: the kernel's log says: x = 1 / y;" in str(caught.value)


@kernel
def test_bad_btf_is_explained():
    with pytest.raises(KernelError) as caught:
        load_btf(struct.pack("=HBB5I", 0xEB9F, 1, 0, 24, 0, 0, 0, 0))

    assert "cannot load BTF: Invalid argument" in str(caught.value)
    assert "hint: the kernel's log says: " in str(caught.value)
