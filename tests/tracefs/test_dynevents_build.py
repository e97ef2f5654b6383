"""Builders make what validates, and nothing else."""

import pytest

from pybpf.errors import DynEventError
from pybpf.tracefs.dynevent import Eprobe
from pybpf.tracefs.dynevents import build
from pybpf.tracefs.dynevents.build import (
    arg,
    comm,
    current,
    eprobe,
    field,
    fprobe,
    immediate,
    kprobe,
    kretprobe,
    memory,
    register,
    removal,
    retval,
    stack,
    symbol,
    synthetic,
    tprobe,
    uprobe,
    variable,
)  # fmt: skip
from pybpf.tracefs.dynevents.parse import parse
from pybpf.tracefs.fetch import Bits
from pybpf.tracefs.filters.value import where


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (eprobe("sched.sched_switch", group="sched", event="switch",
                args={"prev": field("prev_pid").as_("u32")}),
         "e:sched/switch sched.sched_switch prev=$prev_pid:u32"),
        (eprobe("raw_syscalls/sys_enter", event="x", filter_="id == 1",
                args={"f": field("args").at(8).at().as_("ustring"), "c": comm().as_("string")}),
         "e:x raw_syscalls.sys_enter f=+0(+8($args)):ustring c=$comm:string if id == 1"),
        (Eprobe("sched/sched_switch", group="sched", event="switch", filter="prev_pid > 0",
                args={"prev": field("prev_pid").as_("u32")}),
         "e:sched/switch sched.sched_switch prev=$prev_pid:u32 if prev_pid > 0"),
        (eprobe("a.b", filter_=where("x").gt(1) & where("c").like("a*")),
         'e a.b if x > 1 && c ~ "a*"'),
        (eprobe("a.b", args={"s": immediate("text").as_("string"), "n": immediate(-1)}),
         'e a.b s=\\"text":string n=\\-1'),
        (eprobe("a.b", args={"b": field("f").as_(Bits(1, 2, 8)), "m": symbol("x", 8).as_("u8", 4)}),
         "e a.b b=$f:b1@2/8 m=@x+8:u8[4]"),
        (eprobe("a.b", args=[field("skb", bare=True).cast("sk_buff", "dev->ifindex")]),
         "e a.b (sk_buff)skb->dev->ifindex"),
        (kprobe("vfs_read", args={"p": variable("file").to("a.b->c"),
                                  "t": current().to("pid"), "m": memory(4096), "r": register("di"),
                                  "s": stack(), "w": stack(3), "a": arg(1)}),
         "p vfs_read p=file->a.b->c t=$current->pid m=@4096 r=%di s=$stack w=$stack3 a=$arg1"),
        (kprobe("vfs_read", args=[build.all_args()]), "p vfs_read $arg*"),
        (kretprobe("vfs_read", args={"r": retval()}, maxactive=5), "r5 vfs_read r=$retval"),
        (uprobe("/bin/true", 16, args={"f": build.file_memory(8)}, returns=True),
         "r /bin/true:0x0000000000000010 f=@+8"),
        (fprobe("vfs_read", group="g", returns=True), "f:g/ vfs_read%return"),
        (tprobe("sched_switch", args=[variable("prev").to("pid")]), "t sched_switch prev->pid"),
        (synthetic("sy", {"lat": "u64", "comm": "char[16]"}),
         "s:synthetic/sy\tu64 lat; char[16] comm"),
        (removal("g", "e"), "-:g/e"),
    ],
)  # fmt: skip
def test_what_is_built_is_what_its_text_says(made, text):
    assert str(made) == text
    assert parse(text) == made


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: eprobe("a.b", args={"x": immediate("a b")}), "String is not closed"),
        (lambda: eprobe("a.b", args={"x y": field("f")}), "reads this as something else"),
        (lambda: Eprobe("a.b", args={"x": field("f").as_("u33")}), "Unknown type"),
        (lambda: eprobe("ab"), "This requires both group and event name to attach"),
        (lambda: eprobe("a.b", event="1"), "Event name must follow"),
        (lambda: eprobe("a.b", args={"x": field("f").as_("u33")}), "Unknown type"),
        (lambda: eprobe("a.b", args={"x": field("f").as_("u8", 4)}), "only memory argument"),
        (lambda: eprobe("a.b", args={"x": field("f", bare=True)}, kernel="6.12"), "BTF"),
        (lambda: eprobe("a.b", args={"x": field("f=1")}), "Invalid"),
        (lambda: eprobe("a.b", args={"x": immediate("a#b")}), "String is not closed"),
        (lambda: eprobe("a.b", filter_="x # y"), "reads this as something else"),
        (lambda: kprobe("vfs_read", args={"a": field("x")}), "Invalid"),
        (lambda: tprobe("a.b"), "Invalid character in tracepoint name"),
        (lambda: tprobe("a", kernel="6.1"), "the kernel logs no reason"),
        (lambda: synthetic("sy", {}), "Command must be of the form"),
        (lambda: synthetic("sy", {"x": "size_t"}), "Invalid type"),
        (lambda: removal("g", "e\nf"), "one definition at a time"),
    ],
)
def test_what_does_not_validate_is_not_built(build, message):
    with pytest.raises(DynEventError, match=message):
        build()
