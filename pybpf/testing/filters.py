"""Random filters of events: a source of chance in, an event and a text for its filter out.

About a third of them are filters that a kernel takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from types import MappingProxyType

from pybpf.testing.grammar import Grammar, draw, words

SYNTHETIC = (
    "s:wl u64 lat; pid_t pid; char comm[16]",
    "s:w2 u64 lat; int p; int t",
    "s:dy char s[]; u32 u; unsigned long n",
)
"""Definitions of the synthetic events that random filters and triggers name."""

FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "sched/sched_switch": words(
            "prev_comm prev_pid prev_prio prev_state next_comm next_pid next_prio"
        ),
        "sched/sched_waking": words("comm pid prio target_cpu"),
        "raw_syscalls/sys_enter": words("id args"),
        "kmem/kmalloc": words("call_site ptr bytes_req bytes_alloc gfp_flags"),
        "syscalls/sys_enter_openat": words("dfd filename flags mode __syscall_nr"),
        "sched/sched_process_exec": words("filename pid old_pid"),
        "synthetic/wl": words("lat pid comm"),
        "synthetic/dy": words("s u n"),
    }
)
"""Events of all kernels, and the fields of each."""

GRAMMAR: Grammar = MappingProxyType(
    {
        "filter": (
            *["<comparison>"] * 4,
            "(<filter>)",
            "!<filter>",
            *["<filter><and-or><filter>"] * 2,
            *["<own> <equals> <constant>"] * 6,
        ),
        "and-or": (" && ", " || ", "&&", "||", " && ", " || ", " & ", " and ", " "),
        "comparison": (
            "<named><space><operator><space><number>",
            "<named><space><operator><space><string>",
            "<named><space><operator><space><number>",
            "<named><space><equals><space><string>",
            "<named><space><operator><space><odd>",
            "<named><space><operator><space><cpus>",
            "<field>.function<space><equals><space><function>",
        ),
        "constant": (*words('1 0 12 0x10 "a" "*x*"'), "'b*'"),
        "named": (*["<field>"] * 8, "<field>.<modifier>", "<field>[0]", "<field>."),
        "field": (*["<own>"] * 6, "<any>"),
        "any": words(
            "common_pid common_type cpu CPU COMM comm common_cpu common_comm stacktrace STACKTRACE"
            " common_flags nosuch"
        ),
        "modifier": words("ustring function string ustring.function"),
        "space": ("", " ", " ", "\t"),
        "equals": ("==", "!="),
        "operator": (*words("== == == != != < <= > >= & ~ = =~ ! |"), ""),
        "number": words(
            "0 1 -1 0x10 010 99999999999 18446744073709551615 18446744073709551616"
            " -9223372036854775808 -9223372036854775809 08 1x +1 257 0xffffffffffffffffffff"
            " 123456789012345678901234"
        ),
        "string": (
            *words('"a" \'b*\' "*x*" "[ab]" "" "a \'it"s\''),
            f'"{"q" * 255}"',
            f'"{"q" * 256}"',
        ),
        # An address is a function or none by chance: where the kernel lies differs between boots.
        "function": ("vfs_read", "nosuch_fn", "12", "schedule)", "vfs_read ", "0x", ""),
        "odd": ("", "abc", "next_pid", "(1)", "-", "- 1", "0 x", "vfs_read", "12"),
        "cpus": (
            *words("CPUS{0} CPUS{0-1} CPUS{} CPUS{ CPUS CPUS{N} CPUS{all} CPUS{0,0} CPUS{0:1/2}"),
            *words("CPUS{0-0:1/2} CPUS{0-0:3/2} CPUS{a} CPUS{-1} CPUS{0-} CPUS{,0,} CPUS{99}"),
            "CPUS{ 0}",
            "CPUS{0 }",
        ),
        "end": (" &&", " ||", " !", " (", ")", " && !"),
    }
)
_PIECES = ("(", ")", "!", "&&", "||", '"', " ", "&", "\n")


def filter_text(random: Random, event: str) -> str:
    """Draw a filter of one of the events of FIELDS."""
    text = draw({**GRAMMAR, "own": FIELDS[event]}, "filter", random)
    text = spoiled(text, random, _PIECES)
    return text + draw(GRAMMAR, "end", random) if random.random() < 0.05 else text


def event_filter(random: Random) -> tuple[str, str]:
    """Draw an event of FIELDS and a filter of it."""
    event = random.choice(tuple(FIELDS))
    return event, filter_text(random, event)


def spoiled(text: str, random: Random, pieces: tuple[str, ...]) -> str:
    """Return a text, into which now and then a piece fell that may not belong there."""
    if random.random() >= 0.04:
        return text
    place = random.randrange(len(text) + 1)
    return text[:place] + random.choice(pieces) + text[place:]
