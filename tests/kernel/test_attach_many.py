"""Patterns of many functions, on a kernel made up here: links, what is skipped, limits, signals."""

import errno
import math
import os
import threading
from dataclasses import dataclass, field

import pytest

from pybpf.errors import KernelError, TargetError
from pybpf.isa.insn import Program
from pybpf.kernel import attach, features, syscall
from pybpf.kernel.attach import Attachments, Skipped
from pybpf.kernel.fd import Fd
from pybpf.script import KernelFunction, ProbeSpec, Provider
from pybpf.target.symbols import SymbolTable

COUNT = 1000
NAMES = [f"f{n}" for n in range(COUNT)]
START = 0xFFFF_FFFF_8100_0000


@dataclass
class Opened:
    """A link or an event, and whether it is open."""

    places: list
    kernel: "Kernel"
    open: bool = True

    def close(self):
        self.open = False


@dataclass
class Kernel:
    """Which functions it refuses, and what it was asked for."""

    refused: dict = field(default_factory=dict)
    links: list = field(default_factory=list)
    events: list = field(default_factory=list)
    calls: int = 0

    def link(self, _prog, addresses, *, on_return):
        assert not on_return
        self.calls += 1
        for address in addresses:
            self._check(address)
        self.links.append(Opened(addresses, self))
        return self.links[-1]

    def event(self, _type, _config, _name, address, *, cpu):
        assert cpu >= 0
        self._check(address)
        self.events.append(Opened([address], self))
        return self.events[-1]

    def _check(self, address):
        number = self.refused.get(f"f{(address - START) // 16}")
        if number:
            raise KernelError(number, "made up")

    def attached(self):
        """Return the names that open links reach."""
        places = [place for one in self.links if one.open for place in one.places]
        return sorted(places)


class Target:
    symbols = SymbolTable((START + 16 * n, name) for n, name in enumerate(NAMES))
    entries = frozenset


@pytest.fixture
def kernel(monkeypatch):
    kernel = Kernel()
    monkeypatch.setattr(syscall, "link_kprobe_multi", kernel.link)
    monkeypatch.setattr(syscall, "perf_open_probe", kernel.event)
    monkeypatch.setattr(features, "kprobe_multi", lambda: True)
    monkeypatch.setattr(features, "pmu", lambda _: features.Pmu(6, {"retprobe": 1}))
    return kernel


def pattern(names, *, traced=True):
    places = tuple(KernelFunction(name) for name in names)
    return ProbeSpec(
        Provider.KPROBE, "kprobe:f*", Program(()), functions=places, glob=True, traced=traced
    )


def addresses(names):
    return sorted(START + 16 * int(name[1:]) for name in names)


def test_one_link_reaches_all(kernel):
    Attachments(Target()).open(pattern(NAMES), None)()
    assert kernel.attached() == addresses(NAMES)
    assert kernel.calls == 1


@pytest.mark.parametrize(
    "bad", [["f0"], ["f999"], ["f500"], ["f3", "f4", "f700"], [f"f{n}" for n in range(0, 1000, 90)]]
)
def test_refused_functions_are_found_by_halving_and_one_link_reaches_the_rest(kernel, bad):
    kernel.refused = dict.fromkeys(bad, errno.EADDRNOTAVAIL)
    attachments = Attachments(Target())
    attachments.open(pattern(NAMES), None)()
    assert kernel.attached() == addresses(set(NAMES) - set(bad))
    assert sum(link.open for link in kernel.links) == 1
    reason = "Cannot assign requested address"
    assert sorted(attachments.skipped, key=lambda one: int(one.function[1:])) == [
        Skipped("kprobe:f*", name, reason) for name in bad
    ]
    assert kernel.calls <= 2 + 2 * len(bad) * math.ceil(math.log2(COUNT))


@pytest.mark.parametrize("names", [["f7"], ["f7", "f8"]])
def test_where_all_are_refused_it_is_an_error(kernel, names):
    kernel.refused = dict.fromkeys(names, errno.EINVAL)
    with pytest.raises(KernelError) as error:
        Attachments(Target()).open(pattern(names), None)()
    assert str(error.value) == (
        "cannot probe any of the functions that kprobe:f* stands for: "
        "No such file or directory (errno 2)\n  hint: the kernel said: Invalid argument"
    )


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOMEM])
def test_what_would_be_refused_for_any_function_is_an_error_at_once(kernel, number):
    kernel.refused = {"f5": number}
    with pytest.raises(KernelError, match="made up"):
        Attachments(Target()).open(pattern(NAMES), None)()
    assert kernel.calls == 1


