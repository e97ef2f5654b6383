"""Every spelling that LLVM, bpftool and the verifier print, and errors that point at the fault."""

from __future__ import annotations

import pytest

from pybpf.errors import AssemblyError
from pybpf.isa import lexer
from pybpf.isa.assembler import assemble
from pybpf.isa.disassembler import format_insn
from pybpf.isa.insn import insn


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        # memory
        ("r0 = *(u32 *)(r1 +8)", "r0 = *(u32 *)(r1 + 8)"),
        ("r0 = *(u32*)(r1 + 0x8)", "r0 = *(u32 *)(r1 + 8)"),
        ("w0 = *(u32 *)(r1 + 8)", "r0 = *(u32 *)(r1 + 8)"),
        ("r0 = *(u64 *)(r10 -8)", "r0 = *(u64 *)(r10 - 8)"),
        ("r0 = *(u64 *)(r10)", "r0 = *(u64 *)(r10 + 0)"),
        ("*(u8 *)(r1 + 0) = w2", "*(u8 *)(r1 + 0) = r2"),
        ("*(u32 *)(r1 + 0) = 0xffffffff", "*(u32 *)(r1 + 0) = -1"),
        ("*(u64 *)(r1 +0) = -1", "*(u64 *)(r1 + 0) = -1"),
        ("r0 = *(u16 *)skb[r6]", "r0 = *(u16 *)skb[r6 + 0]"),
        ("r0 = *(u8 *)skb[0x10]", "r0 = *(u8 *)skb[16]"),
        # arithmetic
        ("w1 = 0xffffffff", "w1 = -1"),
        ("w1 = 4294967295", "w1 = -1"),
        ("r1 = -0x1", "r1 = -1"),
        ("r1 = +5", "r1 = 5"),
        ("r1 += -8", "r1 += -8"),
        ("r1 s>>= 3", "r1 s>>= 3"),
        ("r1 s/= r2", "r1 s/= r2"),
        ("w1 s%= 7", "w1 s%= 7"),
        ("r1 = (s8)r2", "r1 = (s8)r2"),
        ("r1 = (s32) r2", "r1 = (s32)r2"),
        ("r1 = -r1", "r1 = -r1"),
        ("w1 = -w1", "w1 = -w1"),
        ("r1 = be16 r1", "r1 = be16 r1"),
        ("r1 = bswap32 r1", "r1 = bswap32 r1"),
        # atomics
        ("lock *(u32 *)(r1 +0) += r2", "lock *(u32 *)(r1 + 0) += w2"),
        ("lock *(u64 *)(r1 + 0) ^= r2", "lock *(u64 *)(r1 + 0) ^= r2"),
        ("r2 = atomic64_fetch_or((u64 *)(r1 +0), r2)", "r2 = atomic_fetch_or((u64 *)(r1 + 0), r2)"),
        ("r2 = atomic_fetch_or((u32 *)(r1 +0), r2)", "w2 = atomic_fetch_or((u32 *)(r1 + 0), w2)"),
        ("r2 = atomic64_xchg((u64 *)(r1 -8), r2)", "r2 = xchg_64(r1 - 8, r2)"),
        ("r2 = atomic_xchg((u32 *)(r1 -8), r2)", "w2 = xchg32_32(r1 - 8, w2)"),
        ("r0 = atomic64_cmpxchg((u64 *)(r1 +0), r0, r2)", "r0 = cmpxchg_64(r1 + 0, r0, r2)"),
        ("r0 = atomic_cmpxchg((u32 *)(r1 +0), r0, r2)", "w0 = cmpxchg32_32(r1 + 0, w0, w2)"),
        ("w1 = load_acquire((u8 *)(r2 + 0x0))", "r1 = load_acquire((u8 *)(r2 + 0))"),
        ("store_release((u32 *)(r1 - 0x4), w2)", "store_release((u32 *)(r1 - 4), r2)"),
        # jumps
        ("goto pc+1", "goto +1"),
        ("goto pc-1", "goto -1"),
        ("goto +0x1 <LBB0_2>", "goto +1"),
        ("goto +1 <.text+0x10>", "goto +1"),
        ("gotol pc+1", "gotol +1"),
        ("may_goto pc+1", "may_goto +1"),
        ("if r0 == 0x0 goto pc+1", "if r0 == 0 goto +1"),
        ("if r0 == 0xffffffff goto pc+1", "if r0 == -1 goto +1"),
        ("if w0 > 4294967295 goto +1", "if w0 > -1 goto +1"),
        ("if r2 s<= -0x5 goto +1", "if r2 s<= -5 goto +1"),
        ("if w1 & w2 goto +1", "if w1 & w2 goto +1"),
        # calls
        ("call bpf_map_lookup_elem#1", "call bpf_map_lookup_elem"),
        ("call 1", "call bpf_map_lookup_elem"),
        ("call map_lookup_elem", "call bpf_map_lookup_elem"),
        # names and expressions
        ("r0 = XDP_DROP", "r0 = 1"),
        ("w3 = BPF_F_CURRENT_CPU", "w3 = -1"),
        ("r3 = BPF_F_CURRENT_CPU ll", "r3 = 0xffffffff ll"),
        ("r1 = -AF_INET6", "r1 = -10"),
        ("r1 = (AF_INET)", "r1 = 2"),
        ("r1 = ~(1 << 4)", "r1 = -17"),
        ("r1 /= 2 + 2", "r1 /= 4"),
        ("*(u8 *)(r10 - 8 * 2 + 1) = 'a'", "*(u8 *)(r10 - 15) = 97"),
        ("if w1 != ETH_P_IP goto +1", "if w1 != 2048 goto +1"),
        ("r0 = /* two */ 2 // and on", "r0 = 2"),
        ("call 0x1", "call bpf_map_lookup_elem"),
        ("call unknown#500", "call 500"),
        ("call bpf_trace_printk#-61856", "call -61856"),
        ("call bpf_ktime_get_ns#79744", "call 79744"),
        ("call pc+1#bpf_prog_2dcecc18072623fc_f", "call pc+1"),
        ("callx r1", "callx r1"),
        ("call kernel-function#77", "call kernel-function#77"),
        ("call kernel-function#77 fd_array[1]", "call kernel-function#77 fd_array[1]"),
        # wide loads
        ("r1 = 5 ll", "r1 = 0x5 ll"),
        ("r1 = -1 ll", "r1 = 0xffffffffffffffff ll"),
        ("(18) r1 = 0xffff888103a0b000", "r1 = 0xffff888103a0b000 ll"),
        ("(18) r1 = 5", "r1 = 0x5 ll"),
        ("r1 = map[id:3]", "r1 = map_fd[3] ll"),
        ("(18) r1 = map[id:3][0]+8", "r1 = map_value[3] + 8 ll"),
        ("r1 = map[id:3][0]+0", "r1 = map_value[3] ll"),
        ("r1 = map[idx:3]+8", "r1 = map_idx_value[3] + 8 ll"),
        ("r1 = map[idx:3]", "r1 = map_idx[3] ll"),
        ("r1 = map:@counts ll", "r1 = map_fd:@counts ll"),
        ("r1 = map_value:.rodata + 0x10 ll", "r1 = map_value:.rodata + 16 ll"),
        ("r1 = subprog[+1]", "r1 = subprog[+1] ll"),
        ("r1 = btf_id[4:7]", "r1 = btf_id[4:7] ll"),
        ("r1 = addr_space_cast(r2, 0, 1)", "r1 = addr_space_cast(r2, 0, 1)"),
        # around an instruction
        ("  12: (bf) r1 = r2", "r1 = r2"),
        ("12: r1 = r2", "r1 = r2"),
        ("(bf) r1 = r2", "r1 = r2"),
        ("       1:\tbf 21 00 00 00 00 00 00\tr1 = r2", "r1 = r2"),
        ("bf 21 00 00 00 00 00 00 r1 = r2", "r1 = r2"),
        ("r1 = r2 ; R1_w=scalar()", "r1 = r2"),
        ("r1 = r2 // a copy", "r1 = r2"),
        ("r1 = r2 # a copy", "r1 = r2"),
        ("r1 = r2;", "r1 = r2"),
        ("\tr1 = r2\r", "r1 = r2"),
    ],
    ids=str,
)  # fmt: skip
def test_spellings(text, canonical):
    # What stands around lets the distances of the jumps lead somewhere.
    program = assemble(f"exit\n{text}\nexit\nexit\nexit")

    assert format_insn(program.insns[1]) == canonical


