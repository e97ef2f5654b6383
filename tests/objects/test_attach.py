"""Programs are attached to what their sections name, and count what happens there."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pybpf.errors import KernelError, ObjectError
from pybpf.objects.attached import Where
from pybpf.objects.object import Object

RELEASE = tuple(map(int, os.uname().release.split("-")[0].split(".")[:2]))
ACT = Path(__file__).with_name("act.py")

pytestmark = pytest.mark.kernel


def test_programs_of_this_process_count_what_it_does(opened):
    held = opened("counting")
    held.rodata.pid = os.getpid()
    held.load()
    names = {each.program for each in held.attach()}
    assert names == {"on_tracepoint", "on_raw", "on_typed", "on_entry", "on_return"}
    for _ in range(3):
        os.getppid()
    held.detach()
    os.getppid()
    found = held.bss
    assert found.tracepoints == found.entered == found.returned == 3
    assert found.raw >= found.typed >= 3
    before = found.raw
    os.getppid()
    assert found.raw == before


def test_user_probes_of_one_process(opened):
    held = opened("counting")
    for name, program in held.programs.items():
        program.autoload = name in {"on_entry", "on_return"}
    held.load()
    with subprocess.Popen(
        [sys.executable, "-c", "import os; input(); os.getppid(); os.getppid()"],
        stdin=subprocess.PIPE,
    ) as child:
        held.attach(pid=child.pid)
        os.getppid()
        child.communicate(b"\n")
    assert held.bss.entered == held.bss.returned == 2


def test_perf_events(opened):
    held = opened("counting")
    for name, program in held.programs.items():
        program.autoload = name == "on_sample"
    held.load()
    held.attach(frequency=999)
    until = time.monotonic() + 20
    while not held.bss.samples and time.monotonic() < until:
        sum(range(10_000))
    assert held.bss.samples


WITHOUT = {
    "on_sample": "runs as often as is said",
    "on_receive": "is attached to a network interface",
    "on_ingress": "is attached to a network interface",
    "on_egress": "is attached to a network interface",
    "on_packet": "filters what a socket sees",
    "on_group": "is attached to a cgroup",
}


def test_what_must_be_said_is_told(opened):
    held = opened("counting").load()
    held.attach()
    assert set(held.unattached) == set(WITHOUT)
    for name, reason in WITHOUT.items():
        said, *hints = held.unattached[name].splitlines()
        assert said == f'program {name} (SEC("{held.programs[name].section}")) {reason}'
        assert hints


def test_networks(apart):
    done = apart(
        'load $OBJECTS/counting.el.o --attach --dev lo --json --dump -c "$act" '
        "--prog on_receive --prog on_ingress --prog on_egress --prog on_packet"
    )
    assert done.stderr == ""
    (row,) = [json.loads(line) for line in done.stdout.splitlines() if ".bss" in line]
    found = row["variables"]
    assert found["received"] == found["seen"] == found["sent"] == 5
    assert found["filtered"] == 10  # a packet socket sees what is sent, and what is received


def test_nothing_stays_attached_to_the_network(apart):
    done = apart(
        "load $OBJECTS/counting.el.o --attach --dev lo -c true\n"
        "ip link show dev lo; tc filter show dev lo ingress; tc qdisc show dev lo"
    )
    assert "xdp" not in done.stdout
    assert "bpf" not in done.stdout
    assert "clsact" not in done.stdout


def test_the_filters_of_older_kernels(apart):
    """What Linux 6.6 has links for is done by netlink where the kernel has none."""
    script = f"""
import os, subprocess, sys
from pybpf import Object
from pybpf.kernel.netlink import Classifier, interface

def shown(way):
    return subprocess.check_output(["tc", "filter", "show", "dev", "lo", way], text=True)

with Object.open(os.environ["OBJECTS"] + "/counting.el.o") as held:
    held.load()
    lo = interface("lo")
    ways = [Classifier(lo, held.programs[name].kernel, name, ingress=name == "on_ingress")
            for name in ("on_ingress", "on_egress", "on_egress")]
    assert "on_ingress" in shown("ingress") and "on_ingress" not in shown("egress")
    assert shown("egress").count("on_egress direct-action") == 2
    subprocess.run([sys.executable, {str(ACT)!r}], check=True)
    print(held.bss.seen, held.bss.sent)
    for way in ways:
        way.close()
        way.close()
