"""Random texts of dynamic events: a source of chance in, definitions good and bad out.

About a fifth of them are definitions that a kernel takes.
"""

from __future__ import annotations

from random import Random
from types import MappingProxyType

from pybpf.testing.grammar import Grammar, draw, words

GRAMMAR: Grammar = MappingProxyType(
    {
        "definition": (
            *["<eprobe>"] * 6,
            *["<aimed>"] * 6,
            *["<kprobe>"] * 5,
            *["<wild>"] * 2,
            "<uprobe>",
            "<synthetic>",
            "<removal>",
            "<odd>",
        ),
        # Eprobes on a known event, with what fits it.
        "aimed": (
            "e:t/x sched.sched_switch <of-switch>",
            "e:t/x sched/sched_switch a=<switch> b=<switch>:<type>",
            "e:x raw_syscalls.sys_enter a=<enter>:<type> <of-enter>",
            "e:t/ syscalls.sys_enter_openat <of-openat> <of-openat>",
            "e net.netif_receive_skb <of-skb>",
            "e:t/x timer.timer_start <of-timer>",
            "ex:t.x signal.signal_generate a=$comm <name>=+<offset>($comm):<type>",
        ),
        "of-switch": ("<name>=<switch>", "<name>=<switch>:<type>", "<switch>:<type>"),
        "of-enter": ("<name>=<enter>", "<name>=<enter>:<type>", "<enter>"),
        "of-openat": ("<name>=<openat>", "<name>=<openat>:<type>", "<openat>"),
        "of-skb": ("<name>=<skb>", "<name>=<skb>:<type>", "<skb>"),
        "of-timer": ("<name>=<timer>", "<name>=<timer>:<type>", "<timer>"),
        "switch": (
            *words("$prev_pid $prev_comm $next_pid prev_state <any> +<offset>(<switch>)"),
            "(<struct>)<switch>-><path>",
        ),
        "enter": (
            *words("$id $args args <any> +<offset>(<enter>) -u<offset>(<enter>)"),
            "(<struct>)(<enter>)-><path>",
        ),
        "openat": words("$filename $dfd flags $__syscall_nr <any> +u<offset>(<openat>)"),
        "skb": (
            *words("$skbaddr skbaddr $len $name <any> +<offset>(<skb>)"),
            "(sk_buff)<skb>-><path>",
            "(<struct>)(<skb>)-><path>",
        ),
        "timer": (
            *words("$timer $function <any> +<offset>(<timer>)"),
            "(timer_list)timer-><path>",
        ),
        "any": ("$comm", "@<symbol>", "\\<number>", '\\"<text>"'),
        # Anything anywhere.
        "eprobe": ("<head-e> <target> <arg>", "<head-e> <target> <arg> <arg>", "<head-e> <target>"),
        "head-e": (*["e:t/x"] * 6, "e:<event>", "e", "e1:x", "E:x"),
        "target": words(
            "sched.sched_switch sched.sched_switch raw_syscalls/sys_enter net.netif_receive_skb"
            " nosuch.event sched.nosuch sched a.b.c .x x. ftrace.function synthetic.sy kprobes.kp"
        ),
        "event": (
            *words("x t/x t.x t/ t-g/x 1g/x t/1x t/a.b /x .x t/é T/X9_ t/a/b t- x$ -/x t/enable"),
            "",
            "sched/sched_switch",
            "n" * 63,
            "n" * 64,
            f"{'g' * 63}/x",
            f"{'g' * 64}/x",
        ),
        "arg": ("<name>=<fetch>", "<name>=<fetch>:<type>", "<fetch>", "<fetch>:<type>"),
        "name": (
            *words("a0 b1 c2 d3 e4 f5 a6 b7 c8 d9 1a a.b common_pid common_cpu arg1 é if"),
            "",
            "a" * 32,
            "a" * 33,
        ),
        "fetch": (
            *words("$<field> $<field> <field> @<symbol> \\<number> <deref> <deref> <cast> <junk>"),
            '\\"<text>"',
        ),
        "field": words(
            "prev_pid prev_comm id args skbaddr len comm nosuch common_pid args[0] COMM a-b retval"
        ),
        "deref": (
            *["<sign><offset>(<fetch>)"] * 8,
            "<sign><offset>(<fetch>",
            "<sign><offset>(<fetch>))",
            "<sign><offset>(<fetch>)x",
            "<sign><bad-number>(<fetch>)",
        ),
        "sign": ("+", "+", "-", "+u", "-u", "++", "+-"),
        "offset": ("0", "8", "0x10", "010"),
        "bad-number": (
            *words("x 08 0x - 9223372036854775807 9223372036854775808 99999999999999999999"),
            "",
        ),
        "number": (
            *words("0 1 -1 +1 0x10 010 08 x + -"),
            *words("18446744073709551615 18446744073709551616"),
            *words("-9223372036854775808 -9223372036854775809 +-1 ++1 0x 1.5"),
        ),
        "symbol": (
            *words("jiffies jiffies init_task linux_banner jiffies+8 jiffies-0x8 jiffies+ 0 123"),
            *words("nosuch_symbol_x jiffies+x 0xffffffff81000000 99999999999999999999 0x +0 -1"),
        ),
        "text": ("str", "", 'a"b', "a\\", "é", "a:b", "%s"),
        "cast": (
            *["(<struct>)<fetch>-><path>"] * 4,
            *["(<struct>)(<fetch>)-><path>"] * 4,
            "(<struct>)<fetch>",
            "(<struct>)<fetch>.<path>",
            "(<struct><fetch>-><path>",
        ),
        "struct": (
            *words("sk_buff task_struct timer_list file list_head int nosuch sk_buff,next"),
            *words("sk_buff, task_struct,tasks task_struct,nosuch task_struct,real_parent->pid"),
            "",
        ),
        "path": (
            *words("len dev->ifindex dev->name pid comm real_parent->pid entry.next function"),
            *words("nosuch len->x head->x pkt_type cb f_path.dentry->d_name.name x. .x a-b next"),
            "",
        ),
        "junk": words("a 1 ( ) * ~ foo( u8($prev_pid) $ % @ \\ + - & %ax $arg1 this_cpu_read(a)"),
        "type": (
            *words("u8 u16 u32 u64 s8 s16 s32 s64 x8 x16 x32 x64 char string ustring symbol"),
            *words("symstr b1@0/8 b4@4/32 b63@1/64 b0@0/8 b9@0/8 b1@0/9 bx@0/8 int string[3]"),
            *words("u8[16] u32[2] u8[65] symstr[2] x64[0] x64[ x64[1 x64[1]x x64[010] b4@0/8[4]"),
            *words("%pd u32:u32 b18446744073709551617@0/8 b2@18446744073709551615/8"),
            "",
        ),
        "kprobe": (
            *["<head-k> <place> <karg>"] * 3,
            "<head-k> <place>",
            "<head-k> <place> <karg> <karg>",
            "<head-k> <place> <karg> <meta>",
        ),
        "head-k": words(
            "p p:t/x p:t/x r:t/x r:x r5:t/x f:t/x f f:t/ t:t/x t:x p5:x r0:x rx:x f3:x"
        ),
        "place": words(
            "vfs_read vfs_read vfs_read vfs_write vfs_read%return sched_switch sched_switch"
            " nosuch_f vfs_read+4 vfs_read-1 vfs_read+x vfs_read%x vfs_read+1 nosuchmod:fn vfs_*"
            " a,b schedule c_next pt_regs_offset jiffies jiffies+4"
            " __pfx_vfs_read perf_trace_sched_switch"
        ),
        "karg": ("<name>=<kfetch>", "<name>=<kfetch>:<type>", "<kfetch>", "<kfetch>:<type>"),
        "kfetch": (
            *words("$arg1 $arg2 $arg0 $argx $arg2049 $retval $retval->x $stack $stack5 $stackx"),
            *words("$stack2049 $comm $current $current->pid $current.pid %ax %di %eax file buf"),
            *words("count pos file->f_flags file->nosuch file.x count->x prev prev->pid"),
            *words("prev->comm next->pid nosuch <any> +<offset>(<kfetch>) -u<offset>(<kfetch>)"),
            *words("this_cpu_read(@runqueues) this_cpu_ptr(@runqueues) (<struct>)<kfetch>-><path>"),
        ),
        "meta": words("$arg* $arg1 $arg2:u8 $arg9 f=$arg1:%pd file:%pD $arg1:%pD $arg1x"),
        "wild": ("<head-e> <target> <karg>", "<head-k> <place> <arg>", "<head-k> <target> <arg>"),
        "uprobe": ("<head-u> <file>", "<head-u> <file> <uarg>"),
        "head-u": words("p p:t/x r:t/x r5:t/x px"),
        "file": words(
            "/bin/true:0x1000 /bin/true:4096 /bin:0x1000 /nosuch/file:1 /bin/true:x /bin/true:1z"
            " /bin/true:0x1000%return /bin/true:1(0x10) /bin/true:1(10 /bin/true:1(x) /bin/true:-5"
            " /bin/true:1(1)x /bin/true:1%x /bin/true:99999999999999999999"
        ),
        "uarg": ("<name>=<ufetch>", "<name>=<ufetch>:<type>", "<ufetch>"),
        "ufetch": words(
            "%ax %di $stack0 $comm $retval @0x10 @+0x10 @+x @jiffies $arg1 file +0(%sp)"
        ),
        "synthetic": (
            "<head-s> <member>",
            "<head-s> <member>; <member>",
            "<head-s>\t<member> <member>;",
            "<head-s>",
        ),
        "head-s": words("s:sy s:sy s:synthetic/sy s:sched/sy s:1s s:s-y"),
        "member": ("<ctype> <cname>", "<ctype> <cname>", "<ctype>", "unsigned <ctype> <cname>"),
        "ctype": words("u64 u32 s8 int long char bool pid_t gfp_t size_t string x64 char[16]"),
        "cname": words("f g h[16] i[] j[0] k[257] l[x] a-b 1a *p common_pid s[ c[1]2 é"),
        "removal": words("-:t/x -:x -:t/ - -: !e:t/x !t/x -:x/y -:t.x -e:t/x -:T/X"),
        "odd": (
            *words("e e: p u:x f s s: x #"),
            "",
            "  ",
            "e:t/x # x",
            "\te:t/x\tsched.sched_switch\ta=$prev_pid",
            "e:t/x sched.sched_switch a=$prev_pid#x",
            "e:t/x sched.sched_switch if <filter>",
        ),
        "filter": ("prev_pid == 1", "nosuch == 1", "", 'prev_comm == "x"', "prev_pid"),
    }
)


def definition(random: Random) -> str:
    """Draw the text of a definition, without a newline."""
    return draw(GRAMMAR, "definition", random)
