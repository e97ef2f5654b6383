"""Random triggers of events: a source of chance in, what is to be written to which event out.

A trigger depends on those before it: histograms on the variables of others, removals on what is
there. So they come as short lists.
"""

from __future__ import annotations

from random import Random
from types import MappingProxyType

from pybpf.testing.filters import FIELDS, filter_text, spoiled
from pybpf.testing.grammar import Grammar, draw, words

WAKING, SWITCH = "sched/sched_waking", "sched/sched_switch"

GRAMMAR: Grammar = MappingProxyType(
    {
        # On sched_waking, so that what is on sched_switch finds variables.
        "waking": (
            *["hist:keys=pid:ts0=common_timestamp.usecs"] * 4,
            *["hist:keys=pid:ts0=common_timestamp.usecs,pr=prio,cm=comm"] * 8,
            "hist:keys=pid:ts0=common_timestamp.usecs if pid > 1",
            "hist:keys=pid:ts0=common_timestamp.usecs:a=prio",
            "hist:keys=pid",
            "hist:keys=pid,prio:ts0=common_timestamp",
            "hist:keys=comm:ts0=common_timestamp.usecs,pr=prio",
            "hist:keys=pid:pr=prio:name=foo",
            "hist:keys=prio:ts0=common_timestamp.usecs",
            "hist:keys=pid:size=1024:pr=prio,cm=comm:sort=pid",
            "hist:keys=common_pid:ts0=common_timestamp.usecs",
            "hist:keys=pid.execname:ts0=common_timestamp.usecs",
            "hist:keys=pid.hex:pr=prio",
        ),
        # On sched_switch, with what mostly fits.
        "switch": (
            "hist:keys=<switch-key>:<let><acts>",
            "hist:keys=<switch-key>:<let><acts><switch-end>",
            "hist:keys=<switch-key>:<let>,<let><acts>",
            "hist:keys=<switch-key>:<let>:<let><acts>",
            "hist:keys=<switch-key>:<let>:vals=<value><acts>",
            "hist:keys=<switch-key><acts>:<let>",
            "hist:keys=next_pid:lat=common_timestamp.usecs-$ts0:<act>",
        ),
        "switch-key": words(
            "next_pid prev_pid next_pid,next_prio next_comm next_prio common_pid next_pid.execname"
            " next_pid.hex prev_state next_pid,prev_pid next_pid next_pid"
        ),
        "let": words(
            "lat=common_timestamp.usecs-$ts0 la2=common_timestamp.usecs-$ts0 x=next_pid"
            " l=common_timestamp-$ts0 p=$pr y=next_prio+1 n=next_comm z=$ts0 q=$pr*2"
            " lat=common_timestamp.usecs-sched.sched_waking.$ts0 k=common_cpu e=next_pid.execname"
            " b=prev_state.log2 $q=1"
        ),
        "value": words("next_prio $lat $x hitcount next_prio,$pr prev_state.hex"),
        "acts": ("", *[":<act>"] * 4, ":<act>:<act>"),
        "act": (
            *["onmatch(<match>).<synthetic>"] * 5,
            "<on>.<synthetic>",
            "<on>.save(<parameters>)",
            "<on>.save(next_pid,next_comm)",
            "onmatch(<match>).save(<parameters>)",
        ),
        "match": (
            *["sched.sched_waking"] * 5,
            *words("sched.sched_switch sched.sched_wakeup synthetic.wl sched"),
        ),
        "on": words(
            "onmax($lat) onmax($x) onmax($y) onchange($x) onchange($k) onchange($n)"
            " onmax($nosuch) onmax($z) onmax(x)"
        ),
        "synthetic": (
            *["trace(wl,<latency>,<process>,<text>)"] * 3,
            *["trace(w2,<latency>,<level>,<level>)"] * 3,
            "wl(<latency>,<process>,<text>)",
            "trace(<event>,<parameters>)",
            "<event>(<parameters>)",
            "trace(<event>)",
        ),
        "event": words("wl w2 dy nosuch"),
        "latency": words("$lat $la2 $z common_timestamp $ts0 common_timestamp.usecs"),
        "process": words("next_pid pid $x prev_pid common_pid"),
        "text": words("comm next_comm $n $cm COMM"),
        "level": words("prio next_prio $pr $p target_cpu $y"),
        "parameters": ("<parameter>", *["<parameter>,<parameter>,<parameter>"] * 2, "<four>"),
        "four": ("<parameter>,<parameter>,<parameter>,<parameter>", "<parameter>,<parameter>"),
        "parameter": (
            *words("$lat $la2 $l $p $x $y $n $z $q $k $ts0 $pr $cm prio pid comm target_cpu"),
            *words("next_pid next_comm next_prio prev_state common_timestamp common_cpu nosuch"),
            *words("common_timestamp.usecs $nosuch sched.sched_waking.$ts0 next_pid.hex hitcount"),
            *words("sched.sched_waking.prio sched.sched_switch.next_pid common_pid COMM"),
            *words("stacktrace common_stacktrace prio.hex $$lat 12 a.b x 1"),
            " pid ",
            "",
        ),
        "switch-end": (
            *words(":clock=mono :clock=nosuch :pause :cont :clear :name=foo :name=bar :size=100"),
            *words(":sort=next_pid :sort=hitcount.descending :sort=next_prio"),
            " if next_pid > 1",
            ' if prev_comm == "x"',
            " if nosuch == 1",
        ),
        # On any event, and anything.
        "hist": (
            *["hist:keys=<keys><options>"] * 3,
            *["hist:keys=<keys><options><options>"] * 3,
            "hist:keys=<keys><options>:<wild-act>",
            "hist<options>:keys=<keys><options>",
        ),
        "keys": (*["<key>"] * 8, "<key>,<key>", "<key>,<key>,<key>", "<key>,<key>,<key>,<key>"),
        "key": (
            *["<own>"] * 4,
            *["<own>.<modifier>"] * 2,
            *words("common_pid common_pid.execname stacktrace common_stacktrace common_timestamp"),
            *words("hitcount common_cpu cpu"),
            "<expression>",
        ),
        "options": (
            "",
            *[":<vals>=<vals-given>"] * 2,
            *[":<variable>=<expression>"] * 3,
            ":<variable>=<expression>,<variable>=<expression>",
            ":<variable><expression>",
            ":sort=<sort>",
            ":sort=<sort>,<sort>",
            ":sort=<sort>,<sort>,<sort>",
            ":size=<size>",
            ":clock=<clock>",
            ":name=<given-name>",
            ":<flag>",
        ),
        "vals": ("vals", "val", "values"),
        "vals-given": (
            *["<expression>", "<atom>", "hitcount"] * 2,
            "<atom>,<atom>",
            "<atom>,hitcount,<expression>",
            "<atom>,<atom>,<atom>,<atom>",
        ),
        "variable": ("a", "b", "ts0", "lat", "x"),
        "expression": (
            *["<atom>"] * 6,
            "-(<expression>)",
            "-<expression>",
            "(<expression>",
            *["<expression><sign><expression>"] * 3,
        ),
        "sign": ("+", "-", "*", "/"),
        "atom": (
            *["<own>"] * 4,
            "<own>.<modifier>",
            "<any>",
            "$<variable>",
            *words("common_timestamp common_timestamp.usecs common_pid.execname common_stacktrace"),
            *words("hitcount hitcount.percent hitcount.hex sched.sched_waking.$ts0 a.b $"),
            *words("sched.sched_waking.ts0 sched.nosuch.$ts0 sched.sched_switch.$a"),
            *words("1 2 0 0x10 7 1048577 3x 08 18446744073709551615"),
        ),
        "any": words(
            "common_pid common_type cpu CPU COMM comm common_cpu common_comm stacktrace STACKTRACE"
            " common_flags nosuch"
        ),
        "modifier": (
            *words("hex sym sym-offset execname syscall log2 usecs buckets=10 buckets bucket=5"),
            *words("buckets=0 buckets=x percent graph stacktrace hex.log2 nosuch percentx"),
            "",
        ),
        "sort": (*words("<own> hitcount <own>.descending hitcount.ascending <own>.foo <any>."), ""),
        "size": words("100 128 0 1 64 65 131072 131073 x 0x100 -1 99999999999999999999"),
        "clock": (*words("mono global nosuch local x86-tsc tai"), " boot "),
        "given-name": ("foo", "bar", ""),
        "flag": (*words("pause cont continue clear nohitcount NOHC nosuch"), ""),
        "wild-act": (
            "<act>",
            "onmatch(sched.sched_waking).trace(wl,$lat,<own>,<own>)",
            "<wild-on>.trace(<event>,<parameters>)",
            "<wild-on>.save(<own>)",
            "<wild-on>.<wild-what>",
        ),
        "wild-on": words(
            "onmatch(sched_waking) onmatch(a.b) onmatch(sched.sched_waking onmax($lat) onmax($a)"
            " onmax(a) onmax() onmax($nosuch) onchange($a) onchange($lat) onmax($a"
        ),
        # No snapshot: beside a snapshot trigger, kernels panic.
        "wild-what": (*words("tracex(wl,$lat) savex(pid) trace( save nosuch() trace()"), ""),
        "simple": ("<command><count>", "!<command><count>", "<command><count><simple-if><filter>"),
        "command": words(
            "traceon traceoff stacktrace traceoff nosuch hist enable_event:<target>"
            " disable_event:<target> enable_hist:<target> disable_hist:<target> enable_event"
        ),
        "target": words(
            "sched:sched_wakeup sched:sched_switch sched a:b ftrace:function synthetic:wl"
        ),
        "count": (
            *[""] * 4,
            *words(":1 :5 :0 :x :5x :1:2 : :18446744073709551615 :99999999999999999999 :unlimited"),
            " 3",
        ),
        "simple-if": (" if ", " if ", ":if ", " if", " ifx "),
        "hist-if": (" if ", " if ", " if ", "\tif\t", " if", "if ", " if  "),
    }
)
_PIECES = (" ", ":", "=", ",", ".", "$", "\n")
Write = tuple[str, str]
"""The event, and what is written to its trigger."""


