"""What a program needs, and which kernel is the first that has it."""

from __future__ import annotations

import pytest

from pybpf.inspect.code import Code, Part
from pybpf.inspect.needs import Kind, Need, Since, exact, first, needs
from pybpf.isa.abi import AttachType, MapType, ProgType
from pybpf.isa.assembler import assemble

XDP = Kind(ProgType.XDP)


def found(text, kind=XDP, **more):
    code = Code("main", "", assemble(text), (Part("main", 0),))
    return {need.what: str(need.since) for need in needs(code, kind, **more)}


@pytest.mark.parametrize(
    ("text", "what", "since"),
    [
        ("r0 = 0\nexit", "program type xdp", "5.10 or older"),
        ("r0 s/= 2\nexit", "instruction sdiv64_imm", "6.6"),
        ("w0 = 0\nif w0 == 0 goto x\nx: exit", "instruction jeq32_imm", "5.1"),
        ("x: r0 = 0\nif r0 == 0 goto x\nexit", "loops", "5.3"),
        ("call bpf_map_lookup_elem\nexit", "helper bpf_map_lookup_elem", "5.10 or older"),
        ("call bpf_loop\nexit", "helper bpf_loop", "after 5.15, by 6.1"),
        ("call bpf_skb_load_bytes\nexit", "helper bpf_skb_load_bytes", "none that is known"),
        ("call 9999\nexit", "helper 9999", "none that is known"),
        ("callx r1\nexit", "instruction callx", "none that is known"),
    ],
)
def test_what_is_needed(text, what, since):
    assert found(text)[what] == since


def test_types_of_maps_and_programs_and_kernel_functions():
    needed = found(
        "exit",
        Kind(ProgType.SCHED_CLS, AttachType.TCX_INGRESS),
        map_types=[MapType.ARENA, 999],
        kfuncs=["bpf_dynptr_from_skb", "nobody_has_this"],
    )
    assert needed["map type arena"] == "after 6.6, by 6.12"
    assert needed["map type 999"] == needed["kfunc nobody_has_this"] == "none that is known"
    assert needed["kfunc bpf_dynptr_from_skb"] == "after 6.1, by 6.6"
    assert found("exit", Kind(ProgType.NETFILTER))["program type netfilter"] == "after 6.1, by 6.6"


def test_more_than_4096_instructions():
    assert found("r0 = 0\n" * 4096 + "exit")["more than 4096 instructions"] == "5.2"
    assert "more than 4096 instructions" not in found("r0 = 0\n" * 4095 + "exit")


RANGE, OLD = Since((5, 15), (6, 1), beyond=True), Since(None, (5, 10))


@pytest.mark.parametrize(
    ("sinces", "text"),
    [
        ([], "3.18"),
        ([exact((5, 3))], "5.3"),
        ([OLD], "5.10 or older"),
        ([OLD, exact((5, 3))], "5.3 to 5.10"),
        ([OLD, exact((5, 13))], "5.13"),
        ([RANGE], "after 5.15, by 6.1"),
        ([RANGE, exact((6, 1))], "6.1"),
        ([RANGE, exact((6, 0))], "6.0 to 6.1"),
        ([RANGE, exact((6, 6))], "6.6"),
        ([RANGE, OLD, exact((5, 1))], "after 5.15, by 6.1"),
        ([exact((5, 3)), Since(None, None)], "none that is known"),
    ],
)
def test_the_first_kernel(sinces, text):
    assert str(first(Need("x", since) for since in sinces)) == text
    assert str(first(Need("x", since) for since in reversed(sinces))) == text