def test_empty_text():
    assert assemble("").insns == ()
    assert assemble("; nothing\n\n  // here\n# either").insns == ()


def test_labels_and_subprograms():
    program = assemble(
        """
        ; a function's label, one in front of its instruction, two for one place
        0000000000000000 <main>:
        top: r1 += 1
             if r1 s< 10 goto top
             call sub1
        out:
        done:
             exit
        sub1: goto done_2; done_2: exit
        """
    )

    assert dict(program.labels) == {
        "main": 0, "top": 0, "out": 3, "done": 3, "sub1": 4, "done_2": 5,
    }  # fmt: skip
    assert [i.symbol for i in program.insns] == [None, "top", "sub1", None, "done_2", None]


def test_a_label_goes_before_a_helper():
    program = assemble("call bpf_ktime_get_ns\nexit\nbpf_ktime_get_ns: exit")

    assert program.insns[0] == insn("call_local", symbol="bpf_ktime_get_ns")


def test_a_verifier_log():
    program = assemble(
        """
        ; int handle(struct pt_regs *ctx) @ probe.c:12
        0: (18) r1 = 0xffff888100a3c000       ; R1_w=map_ptr(ks=4,vs=8)
        2: (bf) r2 = r10                      ; R2_w=fp0 R10=fp0
        3: (07) r2 += -4                      ; R2_w=fp-4
        4: (85) call bpf_map_lookup_elem#1    ; R0_w=map_value_or_null(id=1)
        5: (15) if r0 == 0x0 goto pc+1        ; R0=map_value()
        6: (db) lock *(u64 *)(r0 +0) += r1
        7: (95) exit
        """
    )

    assert [format_insn(i) for i in program.insns] == [
        "r1 = 0xffff888100a3c000 ll",
        "r2 = r10",
        "r2 += -4",
        "call bpf_map_lookup_elem",
        "if r0 == 0 goto +1",
        "lock *(u64 *)(r0 + 0) += r1",
        "exit",
    ]


