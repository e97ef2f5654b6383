"""Attachments: programs run from attach to detach, by links or, on old kernels, by ioctl."""

import os

import pytest

from pybpf.compiler.pipeline import compile_script
from pybpf.errors import KernelError
from pybpf.kernel import attach, syscall
from pybpf.kernel.attach import Attachments
from pybpf.kernel.live import LiveTarget
from pybpf.kernel.loader import Loaded

pytestmark = pytest.mark.kernel

SCRIPT = "tracepoint:syscalls/sys_enter_getppid / pid == $target / { @[1] = count(); }"


class Attached:
    """A script that counts this process's calls of getppid, attached step by step."""

    def __init__(self, text=SCRIPT):
        self.target = LiveTarget({"target": str(os.getpid())})
        self.script = compile_script(text, self.target)
        self.loaded = Loaded(self.script)
        self.attachments = Attachments(self.target)
        self.steps = [self.attachments.open(p, self.loaded.program(p)) for p in self.script.probes]

    def attach(self):
        for step in self.steps:
            step()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.attachments.close()
        self.loaded.close()

    def count(self):
        return sum(
            int.from_bytes(value, "little")
            for _, values in self.loaded.items("@")
            for value in values
        )


def refuse_links(monkeypatch, number):
    def refuse(_prog, _event):
        raise KernelError(number, "cannot attach to tracepoint:syscalls")

    monkeypatch.setattr(syscall, "link_perf_event", refuse)


@pytest.mark.parametrize("links", [True, False])
def test_a_program_runs_from_attach_to_detach(monkeypatch, links):
    if not links:
        refuse_links(monkeypatch, 22)  # as Linux before 5.15 does
    with Attached() as run:
        os.getppid()
        run.attach()
        os.getppid()
        os.getppid()
        run.attachments.detach()
        os.getppid()
        assert run.count() == 2


def test_another_refusal_of_a_link_is_an_error(monkeypatch):
    refuse_links(monkeypatch, 12)
    with (
        Attached() as run,
        pytest.raises(KernelError, match="cannot attach to tracepoint:syscalls"),
    ):
        run.attach()


def test_many_are_detached_at_once(monkeypatch):
    monkeypatch.setattr(attach, "_CLOSERS", 3)
    with Attached(SCRIPT * 8) as run:
        run.attach()
        os.getppid()
        run.attachments.detach()
        os.getppid()
        assert run.count() == 8


def test_closing_twice_is_allowed():
    with Attached() as run:
        run.attach()
        run.attachments.close()
        run.attachments.detach()
        run.attachments.close()
