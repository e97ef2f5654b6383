"""Scripts with eprobes, run on recorded events."""

from pathlib import Path

import pytest

from pybpf.compiler.infer import infer
from pybpf.compiler.parser import parse_text
from pybpf.compiler.pipeline import compile_script
from pybpf.errors import LexError
from pybpf.output.text import render
from pybpf.script import Provider
from pybpf.source import Source
from pybpf.target.snapshot import SnapshotTarget
from pybpf.target.symbols import SymbolTable
from pybpf.vm.driver import read_events, run_events

SNAPSHOT = Path(__file__).parents[2] / "data/targets/6.12.tar.gz"
EVENTS = """
{"probe": "tracepoint:sched/sched_switch", "pid": 7, "comm": "bash", "data":
 {"prev_comm": "bash", "prev_pid": 7, "next_comm": "cat", "next_pid": 300, "prev_state": -1}}
{"probe": "tracepoint:sched/sched_switch", "pid": 300, "comm": "cat", "data":
 {"prev_comm": "cat", "prev_pid": 300, "next_comm": "bash", "next_pid": 7}}
{"probe": "tracepoint:syscalls/sys_enter_openat", "pid": 7, "data":
 {"filename": 4096, "dfd": -100}, "memory": {"4096": "/etc/passwd"}}
{"probe": "tracepoint:raw_syscalls/sys_enter", "pid": 7, "data":
 {"id": 257, "args": [5, 4096, 6]}, "memory": {"4096": "/etc/group"}}
""".replace("\n ", " ")


@pytest.fixture(scope="module")
def printed():
    """Return what a script prints of the recorded events."""
    target = SnapshotTarget.load(SNAPSHOT)

    def run(script):
        compiled = compile_script(script, target)
        rows = run_events(compiled, target, read_events(Source("<events>", EVENTS)))
        return "".join(render(row, SymbolTable()) for row in rows)

    return run


@pytest.mark.parametrize(
    ("script", "text"),
    [
        # numbers by their types, strings as strings
        (
            (
                'eprobe:"sched.sched_switch p=$prev_pid:u8 n=$next_pid:s32 s=$prev_state:s8" '
                "{ print(data->p, data->n, data->s); }"
            ),
            "7, 300, -1\n44, 7, 0\n",
        ),
        ('eprobe:"sched.sched_switch p=$next_pid" { print(data->p); }', "0x12c\n0x7\n"),
        (
            'eprobe:"sched.sched_switch p=$next_pid:x8" { printf("%v %d\\n", data->p, data->p); }',
            "0x2c 44\n0x7 7\n",
        ),
        (
            (
                'eprobe:"sched.sched_switch p=$prev_comm:string n=+1($next_comm):string" '
                '{ printf("%s %s\\n", data->p, data->n); }'
            ),
            "bash at\ncat ash\n",
        ),
        # as keys, in predicates, aggregations and conditions
        (
            'eprobe:"sched.sched_switch c=$prev_comm:string" { @[data->c] = count(); }',
            "\n@:\n{ bash            }: 1\n{ cat             }: 1\n",
        ),
        (
            (
                'eprobe:"sched.sched_switch c=$prev_comm:string p=$prev_pid:u32" '
                '/ !strcmp(data->c, "cat") / { print(data->p); }'
            ),
            "300\n",
        ),
        (
            'eprobe:"sched.sched_switch p=$next_pid:s64" { if (data->p > 100) @ = sum(data->p); }',
            "\n@: 300\n",
        ),
        # filters of the definition go before the predicate
        (
            'eprobe:"sched.sched_switch p=$prev_pid:u32 if prev_pid > 10" { print(data->p); }',
            "300\n",
        ),
        (
            (
                'eprobe:"sched.sched_switch p=$prev_pid:u32 if prev_pid > 10" / data->p < 10 / '
                "{ print(data->p); }"
            ),
            "",
        ),
        (
            "eprobe:\"sched.sched_switch p=$prev_pid:u32 if prev_comm ~ 'b*'\" { print(data->p); }",
            "7\n",
        ),
        (
            'eprobe:"sched.sched_switch if prev_comm == \\"cat\\"" { print(comm); }',
            "cat            \n",
        ),
        # memory
        (
            (
                'eprobe:"syscalls.sys_enter_openat f=$filename:ustring d=$dfd:s32" '
                '{ printf("%s %d\\n", data->f, data->d); }'
            ),
            "/etc/passwd -100\n",
        ),
        (
            (
                'eprobe:"raw_syscalls.sys_enter nr=$id f=+0(+8($args)):ustring a=+0($args):u64[3]" '
                '{ printf("%v %s %v\\n", data->nr, data->f, data->a); print(data->a[2]); }'
            ),
            "0x101 /etc/group [5, 4096, 6]\n6\n",
        ),
        (
            (
                'eprobe:"raw_syscalls.sys_enter x=+0(+0($args)):u32 s=+0(+0($args)):string" '
                '{ printf("%d (%s)\\n", data->x, data->s); }'
            ),
            "0 ()\n",
        ),
        # the record as a whole, constants, escapes
        (
            (
                'eprobe:"sched.sched_switch a=\\\\\\"hi\\":string b=\\10:u8 if prev_pid == 7" '
                "{ print(*data); }"
            ),
            "{\n\ta = hi     ,\n\tb = 10\n}\n",
        ),
        (
            (
                'eprobe:"sched.sched_switch\n  a=$prev_pid:u32\n  if prev_pid == 7" '
                "{ print((*data).a); }"
            ),
            "7\n",
        ),
        (
            'e:"e:my/own sched/sched_switch a=$prev_pid:u32 if prev_pid == 7" { print(data->a); }',
            "7\n",
        ),
        (
            'eprobe:"sched.sched_switch prev_pid if prev_pid == 7" { print(data->prev_pid); }',
            "0x7\n",
        ),
    ],
)
def test_scripts(script, text, printed):
    assert printed(script) == text


def test_the_parent_is_where_it_is_attached(printed):  # noqa: ARG001
    target = SnapshotTarget.load(SNAPSHOT)
    script = 'eprobe:"sched.sched_switch a=$prev_pid" { }'
    (probe,) = infer(parse_text(Source("<script>", script)), target).probes
    (spec,) = probe.specs

    assert (spec.provider, spec.tracepoint) == (Provider.EPROBE, "sched/sched_switch")


def test_a_definition_ends_at_its_quote():
    with pytest.raises(LexError):
        parse_text(Source("<script>", 'eprobe:"sched.sched_switch { print(1); }'))