LIMIT = (
    "kprobe:f* stands for 1,000 functions: {}, each takes an event of its own, and 999 may be "
    "opened\n"
    "  hint: choose fewer functions by a narrower pattern: `pybpf list` shows what one matches\n"
    "  hint: `pybpf run --max-probes 1000` allows as many, and takes its time"
)


@pytest.mark.parametrize(
    ("multi", "traced", "why"),
    [
        (False, True, "without kprobe.multi (Linux 5.18, CONFIG_FPROBE)"),
        (True, False, "as it uses registers that kprobe.multi does not have"),
    ],
)
def test_events_have_a_limit(kernel, monkeypatch, multi, traced, why):
    monkeypatch.setattr(features, "kprobe_multi", lambda: multi)
    with pytest.raises(TargetError) as error:
        Attachments(Target(), max_probes=999).open(pattern(NAMES, traced=traced), None)
    assert str(error.value) == LIMIT.format(why)
    assert kernel.events == []


@pytest.mark.usefixtures("kernel")
def test_the_limit_is_for_all_patterns_together(monkeypatch):
    monkeypatch.setattr(features, "kprobe_multi", lambda: False)
    attachments = Attachments(Target(), max_probes=COUNT)
    attachments.open(pattern(NAMES), None)
    with pytest.raises(TargetError, match="stands for 1 functions, with the patterns before it 1,"):
        attachments.open(pattern(["f1"]), None)


@pytest.mark.usefixtures("kernel")
def test_the_limit_is_not_for_links():
    attachments = Attachments(Target(), max_probes=1)
    attachments.open(pattern(NAMES), None)()
    assert attachments.files(pattern(NAMES)) == 1


def test_refused_functions_take_no_events(kernel, monkeypatch):
    monkeypatch.setattr(features, "kprobe_multi", lambda: False)
    kernel.refused = {"f2": errno.EINVAL, "f4": errno.EBUSY}
    attachments = Attachments(Target())
    attachments.open(pattern(NAMES[:5]), None)
    assert [event.places for event in kernel.events] == [
        [at] for at in addresses(["f0", "f1", "f3"])
    ]
    assert [(one.function, one.reason) for one in attachments.skipped] == [
        ("f2", "Invalid argument"),
        ("f4", "Device or resource busy"),
    ]


def test_too_many_open_files_are_explained(kernel, monkeypatch):
    import resource

    monkeypatch.setattr(features, "kprobe_multi", lambda: False)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    kernel.refused = {"f600": errno.EMFILE}
    with pytest.raises(KernelError) as error:
        Attachments(Target()).open(pattern(NAMES), None)
    assert str(error.value) == (
        "cannot attach kprobe:f*: Too many open files (errno 24)\n"
        "  hint: 1,000 functions take two files each, and this process may have 1,024 open: "
        "see `ulimit -Hn`"
    )


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("multi", [True, False])
def test_progress_is_told(monkeypatch, multi):
    monkeypatch.setattr(features, "kprobe_multi", lambda: multi)
    told = []
    attachments = Attachments(Target(), progress=lambda done, count: told.append((done, count)))
    monkeypatch.setattr(attach.Attachments, "_event", lambda *_: lambda: None)
    attachments.open(pattern(NAMES[:3]), None)()
    steps = (0, 3) if multi else range(4)
    assert told == [(done, 3) for done in steps]


@pytest.mark.parametrize("multi", [True, False])
def test_what_progress_raises_ends_it(kernel, monkeypatch, multi):
    def interrupted(done, _count):
        if done >= 2:
            raise KeyboardInterrupt(2)

    monkeypatch.setattr(features, "kprobe_multi", lambda: multi)
    attachments = Attachments(Target(), progress=interrupted)
    with pytest.raises(KeyboardInterrupt):
        attachments.open(pattern(NAMES), None)()
    attachments.close()
    opened = kernel.links + kernel.events
    assert len(opened) == (1 if multi else 2)
    assert not any(one.open for one in opened)


@pytest.mark.parametrize("threads", [0, 3])
def test_all_is_closed_where_threads_are_few(monkeypatch, threads):
    started = []

    def start(thread, _start=threading.Thread.start):
        if len(started) >= threads:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        _start(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    files = [Fd(os.open("/", os.O_PATH)) for _ in range(40)]
    attach._close(files)
    assert all(file.closed for file in files)
    assert len(started) <= threads