# Each is a whole message; its excerpt is the text that is assembled.
MESSAGES = """
x.s:1:6: error: no instruction has a '?' here
    r1 = ?
         ^

x.s:1:1: error: no instruction begins with 'ezit'; did you mean 'exit'?
    ezit
    ^^^^

x.s:1:1: error: no instruction begins with '='
    = 5
    ^

x.s:1:6: error: unexpected 'now' after the instruction
    exit now
         ^^^

x.s:1:3: error: expected an operator such as '=' or '+=', found the end of the line
    r1
      ^

x.s:1:4: error: expected an operator such as '=' or '+=', found '=='
    r1 == 5
       ^^

x.s:1:5: error: expected a value, found the end of the line
    r1 =
        ^

x.s:1:1: error: there is no register r11
    r11 = 5
    ^^^
  hint: the last one is r10

x.s:1:6: error: w2 does not fit here
    r1 = w2
         ^^
  hint: write r2

x.s:1:1: error: w1 does not fit here
    w1 = be16 w1
    ^^
  hint: write r1

x.s:1:11: error: the operand and the result must both be r1
    r1 = be16 r2
              ^^

x.s:1:6: error: 'be17' is no value; did you mean 'be16'?
    r1 = be17 r1
         ^^^^

x.s:1:6: error: 0xffffffff does not fit the 32 signed bits of imm
    r1 = 0xffffffff
         ^^^^^^^^^^
  hint: 'r1 = 0xffffffff ll' loads 64 bits

x.s:1:7: error: 4294967295 does not fit the 32 signed bits of imm
    r1 += 4294967295
          ^^^^^^^^^^

x.s:1:10: error: 4294967295 does not fit the 32 signed bits of imm
    if r1 == 4294967295 goto +0
             ^^^^^^^^^^

x.s:1:6: error: 0x10000000000000000 does not fit 64 bits
    r1 = 0x10000000000000000 ll
         ^^^^^^^^^^^^^^^^^^^

x.s:1:6: error: '007' is no number
    r1 = 007
         ^^^
  hint: write it as 42 or 0x2a

x.s:1:1: error: w1 does not fit here
    w1 = 5 ll
    ^^
  hint: write r1

x.s:1:7: error: r1 takes no u8
    r1 = (u8)r2
          ^^
  hint: write s8, s16 or s32

x.s:1:7: error: w1 takes no s32
    w1 = (s32)w2
          ^^^
  hint: write s8 or s16

x.s:1:8: error: there is no type 'u33'
    r1 = *(u33 *)(r2 + 0)
           ^^^
  hint: types are u8 to u64, s8 to s32

x.s:1:8: error: there is no load of s64
    r1 = *(s64 *)(r2 + 0)
           ^^^
  hint: write u64

x.s:1:15: error: w2 does not fit here
    r1 = *(u64 *)(w2 + 0)
                  ^^
  hint: write r2

x.s:1:17: error: an offset is from -32768 to 32767
    r1 = *(u8 *)(r2 + 40000)
                    ^^^^^^^

x.s:1:14: error: expected a register, found '5'
    r1 = *(u8 *)(5)
                 ^

x.s:1:3: error: only loads are of s8
    *(s8 *)(r1 + 0) = r2
      ^^
  hint: write u8

x.s:1:20: error: 0x80000000 does not fit the 32 signed bits of imm
    *(u64 *)(r1 + 0) = 0x80000000
                       ^^^^^^^^^^

x.s:1:8: error: this atomic operation is not on u8
    lock *(u8 *)(r1 + 0) += r2
           ^^
  hint: write u32 or u64

x.s:1:23: error: expected '+=', '|=', '&=' or '^=', found '-='
    lock *(u64 *)(r1 + 0) -= r2
                          ^^

x.s:1:26: error: this atomic operation is not on u32
    r2 = atomic64_fetch_add((u32 *)(r1 + 0), r2)
                             ^^^
  hint: write u64

x.s:1:40: error: the operand and the result must both be r2
    r2 = atomic_fetch_add((u64 *)(r1 + 0), r3)
                                           ^^

x.s:1:1: error: a cmpxchg compares with r0, and puts there what it found
    r1 = cmpxchg_64(r2 + 0, r1, r3)
    ^^

x.s:1:1: error: a packet load puts its value into r0
    r1 = *(u32 *)skb[0]
    ^^

x.s:1:8: error: no packet load is of u64
    r0 = *(u64 *)skb[0]
           ^^^
  hint: write u8, u16 or u32

x.s:1:7: error: expected a comparison such as '==' or 's>', found '='
    if r1 = 0 goto +1
          ^

x.s:1:14: error: expected 'goto', found the end of the line
    if r1 == 0 +1
                 ^

x.s:1:12: error: expected 'goto', found '1'
    if r1 == 0 1
               ^

x.s:1:6: error: there is no label '1' behind this instruction
    goto 1f
         ^^

x.s:1:6: error: there is no helper and no label 'get_stak'; did you mean 'bpf_get_stack'?
    call get_stak
         ^^^^^^^^

x.s:1:8: error: this comment has no end
    exit   /* of it
           ^^

x.s:1:6: error: 3 is no target of a jump
    goto 3
         ^
  hint: a distance has a sign: +3

x.s:1:6: error: a distance is from -32768 to 32767
    goto +40000
         ^^^^^^

x.s:1:6: error: there is no helper and no label 'bpf_ktime_getns'; did you mean 'bpf_ktime_get_ns'?
    call bpf_ktime_getns
         ^^^^^^^^^^^^^^^

x.s:1:26: error: bpf_map_lookup_elem is helper 1, not 2
    call bpf_map_lookup_elem#2
                             ^

x.s:1:6: error: 'bpf_cpumask_create' is no helper, but may be a kfunc
    call bpf_cpumask_create#38111
         ^^^^^^^^^^^^^^^^^^
  hint: write 'call 38111' or 'call kernel-function#38111'

x.s:1:10: error: expected 'id:' or 'idx:', found '3'
    r1 = map[3]
             ^

x.s:1:13: error: -1 is not from 0 to 4294967295
    r1 = map_fd[-1] ll
                ^^

x.s:1:26: error: a cast is from address space 1 to 0 or from 0 to 1
    r1 = addr_space_cast(r2, 2, 1)
                             ^

x.s:1:6: error: this is opcode bf, but the line says b7
    (b7) r1 = r2
         ^^

x.s:1:1: error: there is no register r99999
    r99999 = 1
    ^^^^^^
  hint: the last one is r10

x.s:1:1: error: no instruction begins with 'cal'; did you mean 'call'?
    cal r1
    ^^^
"""


