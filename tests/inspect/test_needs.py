"""What a program needs, and which kernel is the first that has it."""

from __future__ import annotations

import pytest

from pybpf.inspect.code import Code, Part
from pybpf.inspect.needs import Kind, Need, Since, exact, first, needs
from pybpf.isa.abi import AttachType, MapFlag, MapType, ProgFlag, ProgType
from pybpf.isa.assembler import assemble
from pybpf.isa.helpers import HELPERS
from pybpf.objfile.sections import Trait, parse
from pybpf.target import history
from pybpf.target.profile import NAMES, profile

XDP = Kind(ProgType.XDP)


def found(text, kind=XDP, **more):
    code = Code("main", "", assemble(text), (Part("main", 0),))
    return {need.what: str(need.since) for need in needs(code, kind, **more)}


@pytest.mark.parametrize(
    ("text", "what", "since"),
    [
        ("r0 = 0\nexit", "program type xdp", "4.8"),
        ("r0 s/= 2\nexit", "instruction sdiv64_imm", "6.6"),
        ("w0 = 0\nif w0 == 0 goto x\nx: exit", "instruction jeq32_imm", "5.1"),
        ("x: r0 = 0\nif r0 == 0 goto x\nexit", "loops", "5.3"),
        ("call bpf_map_lookup_elem\nexit", "helper bpf_map_lookup_elem", "4.8"),
        ("call bpf_loop\nexit", "helper bpf_loop", "5.17"),
        ("call bpf_skb_load_bytes\nexit", "helper bpf_skb_load_bytes", "none that is known"),
        ("call bpf_csum_diff\nexit", "helper bpf_csum_diff", "4.8 to 5.10"),
        ("r1 = map_value[3] ll\nexit", "address of a map's value", "5.2"),
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
    assert needed["map type arena"] == "6.9"
    assert needed["attach type tcx_ingress"] == "6.6"
    assert needed["map type 999"] == needed["kfunc nobody_has_this"] == "none that is known"
    assert needed["kfunc bpf_dynptr_from_skb"] == "after 6.1, by 6.6"
    assert found("exit", Kind(ProgType.NETFILTER))["program type netfilter"] == "6.4"


@pytest.mark.parametrize(
    ("section", "newest", "since"),
    [
        ("tcx/ingress", "attach type tcx_ingress", "6.6"),
        ("netkit/peer", "attach type netkit_peer", "6.7"),
        ("kprobe.multi/x", "attach type trace_kprobe_multi", "5.18"),
        ("uprobe.multi", "attach type trace_uprobe_multi", "6.6"),
        ("uprobe.multi.s", "attach type trace_uprobe_multi", "6.6"),
        ("kprobe.session/x", "attach type trace_kprobe_session", "6.10"),
        ("uprobe.session", "attach type trace_uprobe_session", "6.13"),
        ("uprobe.s", "program flag sleepable", "6.0"),
        ("fentry/x", "program type tracing", "5.5"),
        ("fmod_ret/x", "attach type modify_return", "5.7"),
        ("fentry.s/x", "program flag sleepable", "5.10"),
        ("iter/task", "attach type trace_iter", "5.8"),
        ("iter.s/task", "program flag sleepable", "5.18"),
        ("lsm/file_open", "program type lsm", "5.7"),
        ("lsm_cgroup/bind", "attach type lsm_cgroup", "6.0"),
        ("xdp", "program type xdp", "4.8"),
        ("xdp/devmap", "attach type xdp_devmap", "5.8"),
        ("xdp.frags", "program flag xdp_has_frags", "5.18"),
        ("sk_reuseport", "program type sk_reuseport", "4.19"),
        ("sk_reuseport/migrate", "attach type sk_reuseport_select_or_migrate", "5.14"),
        ("sk_lookup", "program type sk_lookup", "5.9"),
        ("netfilter", "program type netfilter", "6.4"),
        ("syscall", "program type syscall", "5.14"),
        ("cgroup/connect4", "program type cgroup_sock_addr", "4.17"),
        ("cgroup/connect_unix", "attach type cgroup_unix_connect", "6.7"),
    ],
)
def test_what_sections_ask(section, newest, since):
    said = parse(section).kind
    flags = {Trait.SLEEPABLE: ProgFlag.SLEEPABLE, Trait.FRAGS: ProgFlag.XDP_HAS_FRAGS}
    attach = None if Trait.OPTIONAL in said.traits else said.attach_type
    asked = frozenset(flag for trait, flag in flags.items() if trait in said.traits)
    needed = found("exit", Kind(said.prog_type, attach, asked))
    assert needed[newest] == since
    assert str(first(needs_of(Kind(said.prog_type, attach, asked)))) == since


def needs_of(kind):
    return needs(Code("main", "", assemble("exit"), (Part("main", 0),)), kind)


def test_a_section_that_names_no_program_type():
    code = Code("main", "bogus/what", assemble("exit"), (Part("main", 0),))
    needed = needs(code, Kind(ProgType.UNSPEC))
    assert [need.what for need in needed] == [
        'a program type, which SEC("bogus/what") does not name'
    ]
    assert str(first(needed)) == "none that is known"


def test_flags_of_maps():
    needed = found("exit", map_flags=MapFlag.LINK | MapFlag.MMAPABLE)
    assert (needed["map flag link"], needed["map flag mmapable"]) == ("6.4", "5.5")


@pytest.mark.parametrize(
    ("name", "since"),
    [("map_delete_elem", "3.19"), ("probe_read", "4.1"), ("tail_call", "4.2"),
     ("probe_read_str", "4.11"), ("probe_read_kernel", "5.5"), ("ringbuf_reserve", "5.8"),
     ("redirect_peer", "5.10"), ("for_each_map_elem", "5.13"), ("dynptr_read", "5.19"),
     ("cgrp_storage_delete", "6.2")],
)  # fmt: skip
def test_helpers_of_raw_instructions(name, since):
    assert found(f"call bpf_{name}\nexit", Kind(ProgType.UNSPEC))[f"helper bpf_{name}"] == since


def test_no_release_is_later_than_that_of_a_profile_that_has_it():
    for known in map(profile, NAMES):
        for table, there in (
            (history.PROGRAM_TYPES, known.program_types), (history.MAP_TYPES, known.map_types)
        ):  # fmt: skip
            for number, release in table.items():
                assert (number in there) == (release <= known.version), (known, number)
        for number in HELPERS.values():
            has = any(number in known.helpers(each) for each in known.program_types)
            assert not has or history.helper(number) <= known.version, (known, number)


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