def writes(random: Random) -> list[Write]:
    """Draw some writes to triggers of the events of FIELDS."""
    found: list[Write] = []
    if random.random() < 0.85:
        found.append((WAKING, draw(GRAMMAR, "waking", random)))
    for _ in range(random.choice((1, 2, 3, 4))):
        event, text = _write(random)
        if found and random.random() < 0.2:
            event, text = _of_one_before(random, *random.choice(found))
        found.append((event, text))
    return found


def _write(random: Random) -> Write:
    kind = random.random()
    if kind < 0.45:
        return SWITCH, draw(GRAMMAR, "switch", random)
    event = random.choice((*[SWITCH] * 5, *[WAKING] * 2, *FIELDS))
    grammar = {**GRAMMAR, "own": FIELDS[event], "filter": (filter_text(random, event),)}
    if kind < 0.8:
        text = draw(grammar, "hist", random)
        if random.random() < 0.15:
            text += draw(grammar, "hist-if", random) + grammar["filter"][0]
        return event, spoiled(text, random, _PIECES)
    text = draw(grammar, "simple", random)
    if random.random() < 0.05:
        text = random.choice((" ", "\n", "! ")) + text + random.choice((" ", "\n", ""))
    return event, text


def _of_one_before(random: Random, event: str, text: str) -> Write:
    """Return a write again, as a removal, or paused and the like."""
    if random.random() < 0.5:
        text = "!" + text.removeprefix("!")
    if random.random() < 0.2:
        text += random.choice((":pause", ":clear", ":cont"))
    return event, text