print(repr(shown("ingress") + shown("egress")),
      "clsact" in subprocess.check_output(["tc", "qdisc", "show", "dev", "lo"], text=True))
"""
    done = apart(f"{sys.executable} -W error - <<'END'\n{script}END\n")
    assert done.stdout == "5 5\n'' False\n"


def test_cgroups(apart):
    done = apart(
        'load $OBJECTS/counting.el.o --attach --cgroup self --prog on_group --dump -c "$act"'
    )
    assert "  egress = 5\n" in done.stdout


def test_iterators_are_read(opened):
    held = opened("iter").load()
    (each,) = held.attach()
    pids = memoryview(each.read()).cast("i").tolist()
    assert os.getpid() in pids


def test_iterators_over_a_map_want_one(opened):
    held = opened("iter_map").load()
    assert held.attach() == []
    said, hint = held.unattached["each_entry"].splitlines()
    assert said.endswith(") goes over the entries of a map, which it does not name")
    assert hint == "  hint: `bpftool iter pin FILE.o PATH map MAP` names one"


def test_structures_of_operations(opened):
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    held = opened("struct_ops").load()
    assert "slow" not in available.read_text().split()
    (each,) = held.attach()
    assert each.program == "slow"
    assert "slow" in available.read_text().split()
    held.detach()
    assert "slow" not in available.read_text().split()


@pytest.mark.parametrize(
    ("name", "where", "message"),
    [
        ("xdp_pass", {"dev": "nosuch0"}, "the network interface nosuch0: No such device"),
        ("cgroup_skb", {"cgroup": "/nosuch"}, "cannot use the cgroup /nosuch: No such file"),
        ("sk_lookup", {"netns": "/nosuch"}, "to the network namespace /nosuch: No such file"),
    ],
)  # fmt: skip
def test_places_that_are_not_there(opened, name, where, message):
    held = opened(name).load()
    with pytest.raises(KernelError, match=message):
        held.attach(**where)
    assert held.attached == []


def test_where_one_fails_nothing_is_attached(opened, objects_of):
    held = opened("counting").load()
    before = objects_of()
    with pytest.raises(KernelError):
        held.attach(Where(dev="nosuch0"))
    assert objects_of() == before


def test_a_program_is_given_another_target(opened):
    held = opened("counting")
    for name, program in held.programs.items():
        program.autoload = name in {"on_tracepoint", "on_typed", "on_entry"}
    held.rodata.pid = os.getpid()
    held.programs["on_tracepoint"].target = "syscalls/sys_enter_getuid"
    held.programs["on_typed"].target = "sys_exit"
    held.programs["on_entry"].target = "libc.so.6:getuid"
    held.load()
    held.attach()
    os.getuid()
    os.getuid()
    assert held.bss.tracepoints == held.bss.entered == 2
    assert held.bss.typed >= 2


@pytest.mark.parametrize(
    ("program", "target", "message"),
    [
        ("on_tracepoint", "sched", "does not name a tracepoint as category/event"),
        ("on_tracepoint", "", "does not say what it is attached to, such as sched/sched_switch"),
    ],
)
def test_targets_that_are_none(opened, program, target, message):
    held = opened("counting").load()
    held.programs[program].target = target
    held.attach()
    assert message in held.unattached[program]


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ("libc.so.6:getpid_", KernelError, "no function of the file is called so; did you mean"),
        ("/nosuch:main", KernelError, "cannot open /nosuch: No such file or directory"),
        ("nosuch.so:main", KernelError, "cannot find nosuch.so, of which main is to be probed"),
        ("/etc/passwd:main", ObjectError, "/etc/passwd: no program or library: "),
        ("main", ObjectError, "main is no place in a program, as /bin/sh:main is"),
        ("libc.so.6:getppid+x", ObjectError, r"\+x is no number of bytes"),
    ],
)
def test_places_in_programs_that_are_none(opened, target, error, message):
    held = opened("counting").load()
    held.programs["on_entry"].target = target
    with pytest.raises(error, match=message):
        held.attach()
    assert held.attached == []


def test_a_killed_process_leaves_nothing(c_objects, objects_of, gone):
    script = (
        "import sys, time; from pybpf import Object\n"
        f"held = Object.open('{c_objects}/counting.el.o').load()\n"
        "held.attach(); print(flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout.readline()
        objects = objects_of(child.pid)
        assert {kind for kind, _ in objects} == {"prog", "map", "link"}
        child.send_signal(signal.SIGKILL)
    assert gone(objects)


def test_a_loaded_object_is_not_loaded_again(opened):
    held = opened("xdp_pass").load()
    with pytest.raises(ObjectError, match="it is loaded already"):
        held.load()
    assert isinstance(held, Object)


def test_many_functions_of_a_library(opened):
    from pybpf.kernel import features

    if not features.uprobe_multi():
        pytest.skip("this kernel has no uprobe.multi (Linux 6.6)")
    held = opened("uprobe_multi")
    held.rodata.pid = os.getpid()
    held.load()
    assert len(held.attach()) == 2
    for _ in range(3):
        os.getppid()
    held.detach()
    assert held.bss.entered == held.bss.returned == 3


@pytest.mark.parametrize(
    ("name", "option", "program"),
    [
        ("sk_lookup", "--netns self --prog select", "select"),
        ("flow_dissector", "--netns self", "dissect"),
        ("netfilter", "--netfilter ipv4:input:-100", "hook"),
        ("cgroup_sock", "--cgroup self", None),
        ("cgroup_addr", "--cgroup self", None),
        ("cgroup_other", "--cgroup self", None),
        ("sockops", "--cgroup self", None),
        ("cgroup_storage", "--cgroup self", None),
    ],
)
def test_places_without_names(apart, name, option, program):
    if name == "netfilter" and RELEASE < (6, 4):
        pytest.skip("this kernel has no programs for netfilter (Linux 6.4)")
    done = apart(f"load $OBJECTS/{name}.el.o --attach {option} -v -c true")
    attached = re.search(r"^attached: (.*)$", done.stderr, re.MULTILINE)[1].split(", ")
    assert "not attached" not in done.stderr
    assert program is None or attached == [program]


def test_maps_of_sockets(opened):
    held = opened("sk_skb").load()
    held.attach()
    assert "program.attach_to(map)" in held.unattached["verdict"]
    held.programs["verdict"].attach_to(held.maps["sockets"])
    other = opened("values").load()
    with pytest.raises(KernelError, match="cannot attach to the map"):
        held.programs["verdict"].attach_to(other.maps["records"])


def test_one_of_several_programs_is_attached(apart):
    name = "tail_call.el.o --attach-prog entry --dev lo"
    done = apart(f"load $OBJECTS/{name} -c true -v 2>&1 | grep ^attached")
    assert done.stdout == "attached: entry\n"


def test_a_program_is_attached_alone(opened):
    held = opened("counting")
    held.rodata.pid = os.getpid()
    held.load()
    held.programs["on_tracepoint"].autoattach = False
    assert "on_tracepoint" not in {each.program for each in held.attach()}
    held.detach()
    with held.programs["on_tracepoint"].attach() as attached:
        assert held.attached == [attached]
        os.getppid()
    os.getppid()
    assert held.attached == []
    assert held.bss.tracepoints == 1


def test_a_place_that_is_taken_names_who_has_it(apart):
    done = apart("load $OBJECTS/xdp_two.el.o --attach --dev lo -c true", check=False)
    assert done.returncode == 1
    first, *hints = done.stderr.splitlines()
    assert first == (
        "error: cannot attach second to the interface lo: Device or resource busy (errno 16)"
    )
    assert hints[0] == "  hint: first of the same object has just been attached there"


def test_a_refusal_of_root_does_not_ask_for_root(opened):
    refusal = None
    try:
        opened("fentry").load()
    except KernelError as error:
        refusal = error
    if refusal is None or refusal.errno != errno.EPERM:
        pytest.skip("this kernel does not refuse it with EPERM")
    assert refusal.hints[0] == (
        "this process has the rights: this kernel, or its policy, refuses a program of type tracing"
    )