@pytest.mark.parametrize(
    "message",
    MESSAGES.strip("\n").split("\n\n"),
    ids=lambda message: message.splitlines()[1].strip(),
)
def test_errors(message):
    text = message.splitlines()[1].removeprefix("    ")

    with pytest.raises(AssemblyError) as caught:
        assemble(text, "x.s")

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "goto out\nouts: exit",
            (
                "x.s:1:6: error: there is no label 'out'; did you mean 'outs'?\n"
                "    goto out\n"
                "         ^^^"
            ),
        ),
        (
            "exit\ngoto end\nend:",
            (
                "x.s:2:6: error: label 'end' stands behind the last instruction\n"
                "    goto end\n"
                "         ^^^"
            ),
        ),
        (
            "goto +1\nr1 = 0 ll\nexit",
            (
                "x.s:1:6: error: slot 2 is the middle of a lddw, nothing can jump there\n"
                "    goto +1\n"
                "         ^^"
            ),
        ),
        (
            "r0 = 0\ncall pc+5",
            (
                "x.s:2:8: error: slot 7 is outside the program, which has slots 0 to 1\n"
                "    call pc+5\n"
                "           ^^"
            ),
        ),
        (
            "a: exit\na: exit",
            (
                "x.s:2:1: error: two labels are 'a'\n"
                "    a: exit\n"
                "    ^\n"
                "  hint: the other one is in line 1"
            ),
        ),
    ],
)
def test_errors_about_several_lines(text, message):
    with pytest.raises(AssemblyError) as caught:
        assemble(text, "x.s")

    assert str(caught.value) == message


def test_binary_input():
    with pytest.raises(AssemblyError) as caught:
        assemble("r0 = 0\nr1 = \x00\x7fELF", "x.s")

    assert str(caught.value) == (
        "x.s:2:6: error: no instruction has a '\\x00' here\n"
        "    r1 = \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}ELF\n"
        "         ^"
    )


def test_second_statement_of_a_line_is_pointed_at():
    with pytest.raises(AssemblyError) as caught:
        assemble("r0 = 0; exitt")

    assert str(caught.value) == (
        "<asm>:1:9: error: no instruction begins with 'exitt'; did you mean 'exit'?\n"
        "    r0 = 0; exitt\n"
        "            ^^^^^"
    )


def test_a_register_of_thousands_of_digits_is_refused():
    with pytest.raises(AssemblyError, match="there is no register"):
        assemble(f"r1{'9' * 4000} = 1")


def test_a_byte_that_is_no_text_is_named():
    with pytest.raises(AssemblyError, match="no instruction has a byte 0xf5 here"):
        assemble(b"\xf5".decode("utf-8", "surrogateescape"))


def test_instructions_know_where_they_were_written():
    program = assemble("r0 = 1; exit  # two\nlast:\n  goto last", "a.s")

    assert [span.text for span in program.spans] == ["r0 = 1", "exit", "goto last"]
    assert [(span.source.name, span.line) for span in program.spans] == [
        ("a.s", 1), ("a.s", 1), ("a.s", 3),
    ]  # fmt: skip


def test_numbered_labels():
    program = assemble(
        """
        1:  r0 = 0
            if r0 == 1 goto 1f
            goto 1b
        1:  goto 1b
            goto 2f
        2: exit
        """
    )

    assert [one.symbol for one in program.insns] == [None, ".L1.1", ".L1.0", ".L1.1", ".L2.0", None]
    assert dict(program.labels) == {".L1.1": 3, ".L1.0": 0, ".L2.0": 5}


def test_a_comment_may_have_several_lines():
    program = assemble("r0 = 0 /* one\n r0 = 1\n two */ ; r0 = 2\nexit // /* no\n; /* no\nexit")

    assert [one.op.name for one in program.insns] == ["mov64_imm", "exit", "exit"]
    assert program.spans[1].line == 4


def test_a_backslash_continues_a_line():
    assert assemble("r0 = 1 + \\\n 2\nexit").insns[0].imm == 3


def test_every_fault_is_told():
    with pytest.raises(AssemblyError) as caught:
        assemble("r0 = 1\nr11 = 2\nr1 = ?\na:\na: exi", "x.s")

    assert [(d.span.line, d.message) for d in caught.value.diagnostics] == [
        (2, "there is no register r11"),
        (3, "no instruction has a '?' here"),
        (5, "two labels are 'a'"),
        (5, "no instruction begins with 'exi'; did you mean 'exit'?"),
    ]


def test_not_all_of_a_thousand_faults_are_told():
    with pytest.raises(AssemblyError) as caught:
        assemble("nothing\n" * 1000)

    assert len(caught.value.diagnostics) == 20


@pytest.mark.parametrize(
    ("text", "what"),
    [("goto " + "a" * 4097, "word"), ("r0 = " + "1" * 4097, "number"),
     ('.ascii "' + "a" * 65_535 + '"', "string")],
)  # fmt: skip
def test_a_word_without_end(text, what):
    with pytest.raises(AssemblyError, match=f"characters are more than any {what} has"):
        assemble(text)


def test_not_all_of_a_thousand_bad_characters_are_told():
    with pytest.raises(AssemblyError) as caught:
        assemble("\x01\n" * 1000)
    assert len(caught.value.diagnostics) == 20


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("r0 = 0\n" * 3, (3, 1)),
        ("a:\n" * 8, (8, 1)),
        ("r0 = " + "-" * 99, (1, 19)),
        ("x;" * 5, (1, 7)),
    ],
)
def test_a_text_that_is_too_long(monkeypatch, text, place):
    monkeypatch.setattr(lexer, "_ROOM", 15)
    with pytest.raises(AssemblyError) as caught:
        assemble(text)
    (fault,) = caught.value.diagnostics
    assert (fault.span.line, fault.span.column) == place
    assert fault.message == "the text up to here is as long as any that can be assembled at once"
